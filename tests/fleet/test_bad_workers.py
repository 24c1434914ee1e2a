"""Which workers are drained, given the statistics of the fleet."""

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
    """Returns a worker with one process."""
    run = Run(f"{name}/a", silent_ms, 30_000, registration=Registration(**registration))
    return WorkerRecord(name, silent_ms, [run], blamed_ms=blamed_ms)


def good(name: str, blames: dict[str, int] | None = None, **registration: Any) -> WorkerRecord:
    return one(name, worked={"code": (50, 1)}, blames=blames or {}, **registration)


def bad(name: str = "bad", **registration: Any) -> WorkerRecord:
    return one(name, **{"worked": {"code": (1, 9)}, **registration})


def named(fleet: list[WorkerRecord], *lanes: Lane, rule: WorkerRule = RULE) -> list[str]:
    return [found.name for found in to_blame(fleet, lanes or (CODE,), rule)]


def test_a_worker_that_fails_tasks_which_others_complete_is_drained() -> None:
    fleet = [bad(), good("w1", {"bad": 3}), good("w2", {"bad": 2})]

    assert to_blame(fleet, [CODE], RULE) == [Blamed("bad", 9, 1, 5)]


def test_a_few_failures_are_not_evidence() -> None:
    assert named([bad(), good("w1", {"bad": 4}), good("w2")]) == []
    assert named([bad(worked={"code": (0, 4)}), good("w1", {"bad": 9}), good("w2")]) == []


def test_a_worker_that_also_completes_tasks_is_not_drained() -> None:
    assert named([bad(worked={"code": (60, 9)}), good("w1", {"bad": 9}), good("w2")]) == []


def test_a_type_that_other_workers_fail_too_is_no_evidence() -> None:
    fail_too: dict[str, Any] = {"worked": {"code": (3, 3)}, "blames": {"bad": 9}}

    assert named([bad(), one("w1", **fail_too), one("w2", **fail_too)]) == []
    # There are no statistics of other workers for this type.
    assert named([bad(worked={"text": (0, 9)}), good("w1", {"bad": 9}), good("w2")]) == []


def test_if_all_workers_are_suspect_none_is_drained() -> None:
    fleet = [bad(name, blames={"a": 9, "b": 9, "c": 9}) for name in "abc"]

    assert named(fleet) == []


def test_two_bad_workers_do_not_replace_each_other() -> None:
    others = [good("w1", {"bad": 9, "worse": 12}), good("w2"), good("w3"), good("w4")]

    assert named([bad(), bad("worse"), *others]) == ["worse", "bad"]


def test_at_most_a_share_of_the_fleet_is_drained() -> None:
    fleet = [bad("b1"), bad("b2"), bad("b3"), good("w1", {"b1": 9, "b2": 10, "b3": 8})]
    assert named(fleet) == ["b2", "b1"]
    assert named(fleet, rule=WorkerRule(fleet_share=0.25)) == ["b2"]
    assert named([bad(), good("w1", {"bad": 9})], rule=WorkerRule(fleet_share=0.4)) == []

    sent = [one("b0", silent_ms=60_000, blamed_ms=60_000), *fleet[1:]]
    assert named(sent) == ["b2"]
    long_ago = [one("b0", silent_ms=REMEMBERED_MS, blamed_ms=REMEMBERED_MS), *fleet[1:]]
    assert named([*long_ago, good("w2")]) == ["b2", "b3"]


def test_a_worker_whose_lanes_no_sound_worker_serves_is_not_drained() -> None:
    fleet = [
        bad(capabilities=("gpu",), types=("code", "text")),
        good("w1", {"bad": 9}, types=("code",)),
    ]

    assert named(fleet) == ["bad"]
    assert named(fleet, CODE, GPU) == []
    assert named(fleet, CODE, TEXT) == []
    assert named([*fleet, good("w2", capabilities=("gpu",))], CODE, GPU, TEXT) == ["bad"]


def test_offline_and_draining_workers_are_ignored() -> None:
    gone = bad(silent_ms=30_001)
    going = bad(draining=True)

    assert named([gone, good("w1", {"bad": 9})]) == []
    assert named([going, good("w1", {"bad": 9})]) == []
    # The failures that a draining worker has seen still count.
    assert named([bad(), good("w1"), good("w2", {"bad": 9}, draining=True)]) == ["bad"]
    assert named([bad(), one("w1", silent_ms=30_001, blames={"bad": 9}), good("w2")]) == []


def test_a_disabled_rule_drains_no_worker() -> None:
    off = WorkerRule(enabled=False)

    assert named([bad(), good("w1", {"bad": 9}), good("w2")], rule=off) == []


def test_the_evidence_is_a_sentence() -> None:
    assert Blamed("bad", 9, 1, 5).why == (
        "failed 9 tasks and completed 1, of types that rarely fail on others; 5 of the failed tasks"
        " were completed by others"
    )
