"""When the reaper may trust what it sees: not after a restart, a pause, or a step of the clock."""

from __future__ import annotations

from dataclasses import dataclass

# So many intervals late, a look is no longer just late: the server may have stood still.
LATE = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """What the reaper saw at its last look."""

    at_ms: int
    run_id: str
    hold_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a silent lease is kept, how often the reaper looks, and how long it was between
    its last two looks.
    """

    lease_ms: int
    interval_ms: int
    last_gap_ms: int = 0

    @property
    def longest_gap_ms(self) -> float:
        """The longest time between two looks that tells nothing new about the server.

        One that looks late again and again is slow itself; but what lasts longer than a lease is
        never passed over.
        """
        slow_ms = min(self.last_gap_ms * LATE, self.lease_ms)
        return max(self.lease_ms / 3, self.interval_ms * LATE, slow_ms)


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the server means: until when to reclaim nothing, and whether the clock
    went backwards, so that idle times no longer grow.
    """

    hold_until_ms: int
    stepped_back: bool = False

    def holds(self, now_ms: int) -> bool:
        """Whether nothing may be reclaimed now."""
        return now_ms < self.hold_until_ms


def look(seen: Seen | None, now_ms: int, run_id: str, pace: Pace) -> Look:
    """Idle times count downtime and clock steps as silence: after one, every worker gets a
    whole lease to be heard again.

    It is that one lease: late looks of a reaper that is slow anyway do not prolong it.
    """
    if seen is None:
        return Look(0)
    gap_ms = now_ms - seen.at_ms
    if gap_ms < 0:
        return Look(now_ms + pace.lease_ms, stepped_back=True)
    if run_id != seen.run_id or gap_ms > pace.longest_gap_ms:
        return Look(now_ms + pace.lease_ms)
    return Look(seen.hold_until_ms)
