"""The reaper's check of the server: when idle times are valid."""

import pytest

from rqueue.core.timers import LastCheck, Pace, ServerCheck, check_server

LEASE = 30_000
NOW = 1_000_000
PACE = Pace(LEASE, 1500)


def last_check(gap_ms: int, run_id: str = "one", hold_until_ms: int = 0) -> LastCheck:
    return LastCheck(NOW - gap_ms, run_id, hold_until_ms)


def test_the_first_check_holds_nothing() -> None:
    assert check_server(None, NOW, "one", PACE) == ServerCheck(0)


@pytest.mark.parametrize("gap_ms", [0, 1, 9_999, 10_000])
def test_a_check_soon_after_the_last_holds_nothing(gap_ms: int) -> None:
    assert check_server(last_check(gap_ms), NOW, "one", PACE) == ServerCheck(0)


@pytest.mark.parametrize("gap_ms", [10_001, 30_000, 3_600_000])
def test_after_a_gap_of_more_than_a_third_of_the_lease_a_whole_lease_is_held(gap_ms: int) -> None:
    assert check_server(last_check(gap_ms), NOW, "one", PACE) == ServerCheck(NOW + LEASE)


@pytest.mark.parametrize("gap_ms", [0, 1000, 20_000])
def test_after_a_restart_a_whole_lease_is_held(gap_ms: int) -> None:
    assert check_server(last_check(gap_ms), NOW, "two", PACE) == ServerCheck(NOW + LEASE)


@pytest.mark.parametrize("run_id", ["one", "two"])
@pytest.mark.parametrize("gap_ms", [-1, -3_600_000])
def test_a_step_back_is_reported_and_a_whole_lease_is_held(gap_ms: int, run_id: str) -> None:
    assert check_server(last_check(gap_ms), NOW, run_id, PACE) == ServerCheck(
        NOW + LEASE, stepped_back=True
    )


def test_a_started_hold_continues() -> None:
    assert check_server(last_check(1000, hold_until_ms=NOW + 5), NOW, "one", PACE) == ServerCheck(
        NOW + 5
    )


def test_a_second_gap_prolongs_the_hold() -> None:
    assert check_server(last_check(20_000, hold_until_ms=NOW + 5), NOW, "one", PACE) == ServerCheck(
        NOW + LEASE
    )


@pytest.mark.parametrize(("now_ms", "holds"), [(NOW - 1, True), (NOW, False), (NOW + 1, False)])
def test_a_hold_ends_at_its_time(now_ms: int, holds: bool) -> None:
    assert ServerCheck(NOW).holds(now_ms) is holds


@pytest.mark.parametrize(
    ("interval_ms", "last_gap_ms", "longest_ms"),
    [
        (1500, 0, 10_000),
        (11_000, 0, 33_000),
        (60_000, 0, 180_000),
        (1500, 1500, 10_000),
        (1500, 4000, 12_000),
        (1500, 11_000, LEASE),
        (1500, 3_600_000, LEASE),
    ],
)
def test_a_gap_starts_a_hold_if_it_is_long_for_the_lease_and_for_the_reaper(
    interval_ms: int, last_gap_ms: int, longest_ms: int
) -> None:
    pace = Pace(LEASE, interval_ms, last_gap_ms)

    assert check_server(last_check(longest_ms), NOW, "one", pace) == ServerCheck(0)
    assert check_server(last_check(longest_ms + 1), NOW, "one", pace) == ServerCheck(NOW + LEASE)


def test_a_late_check_does_not_prolong_the_hold() -> None:
    earlier = last_check(11_000, hold_until_ms=NOW + 5)

    assert check_server(earlier, NOW, "one", Pace(LEASE, 11_000)) == ServerCheck(NOW + 5)
    assert check_server(earlier, NOW, "one", Pace(LEASE, 1500, last_gap_ms=11_000)) == ServerCheck(
        NOW + 5
    )


@pytest.mark.parametrize(
    ("interval_ms", "held"),
    [(11_000, 0), (1500, 3)],
    ids=["as it should", "late each time"],
)
def test_a_reaper_that_checks_every_eleven_seconds_does_not_hold_forever(
    interval_ms: int, held: int
) -> None:
    last, pace, holding = LastCheck(0, "one"), Pace(LEASE, interval_ms), []
    for now_ms in range(11_000, 21 * 11_000, 11_000):
        found = check_server(last, now_ms, "one", pace)
        holding.append(found.holds(now_ms))
        pace = Pace(LEASE, interval_ms, now_ms - last.at_ms)
        last = LastCheck(now_ms, "one", found.hold_until_ms)

    assert (len(holding), holding.count(True)) == (20, held)


@pytest.mark.parametrize("pace", [Pace(LEASE, 11_000), Pace(LEASE, 1500, last_gap_ms=11_000)])
def test_a_restart_or_a_step_back_always_starts_a_new_hold(pace: Pace) -> None:
    assert check_server(last_check(11_000, hold_until_ms=NOW + 5), NOW, "two", pace) == ServerCheck(
        NOW + LEASE
    )
    assert check_server(last_check(-1), NOW, "one", pace) == ServerCheck(
        NOW + LEASE, stepped_back=True
    )
