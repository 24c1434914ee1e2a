"""How a task specifies the checks of its output."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.errors import InvalidTask
from rqueue.task.spec import TaskSpec
from rqueue.task.validation import Check, Command, checks_of, command_of


def a_spec(**fields: Any) -> TaskSpec:
    return TaskSpec.parse({"type": "code", **fields})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("none", "none"),
        ([], "none"),
        ("regex", "regex"),
        (["regex"], "regex"),
        (["regex", "regex"], "regex"),
        (["llm-judge", "regex"], ("llm-judge", "regex")),
    ],
)
def test_one_or_several_kinds_keep_their_order(given: Any, kept: Any) -> None:
    schema: Any = {"regex": "a"} if isinstance(kept, tuple) else "a"

    spec = a_spec(validation=given, validation_schema=schema)

    assert spec.validation == kept
    assert TaskSpec.from_definition(spec.definition()) == spec


@pytest.mark.parametrize("given", ["by-hand", ["none"], ["regex", "x"], 3, {"regex": 1}, [["a"]]])
def test_an_unknown_kind_is_refused(given: Any) -> None:
    with pytest.raises(InvalidTask, match="validation: "):
        a_spec(validation=given)


def test_one_kind_has_the_schema_and_several_kinds_have_one_each() -> None:
    several = a_spec(
        validation=["regex", "decision-report", "llm-judge"],
        validation_schema={"regex": "a+", "llm-judge": ["be kind"]},
    )

    assert a_spec(validation="llm-judge", validation_schema="be kind").checks == (
        Check("llm-judge", "be kind"),
    )
    assert several.checks == (
        Check("regex", "a+"),
        Check("decision-report"),
        Check("llm-judge", ["be kind"]),
    )
    assert a_spec().checks == ()


@pytest.mark.parametrize(
    ("kind", "schema", "rule"),
    [
        ("regex", None, "is a pattern of 1"),
        ("regex", "", "is a pattern of 1"),
        ("regex", "a" * 1001, "is a pattern of 1"),
        ("regex", "(", "is not a pattern"),
        ("regex", ["a"], "is a pattern of 1"),
        ("json-schema", "text", "is a JSON Schema"),
        ("json-schema", [1], "is a JSON Schema"),
        ("test-pass", None, "is a list of words"),
        ("test-pass", "pytest -q", "is a list of words"),
        ("test-pass", [], "of 1 to 64 words"),
        ("test-pass", ["a"] * 65, "of 1 to 64 words"),
        ("test-pass", ["a", ""], "has words and a cwd"),
        ("test-pass", ["a", 3], "has words and a cwd"),
        ("test-pass", {"command": ["a"], "cwd": ""}, "has words and a cwd"),
        ("test-pass", {"command": ["a"], "shell": True}, "is a list of words"),
        ("test-pass", {"cwd": "/"}, "of 1 to 64 words"),
        ("test-pass", {"command": ["a"], "timeout_sec": 0}, "timeout_sec above 0"),
        ("test-pass", {"command": ["a"], "timeout_sec": True}, "timeout_sec above 0"),
        ("test-pass", {"command": ["a"], "timeout_sec": "1"}, "timeout_sec above 0"),
        ("decision-report", {"a": 1}, "has no settings"),
        (["regex", "llm-judge"], "a", "maps each of regex, llm-judge"),
        (["regex", "llm-judge"], {"regex": "("}, "validation_schema.regex: is not a pattern"),
        (["regex", "llm-judge"], {"regex": "a", "x": 1}, "validation_schema.x: is not named"),
        (["regex", "llm-judge"], None, "validation_schema.regex: is a pattern"),
    ],
)
def test_a_setting_that_does_not_fit_its_kind_is_refused(kind: Any, schema: Any, rule: str) -> None:
    with pytest.raises(InvalidTask, match="validation_schema") as caught:
        a_spec(validation=kind, validation_schema=schema)

    assert rule in str(caught.value)


def test_json_schema_needs_no_schema() -> None:
    assert checks_of("json-schema", None) == (Check("json-schema"),)


def test_a_word_of_a_command_contains_no_nul() -> None:
    with pytest.raises(InvalidTask, match="none a NUL"):
        command_of(["a\0b"])


@pytest.mark.parametrize(
    ("value", "command"),
    [
        (["a", "b c"], Command(("a", "b c"))),
        ({"command": ["a"], "cwd": "x", "timeout_sec": 2.5}, Command(("a",), "x", 2.5)),
    ],
)
def test_a_command_is_a_list_of_words_or_an_object(value: Any, command: Command) -> None:
    assert command_of(value) == command
