"""When the reaper may trust idle times."""

import pytest

from rqueue.policy.lease import Look, Seen, look

LEASE = 30_000
NOW = 1_000_000


def seen(gap_ms: int, run_id: str = "one", hold_until_ms: int = 0) -> Seen:
    return Seen(NOW - gap_ms, run_id, hold_until_ms)


def test_the_first_look_holds_nothing() -> None:
    assert look(None, NOW, "one", LEASE) == Look(0)


@pytest.mark.parametrize("gap_ms", [0, 1, 9_999, 10_000])
def test_a_look_soon_after_the_last_holds_nothing(gap_ms: int) -> None:
    assert look(seen(gap_ms), NOW, "one", LEASE) == Look(0)


@pytest.mark.parametrize("gap_ms", [10_001, 30_000, 3_600_000])
def test_after_a_gap_of_more_than_a_third_of_the_lease_a_whole_lease_is_held(gap_ms: int) -> None:
    assert look(seen(gap_ms), NOW, "one", LEASE) == Look(NOW + LEASE)


@pytest.mark.parametrize("gap_ms", [0, 1000, 20_000])
def test_after_a_restart_a_whole_lease_is_held(gap_ms: int) -> None:
    assert look(seen(gap_ms), NOW, "two", LEASE) == Look(NOW + LEASE)


@pytest.mark.parametrize("run_id", ["one", "two"])
@pytest.mark.parametrize("gap_ms", [-1, -3_600_000])
def test_a_step_back_is_told_and_a_whole_lease_is_held(gap_ms: int, run_id: str) -> None:
    assert look(seen(gap_ms), NOW, run_id, LEASE) == Look(NOW + LEASE, stepped_back=True)


def test_a_hold_that_was_begun_goes_on() -> None:
    assert look(seen(1000, hold_until_ms=NOW + 5), NOW, "one", LEASE) == Look(NOW + 5)


def test_a_second_fault_prolongs_the_hold() -> None:
    assert look(seen(20_000, hold_until_ms=NOW + 5), NOW, "one", LEASE) == Look(NOW + LEASE)


@pytest.mark.parametrize(("now_ms", "holds"), [(NOW - 1, True), (NOW, False), (NOW + 1, False)])
def test_a_hold_ends_when_its_time_has_come(now_ms: int, holds: bool) -> None:
    assert Look(NOW).holds(now_ms) is holds
