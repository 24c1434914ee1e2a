"""Registrations, the status of a worker, and tasks that no worker can run."""

from __future__ import annotations

import json

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
REGISTRATION = Registration(types=("code",), capabilities=("gpu",), agents=("ada",))
DRAINING = Registration(types=("code",), draining=True)


def a_run(id: str = "w1/a", silent_ms: int = 0, **changes: object) -> Run:
    given: dict[str, object] = {"registration": REGISTRATION, **changes}
    return Run(id, silent_ms, LEASE_MS, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (a_run(), "active"),
        (a_run(silent_ms=LEASE_MS), "active"),
        (a_run(silent_ms=LEASE_MS + 1), "offline"),
        (a_run(drain_requested=True), "draining"),
        (a_run(registration=DRAINING), "draining"),
        (a_run(drain_requested=True, silent_ms=LEASE_MS + 1), "offline"),
        (a_run(registration=None), "active"),
    ],
)
def test_a_run_is_offline_when_it_is_silent_for_longer_than_its_lease(
    run: Run, status: str
) -> None:
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
def test_a_worker_has_the_best_status_of_its_runs(
    known: WorkerRecord, status: WorkerStatus
) -> None:
    assert status_of(known, LEASE_MS) == status


def test_only_active_workers_have_offers() -> None:
    runs = [
        a_run(),
        a_run("b", drain_requested=True),
        a_run("c", LEASE_MS + 1),
        a_run("d", registration=None),
    ]

    assert offers_of([WorkerRecord("w1", 0, runs), WorkerRecord("w2", 0)]) == [
        Offer.of(["code"], ["gpu"], ["ada"])
    ]


def test_a_worker_without_types_offers_every_type() -> None:
    every = a_run(registration=Registration(types=None))

    assert unserved({Lane("any", 0.1): 3}, offers_of([WorkerRecord("w1", 0, [every])])) == {}


def test_a_lane_without_a_matching_offer_is_unserved() -> None:
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


def test_the_requirements_of_a_lane_are_written_in_words() -> None:
    lane = Lane("code", 0.1, agent="ada", capabilities=("eu", "gpu"))

    assert requirements_of(lane) == "type code, agent ada, capabilities eu, gpu"
    assert requirements_of(Lane("mail", 0.1)) == "type mail"


FULL = Registration(
    types=("code",),
    capabilities=("eu", "gpu"),
    agents=("ada",),
    models_available=("large",),
    max_concurrent_tasks=2,
    poll_interval_sec=5.0,
    claim_ttl_sec=60.0,
    draining=True,
)


@pytest.mark.parametrize("registration", [FULL, Registration()])
def test_a_registration_is_read_back(registration: Registration) -> None:
    assert Registration.parse(registration.text()) == registration


def test_fields_of_a_newer_release_are_ignored() -> None:
    text = json.dumps({**json.loads(FULL.text()), "mood": "good"})

    assert Registration.parse(text) == FULL


@pytest.mark.parametrize(
    "text", ["", "{", "17", "null", '"text"', '{"types": 17}', '{"types": [[]]}']
)
def test_an_unreadable_registration_is_none(text: str) -> None:
    assert Registration.parse(text) is None
