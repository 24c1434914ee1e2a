"""Which workers are sent home, by what the fleet says of itself."""

from typing import Any

from rqueue.core.workers import Registration, Run, WorkerRecord
from rqueue.fleet.bad_workers import REMEMBERED_MS, Blamed, to_blame
from rqueue.task.attempt.blame import WorkerRule
from rqueue.task.lane import Lane

RULE = WorkerRule()
CODE, TEXT, GPU = Lane("code", 0.1), Lane("text", 0.1), Lane("code", 0.1, capabilities=("gpu",))


def one(
    name: str, *, silent_ms: int = 0, blamed_ms: int | None = None, **registration: Any
) -> WorkerRecord:
    """A worker that runs once under its name."""
    run = Run(f"{name}/a", silent_ms, 30_000, registration=Registration(**registration))
    return WorkerRecord(name, silent_ms, [run], blamed_ms=blamed_ms)


def good(name: str, blames: dict[str, int] | None = None, **registration: Any) -> WorkerRecord:
    return one(name, worked={"code": (50, 1)}, blames=blames or {}, **registration)


def bad(name: str = "bad", **registration: Any) -> WorkerRecord:
    return one(name, **{"worked": {"code": (1, 9)}, **registration})


def named(fleet: list[WorkerRecord], *lanes: Lane, rule: WorkerRule = RULE) -> list[str]:
    return [found.name for found in to_blame(fleet, lanes or (CODE,), rule)]


def test_one_that_fails_what_others_complete_goes_home() -> None:
    fleet = [bad(), good("w1", {"bad": 3}), good("w2", {"bad": 2})]

    assert to_blame(fleet, [CODE], RULE) == [Blamed("bad", 9, 1, 5)]


def test_few_failures_are_no_evidence() -> None:
    assert named([bad(), good("w1", {"bad": 4}), good("w2")]) == []
    assert named([bad(worked={"code": (0, 4)}), good("w1", {"bad": 9}), good("w2")]) == []


def test_one_that_also_does_well_stays() -> None:
    assert named([bad(worked={"code": (60, 9)}), good("w1", {"bad": 9}), good("w2")]) == []


def test_where_the_others_fail_too_it_is_the_type() -> None:
    fail_too: dict[str, Any] = {"worked": {"code": (3, 3)}, "blames": {"bad": 9}}

    assert named([bad(), one("w1", **fail_too), one("w2", **fail_too)]) == []
    # Of a type that nobody else has done nothing is known.
    assert named([bad(worked={"text": (0, 9)}), good("w1", {"bad": 9}), good("w2")]) == []


def test_where_all_are_suspect_it_is_not_the_workers() -> None:
    fleet = [bad(name, blames={"a": 9, "b": 9, "c": 9}) for name in "abc"]

    assert named(fleet) == []


def test_two_bad_ones_do_not_cover_each_other() -> None:
    crew = [good("w1", {"bad": 9, "worse": 12}), good("w2"), good("w3"), good("w4")]

    assert named([bad(), bad("worse"), *crew]) == ["worse", "bad"]


def test_no_more_than_its_share_of_the_fleet_goes() -> None:
    fleet = [bad("b1"), bad("b2"), bad("b3"), good("w1", {"b1": 9, "b2": 10, "b3": 8})]
    assert named(fleet) == ["b2", "b1"]
    assert named(fleet, rule=WorkerRule(fleet_share=0.25)) == ["b2"]
    assert named([bad(), good("w1", {"bad": 9})], rule=WorkerRule(fleet_share=0.4)) == []

    sent = [one("b0", silent_ms=60_000, blamed_ms=60_000), *fleet[1:]]
    assert named(sent) == ["b2"]
    long_ago = [one("b0", silent_ms=REMEMBERED_MS, blamed_ms=REMEMBERED_MS), *fleet[1:]]
    assert named([*long_ago, good("w2")]) == ["b2", "b3"]


def test_one_whose_work_nobody_sound_takes_stays() -> None:
    fleet = [
        bad(capabilities=("gpu",), types=("code", "text")),
        good("w1", {"bad": 9}, types=("code",)),
    ]

    assert named(fleet) == ["bad"]
    assert named(fleet, CODE, GPU) == []
    assert named(fleet, CODE, TEXT) == []
    assert named([*fleet, good("w2", capabilities=("gpu",))], CODE, GPU, TEXT) == ["bad"]


def test_those_that_are_gone_or_go_are_not_looked_at() -> None:
    gone = bad(silent_ms=30_001)
    going = bad(draining=True)

    assert named([gone, good("w1", {"bad": 9})]) == []
    assert named([going, good("w1", {"bad": 9})]) == []
    # What one that goes home has seen still counts.
    assert named([bad(), good("w1"), good("w2", {"bad": 9}, draining=True)]) == ["bad"]
    assert named([bad(), one("w1", silent_ms=30_001, blames={"bad": 9}), good("w2")]) == []


def test_switched_off_nobody_goes() -> None:
    off = WorkerRule(enabled=False)

    assert named([bad(), good("w1", {"bad": 9}), good("w2")], rule=off) == []


def test_the_evidence_is_told_in_words() -> None:
    assert Blamed("bad", 9, 1, 5).why == (
        "failed 9 tasks and completed 1, of types that rarely fail on others; 5 of the failed tasks"
        " were completed by others"
    )
