"""What a worker knows of its own failures, and of what others failed."""

from __future__ import annotations

import pytest

from rqueue.model.blame import Culprit, WorkerRule
from rqueue.services.account import MOST_IN_A_ROW, MOST_TASKS, MOST_TYPES, Account
from rqueue.store.leases import Settled

WINDOW_SEC = 100.0
SUSPECTS = frozenset({Culprit.TASK, Culprit.WORKER, Culprit.TYPE})


class Hours:
    """A clock that is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("rqueue.services.account.time.monotonic", lambda: self.now)


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    return Hours(monkeypatch)


def an_account(done: dict[str, int], **rule: float) -> Account:
    return Account("w1", WorkerRule(window_sec=WINDOW_SEC, **rule), done)


def settled(*tasks: str) -> list[Settled]:
    return [Settled(task, "1:x", b"") for task in tasks]


def test_failures_in_a_row_are_of_other_tasks_and_end_with_a_completion(hours: Hours) -> None:
    done = {"code": 7}
    account = an_account(done)
    rows = []
    for task in ("a", "b", "a", "c"):
        rows.append(account.in_a_row("code", task))
        account.failed("code", task, SUSPECTS)
    assert rows == [0, 1, 1, 2]
    assert account.in_a_row("text", "a") == 0

    done["code"] += 1

    assert account.in_a_row("code", "d") == 0


def test_failures_in_a_row_are_forgotten_and_bounded(hours: Hours) -> None:
    account = an_account({})
    for at in range(2 * MOST_IN_A_ROW):
        account.failed("code", str(at), SUSPECTS)
    assert account.in_a_row("code", "x") == MOST_IN_A_ROW

    hours.now += WINDOW_SEC

    assert account.in_a_row("code", "x") == 0


def test_what_was_nobodys_fault_is_not_kept(hours: Hours) -> None:
    account = an_account({})

    for suspects in (frozenset[Culprit](), frozenset({Culprit.TYPE})):
        account.failed("code", "a", suspects)

    assert (account.worked(), account.in_a_row("code", "b")) == ({}, 0)


def test_work_is_told_by_type_for_a_window(hours: Hours) -> None:
    done = {"code": 100, "old": 5}
    account = an_account(done)
    done["code"] += 2
    for task in ("a", "a", "b"):
        account.failed("code", task, SUSPECTS)
    assert account.worked() == {"code": (2, 2)}

    hours.now += WINDOW_SEC / 2
    assert account.worked() == {"code": (2, 2)}
    done["code"] += 1
    account.failed("code", "b", SUSPECTS)
    account.failed("text", "c", SUSPECTS)
    assert account.worked() == {"code": (3, 2), "text": (0, 1)}

    hours.now += WINDOW_SEC / 2
    assert account.worked() == {"code": (1, 1), "text": (0, 1)}
    hours.now += 10 * WINDOW_SEC
    assert account.worked() == {}


def test_much_is_told_in_short(hours: Hours) -> None:
    done = {f"t{at}": at for at in range(2 * MOST_TYPES)}
    account = an_account({})
    account.done = done
    for at in range(MOST_TASKS + 5):
        account.failed("bad", str(at), SUSPECTS)

    found = account.worked()

    assert len(found) == MOST_TYPES
    assert list(found.items())[:2] == [("bad", (0, MOST_TASKS)), ("t199", (199, 0))]


def test_who_failed_what_was_then_completed_is_blamed(hours: Hours) -> None:
    account = an_account({})
    account.retried = {"a": ("w2", "?w3"), "b": ("w2", "w1"), "c": ("w2",), "d": ("w1",)}

    account.completed(settled("a", "b", "c", "d", "e"), ["OK", "OK", "LOST", "OK", "OK"])

    assert account.blames() == {"w2": 2, "w3": 1}
    assert account.retried == {}
    hours.now += WINDOW_SEC / 2
    assert account.blames() == {"w2": 2, "w3": 1}
    hours.now += WINDOW_SEC
    assert account.blames() == {}


def test_what_others_should_hear_is_news(hours: Hours) -> None:
    account = an_account({}, tasks=2)
    account.failed("code", "a", SUSPECTS)
    account.completed(settled("a"), ["OK"])
    assert not account.news

    account.failed("code", "b", SUSPECTS)
    other = an_account({})
    other.retried = {"c": ("w2",)}
    other.completed(settled("c"), ["OK"])

    assert (account.news, other.news) == (True, True)
