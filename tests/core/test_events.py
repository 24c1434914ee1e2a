"""Events in entries of the stream, well formed or not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rqueue.core.events import CATALOGUE, Kind, Severity, event_of
from rqueue.task.ids import DagId, TaskId, new_task_id

ID = "1700000000123-4"
TASK = new_task_id()


def test_an_event_of_a_task_is_typed() -> None:
    fields = {"event": "task.retrying", "task": TASK.ulid, "detail": "timeout 2 60000"}

    event = event_of(ID, fields)

    assert (event.id, event.name, event.severity) == (ID, "task.retrying", Severity.NOTICE)
    assert event.at == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert (event.task, event.tasks, event.dag) == (TASK, (TASK,), None)
    assert event.detail == {"reason": "timeout", "attempts": 2, "delay_ms": 60000}
    assert event.summary == f"Task {TASK} retry 2, backoff 60000 ms: timeout"


def test_an_event_may_be_about_several_tasks() -> None:
    other = new_task_id()

    event = event_of(
        ID, {"event": "task.ready", "task": f"{TASK.ulid} {other.ulid}", "detail": "2"}
    )

    assert event.tasks == (TASK, other)
    assert isinstance(event.tasks[1], TaskId)
    assert event.subject == f"{TASK} {other}"


@pytest.mark.parametrize(
    ("fields", "subject", "detail"),
    [
        ({"event": "breaker.opened", "breaker": "code", "detail": "500"}, "code", {"for_ms": 500}),
        ({"event": "worker.lost", "worker": "w1", "detail": "3"}, "w1", {"leases": 3}),
        ({"event": "role.set", "role": "agent:a", "detail": "agent"}, "agent:a", {"role": "agent"}),
        ({"event": "budget.exhausted", "budget": "day", "detail": "day"}, "day",
         {"account": "day"}),
    ],
)  # fmt: skip
def test_the_subject_is_the_field_named_by_the_first_word_of_the_event(
    fields: dict[str, str], subject: str, detail: dict[str, object]
) -> None:
    event = event_of(ID, fields)

    assert (event.subject, event.detail, event.task, event.dag) == (subject, detail, None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"event": "dag.completed", "dag": TASK.ulid, "detail": "3"},
        {"event": "budget.exhausted", "budget": TASK.ulid, "detail": "dag"},
    ],
)
def test_an_event_of_a_dag_has_its_id(fields: dict[str, str]) -> None:
    event = event_of(ID, fields)

    assert event.dag == f"dag_{TASK.ulid}"
    assert isinstance(event.dag, DagId)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"event": ""},
        {"event": "task.unheard_of", "task": TASK.ulid, "detail": "x"},
        {"event": "task.retrying", "task": "no id", "detail": "error often late"},
        {"event": "task.retrying", "task": "", "detail": ""},
        {"event": "dag.failed", "dag": "", "detail": "many"},
        {"event": "worker.lost", "worker": "{detail} \ud800\x00", "detail": "{0}"},
    ],
)
def test_a_malformed_detail_is_kept_as_text(fields: dict[str, str]) -> None:
    event = event_of(ID, fields)

    assert event.detail == {"text": fields.get("detail", "")}
    assert event.summary.startswith(event.name)
    assert event.document()["event"] == fields.get("event", "")


def test_a_text_may_hold_braces_and_blanks() -> None:
    event = event_of(ID, {"event": "task.cancelled", "task": TASK.ulid, "detail": "no {need} it"})

    assert event.detail == {"reason": "no {need} it"}
    assert event.summary.endswith("was cancelled: no {need} it")


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: kind.name)
def test_every_kind_has_a_summary(kind: Kind) -> None:
    detail_text = " ".join("7" for _ in kind.parts)

    event = event_of(ID, {"event": kind.name, kind.about: TASK.ulid, "detail": detail_text})

    assert "text" not in event.detail
    assert "{" not in event.summary
    assert TASK.ulid in event.summary


def test_severities_are_ranked() -> None:
    assert [one.rank for one in Severity] == [0, 1, 2, 3]
    named = ("task.dead_lettered", "breaker.opened", "worker.lost", "budget.exhausted")
    assert all(CATALOGUE[name].severity.rank >= Severity.WARNING.rank for name in named)
