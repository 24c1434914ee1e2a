"""Which validators an output must pass, and what a failed one means."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rqueue.task.attempt.outcome import Reason
from rqueue.task.spec import TaskSpec
from rqueue.task.validation import Check, Command
from rqueue.worker.validators.run import (
    MAX_WHY,
    allowed,
    failed,
    report_fault,
    unchecked,
    validators_of,
)


def terms(**validation: Any) -> Any:
    every = {"*": validation.pop("every")} if "every" in validation else {}
    return SimpleNamespace(validation={**validation, **every})


def kinds(checks: tuple[Check, ...]) -> list[str]:
    return [check.kind for check in checks]


def test_a_plain_task_without_validators_passes() -> None:
    assert validators_of("code", None, terms()) == ()
    assert validators_of("code", TaskSpec.of(type="code"), terms()) == ()


def test_the_validators_of_a_task_come_before_those_of_its_queue() -> None:
    spec = TaskSpec.of(type="code", validation="regex", validation_schema="a")
    required = terms(code=["llm-judge"], other=["regex"], every=["decision-report", "llm-judge"])

    assert kinds(validators_of("code", spec, required)) == ["regex", "llm-judge", "decision-report"]
    assert kinds(validators_of("plain", None, required)) == ["decision-report", "llm-judge"]


def test_the_options_of_a_task_override_those_of_its_queue() -> None:
    spec = TaskSpec.of(type="code", validation="llm-judge", validation_schema="be kind")

    assert validators_of("code", spec, terms(every=["llm-judge"])) == (
        Check("llm-judge", "be kind"),
    )


def test_a_schema_that_is_not_given_accepts_everything() -> None:
    spec = TaskSpec.of(type="code", validation="json-schema")

    assert validators_of("code", spec, terms()) == ()


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
def test_an_empty_report_is_refused(report: Any) -> None:
    assert "not empty" in report_fault({"decisionReport": report})


def test_a_report_with_content_passes() -> None:
    assert report_fault({"decisionReport": {"why": "faster"}, "output": 1}) == ""


def test_a_failure_has_a_reason_and_names_the_validator() -> None:
    wrong, missing = failed("regex", "no match"), failed("decision-report", "missing")

    assert (wrong.reason, wrong.message) == (Reason.INVALID_OUTPUT, "regex: no match")
    assert (missing.reason, missing.permanent) == (Reason.INCOMPLETE, False)
    assert missing.reason.family is Reason.INVALID_OUTPUT
    assert unchecked("llm-judge", "unavailable").reason is Reason.ERROR


def test_a_failure_message_is_shortened() -> None:
    found = failed("test-pass", "a" + "x" * 100_000 + "z").message

    assert len(found) < MAX_WHY + 100
    assert (found[:12], found[-1]) == ("test-pass: a", "z")
