"""The status of a worker, and tasks that no worker can run."""

from __future__ import annotations

import pytest

from rqueue.core.workers import (
    Registration,
    Run,
    WorkerRecord,
    WorkerStatus,
    offers_of,
    requirements_of,
    run_status,
    status_of,
    unserved,
)
from rqueue.task.lane import Lane, Offer

LEASE_MS = 30_000
SAID = Registration(types=("code",), capabilities=("gpu",), agents=("ada",))
DRAINS = Registration(types=("code",), draining=True)


def a_run(id: str = "w1/a", silent_ms: int = 0, **changes: object) -> Run:
    given: dict[str, object] = {"registration": SAID, **changes}
    return Run(id, silent_ms, LEASE_MS, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (a_run(), "active"),
        (a_run(silent_ms=LEASE_MS), "active"),
        (a_run(silent_ms=LEASE_MS + 1), "offline"),
        (a_run(drain_requested=True), "draining"),
        (a_run(registration=DRAINS), "draining"),
        (a_run(drain_requested=True, silent_ms=LEASE_MS + 1), "offline"),
        (a_run(registration=None), "active"),
    ],
)
def test_a_run_is_gone_when_it_is_silent_for_longer_than_its_lease(run: Run, status: str) -> None:
    assert run_status(run) == status


@pytest.mark.parametrize(
    ("known", "status"),
    [
        (WorkerRecord("w1", 0), "active"),
        (WorkerRecord("w1", LEASE_MS + 1), "offline"),
        (WorkerRecord("w1", 0, left=True), "offline"),
        (WorkerRecord("w1", 0, [a_run(drain_requested=True), a_run("w1/b")]), "active"),
        (
            WorkerRecord("w1", 0, [a_run(drain_requested=True), a_run("w1/b", LEASE_MS + 1)]),
            "draining",
        ),
        (WorkerRecord("w1", 0, [a_run("w1/b", LEASE_MS + 1)]), "offline"),
    ],
)
def test_a_worker_is_as_the_best_of_its_runs(known: WorkerRecord, status: WorkerStatus) -> None:
    assert status_of(known, LEASE_MS) == status


def test_only_active_workers_offer_anything() -> None:
    runs = [
        a_run(),
        a_run("b", drain_requested=True),
        a_run("c", LEASE_MS + 1),
        a_run("d", registration=None),
    ]

    assert offers_of([WorkerRecord("w1", 0, runs), WorkerRecord("w2", 0)]) == [
        Offer.of(["code"], ["gpu"], ["ada"])
    ]


def test_every_type_is_an_offer_too() -> None:
    every = a_run(registration=Registration(types=None))

    assert unserved({Lane("any", 0.1): 3}, offers_of([WorkerRecord("w1", 0, [every])])) == {}


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


def test_requirements_in_words() -> None:
    lane = Lane("code", 0.1, agent="ada", capabilities=("eu", "gpu"))

    assert requirements_of(lane) == "type code, agent ada, capabilities eu, gpu"
    assert requirements_of(Lane("mail", 0.1)) == "type mail"
