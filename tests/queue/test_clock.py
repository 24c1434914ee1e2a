"""The clock of the machine."""

from datetime import timedelta

from rqueue.clock import SYSTEM


def test_the_system_clock_is_aware_and_agrees_with_itself() -> None:
    before_ms = SYSTEM.now_ms()
    now = SYSTEM.now()
    after_ms = SYSTEM.now_ms()

    assert now.utcoffset() == timedelta(0)
    assert before_ms - 1 <= now.timestamp() * 1000 <= after_ms + 1


def test_the_monotonic_clock_never_decreases() -> None:
    first = SYSTEM.monotonic()

    assert SYSTEM.monotonic() >= first
