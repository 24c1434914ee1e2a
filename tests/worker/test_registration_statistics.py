"""The failure statistics of a worker, about itself and about others."""

from __future__ import annotations

import pytest

from rqueue.core.leases import Settled
from rqueue.task.attempt.blame import Culprit, WorkerRule
from rqueue.worker.registration import MOST_IN_A_ROW, MOST_TASKS, MOST_TYPES, FailureStats

WINDOW_SEC = 100.0
SUSPECTS = frozenset({Culprit.TASK, Culprit.WORKER, Culprit.TYPE})


class Hours:
    """A clock that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("rqueue.worker.registration.time.monotonic", lambda: self.now)


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    return Hours(monkeypatch)


def stats_of(done: dict[str, int], **rule: float) -> FailureStats:
    return FailureStats("w1", WorkerRule(window_sec=WINDOW_SEC, **rule), done)


def settled(*tasks: str) -> list[Settled]:
    return [Settled(task, "1:x", b"") for task in tasks]


def test_failures_in_a_row_are_of_other_tasks_and_end_with_a_completion(hours: Hours) -> None:
    done = {"code": 7}
    failure_stats = stats_of(done)
    rows = []
    for task in ("a", "b", "a", "c"):
        rows.append(failure_stats.in_a_row("code", task))
        failure_stats.failed("code", task, SUSPECTS)
    assert rows == [0, 1, 1, 2]
    assert failure_stats.in_a_row("text", "a") == 0

    done["code"] += 1

    assert failure_stats.in_a_row("code", "d") == 0


def test_failures_in_a_row_are_forgotten_and_bounded(hours: Hours) -> None:
    failure_stats = stats_of({})
    for at in range(2 * MOST_IN_A_ROW):
        failure_stats.failed("code", str(at), SUSPECTS)
    assert failure_stats.in_a_row("code", "x") == MOST_IN_A_ROW

    hours.now += WINDOW_SEC

    assert failure_stats.in_a_row("code", "x") == 0


def test_failures_of_other_causes_are_not_counted(hours: Hours) -> None:
    failure_stats = stats_of({})

    for suspects in (frozenset[Culprit](), frozenset({Culprit.TYPE})):
        failure_stats.failed("code", "a", suspects)

    assert (failure_stats.worked(), failure_stats.in_a_row("code", "b")) == ({}, 0)


def test_work_is_reported_by_type_for_a_window(hours: Hours) -> None:
    done = {"code": 100, "old": 5}
    failure_stats = stats_of(done)
    done["code"] += 2
    for task in ("a", "a", "b"):
        failure_stats.failed("code", task, SUSPECTS)
    assert failure_stats.worked() == {"code": (2, 2)}

    hours.now += WINDOW_SEC / 2
    assert failure_stats.worked() == {"code": (2, 2)}
    done["code"] += 1
    failure_stats.failed("code", "b", SUSPECTS)
    failure_stats.failed("text", "c", SUSPECTS)
    assert failure_stats.worked() == {"code": (3, 2), "text": (0, 1)}

    hours.now += WINDOW_SEC / 2
    assert failure_stats.worked() == {"code": (1, 1), "text": (0, 1)}
    hours.now += 10 * WINDOW_SEC
    assert failure_stats.worked() == {}


def test_long_statistics_are_shortened(hours: Hours) -> None:
    done = {f"t{at}": at for at in range(2 * MOST_TYPES)}
    failure_stats = stats_of({})
    failure_stats.done = done
    for at in range(MOST_TASKS + 5):
        failure_stats.failed("bad", str(at), SUSPECTS)

    found = failure_stats.worked()

    assert len(found) == MOST_TYPES
    assert list(found.items())[:2] == [("bad", (0, MOST_TASKS)), ("t199", (199, 0))]


def test_workers_that_failed_a_task_completed_elsewhere_are_blamed(hours: Hours) -> None:
    failure_stats = stats_of({})
    failure_stats.retried = {"a": ("w2", "?w3"), "b": ("w2", "w1"), "c": ("w2",), "d": ("w1",)}

    failure_stats.completed(settled("a", "b", "c", "d", "e"), ["OK", "OK", "LOST", "OK", "OK"])

    assert failure_stats.blames() == {"w2": 2, "w3": 1}
    assert failure_stats.retried == {}
    hours.now += WINDOW_SEC / 2
    assert failure_stats.blames() == {"w2": 2, "w3": 1}
    hours.now += WINDOW_SEC
    assert failure_stats.blames() == {}


def test_relevant_changes_are_sent_early(hours: Hours) -> None:
    failure_stats = stats_of({}, tasks=2)
    failure_stats.failed("code", "a", SUSPECTS)
    failure_stats.completed(settled("a"), ["OK"])
    assert not failure_stats.changed

    failure_stats.failed("code", "b", SUSPECTS)
    other = stats_of({})
    other.retried = {"c": ("w2",)}
    other.completed(settled("c"), ["OK"])

    assert (failure_stats.changed, other.changed) == (True, True)
