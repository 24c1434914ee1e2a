"""What an output must pass, and what a failed check means."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rqueue.model.attempt import Reason
from rqueue.model.proof import Check, Command
from rqueue.model.spec import TaskSpec
from rqueue.policy.validation import (
    MAX_WHY,
    allowed,
    demanded,
    failed,
    report_fault,
    unchecked,
)


def terms(**validation: Any) -> Any:
    every = {"*": validation.pop("every")} if "every" in validation else {}
    return SimpleNamespace(validation={**validation, **every})


def kinds(checks: tuple[Check, ...]) -> list[str]:
    return [check.kind for check in checks]


def test_a_plain_task_of_a_queue_that_asks_for_nothing_passes() -> None:
    assert demanded("code", None, terms()) == ()
    assert demanded("code", TaskSpec.of(type="code"), terms()) == ()


def test_a_task_is_asked_for_its_own_first_and_then_what_its_queue_wants() -> None:
    spec = TaskSpec.of(type="code", validation="regex", validation_schema="a")
    asked = terms(code=["llm-judge"], other=["regex"], every=["decision-report", "llm-judge"])

    assert kinds(demanded("code", spec, asked)) == ["regex", "llm-judge", "decision-report"]
    assert kinds(demanded("plain", None, asked)) == ["decision-report", "llm-judge"]


def test_what_a_task_says_of_a_kind_holds_where_its_queue_asks_for_it_too() -> None:
    spec = TaskSpec.of(type="code", validation="llm-judge", validation_schema="be kind")

    assert demanded("code", spec, terms(every=["llm-judge"])) == (Check("llm-judge", "be kind"),)


def test_a_schema_that_is_not_given_asks_for_nothing() -> None:
    spec = TaskSpec.of(type="code", validation="json-schema")

    assert demanded("code", spec, terms()) == ()


@pytest.mark.parametrize(
    ("words", "commands", "may"),
    [
        (("make", "test"), [], False),
        (("make", "test"), [["make", "test"]], True),
        (("make", "test", "-B"), [["make", "test"]], False),
        (("make",), [["make", "test"]], False),
        (("make", "test"), [["make", "*"]], True),
        (("make",), [["make", "*"]], True),
        (("rm", "test"), [["make", "*"]], False),
        (("anything", "goes"), [["*"]], True),
        (("make", "b"), [["make", "*", "b"]], False),
    ],
)
def test_a_command_is_allowed_word_for_word_or_up_to_a_last_star(
    words: tuple[str, ...], commands: list[list[str]], may: bool
) -> None:
    assert allowed(Command(words), commands) is may


@pytest.mark.parametrize(
    "output", [None, {}, "text", ["decisionReport"], {"decision": 1}, {"decisionReport": None}]
)
def test_an_output_without_a_report_is_incomplete(output: Any) -> None:
    assert report_fault(output).startswith("missing")


@pytest.mark.parametrize("report", [{}, [], "text", 7, True])
def test_a_report_that_says_nothing_is_none(report: Any) -> None:
    assert "not empty" in report_fault({"decisionReport": report})


def test_a_report_that_says_something_passes() -> None:
    assert report_fault({"decisionReport": {"why": "faster"}, "output": 1}) == ""


def test_a_failure_is_typed_and_says_which_and_why() -> None:
    wrong, missing = failed("regex", "no match"), failed("decision-report", "missing")

    assert (wrong.reason, wrong.message) == (Reason.INVALID_OUTPUT, "regex: no match")
    assert (missing.reason, missing.permanent) == (Reason.INCOMPLETE, False)
    assert missing.reason.family is Reason.INVALID_OUTPUT
    assert unchecked("llm-judge", "away").reason is Reason.ERROR


def test_no_failure_speaks_without_end() -> None:
    found = failed("test-pass", "a" + "x" * 100_000 + "z").message

    assert len(found) < MAX_WHY + 100
    assert (found[:12], found[-1]) == ("test-pass: a", "z")
