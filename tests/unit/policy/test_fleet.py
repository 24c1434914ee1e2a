"""How a worker is, and which tasks nobody can do."""

from __future__ import annotations

import pytest

from rqueue.model.lane import Lane
from rqueue.model.worker import Registration, WorkerStatus
from rqueue.policy.capability import Offer
from rqueue.policy.fleet import Known, Run, asks_for, offers_of, run_status, status_of, unserved

LEASE_MS = 30_000
SAID = Registration(types=("code",), capabilities=("gpu",), agents=("ada",))
DRAINS = Registration(types=("code",), draining=True)


def a_run(id: str = "w1/a", silent_ms: int = 0, **changes: object) -> Run:
    given: dict[str, object] = {"said": SAID, **changes}
    return Run(id, silent_ms, LEASE_MS, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (a_run(), "active"),
        (a_run(silent_ms=LEASE_MS), "active"),
        (a_run(silent_ms=LEASE_MS + 1), "offline"),
        (a_run(told=True), "draining"),
        (a_run(said=DRAINS), "draining"),
        (a_run(told=True, silent_ms=LEASE_MS + 1), "offline"),
        (a_run(said=None), "active"),
    ],
)
def test_a_run_is_gone_when_it_is_silent_for_longer_than_its_lease(run: Run, status: str) -> None:
    assert run_status(run) == status


@pytest.mark.parametrize(
    ("known", "status"),
    [
        (Known("w1", 0), "active"),
        (Known("w1", LEASE_MS + 1), "offline"),
        (Known("w1", 0, left=True), "offline"),
        (Known("w1", 0, [a_run(told=True), a_run("w1/b")]), "active"),
        (Known("w1", 0, [a_run(told=True), a_run("w1/b", LEASE_MS + 1)]), "draining"),
        (Known("w1", 0, [a_run("w1/b", LEASE_MS + 1)]), "offline"),
    ],
)
def test_a_worker_is_as_the_best_of_its_runs(known: Known, status: WorkerStatus) -> None:
    assert status_of(known, LEASE_MS) == status


def test_only_those_who_take_work_offer_anything() -> None:
    runs = [a_run(), a_run("b", told=True), a_run("c", LEASE_MS + 1), a_run("d", said=None)]

    assert offers_of([Known("w1", 0, runs), Known("w2", 0)]) == [
        Offer.of(["code"], ["gpu"], ["ada"])
    ]


def test_every_type_is_an_offer_too() -> None:
    every = a_run(said=Registration(types=None))

    assert unserved({Lane("any", 0.1): 3}, offers_of([Known("w1", 0, [every])])) == {}


def test_what_no_offer_covers_is_unserved() -> None:
    lanes = {
        Lane("code", 0.1): 2,
        Lane("code", 0.1, capabilities=("gpu",)): 3,
        Lane("code", 0.1, capabilities=("gpu", "eu")): 4,
        Lane("code", 0.1, agent="ada"): 5,
        Lane("mail", 0.1): 6,
        Lane("other", 0.1): 0,
    }
    # No two of them make one that can do both.
    offers = [Offer.of(["code"], ["gpu"], ["ada"]), Offer.of(["code"], ["eu"])]

    assert unserved(lanes, offers) == {
        Lane("code", 0.1, capabilities=("gpu", "eu")): 4,
        Lane("mail", 0.1): 6,
    }
    assert unserved(lanes, []) == {lane: number for lane, number in lanes.items() if number}


def test_what_is_asked_for_is_said_in_words() -> None:
    lane = Lane("code", 0.1, agent="ada", capabilities=("eu", "gpu"))

    assert asks_for(lane) == "type code, agent ada, capabilities eu, gpu"
    assert asks_for(Lane("mail", 0.1)) == "type mail"
