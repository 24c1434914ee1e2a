"""When the reaper may trust what it sees: not after a restart, a pause, or a step of the clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """What the reaper saw at its last look."""

    at_ms: int
    run_id: str
    hold_until_ms: int = 0


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


def look(seen: Seen | None, now_ms: int, run_id: str, lease_ms: int) -> Look:
    """Idle times count downtime and clock steps as silence: after one, every worker gets a
    whole lease to be heard again.
    """
    if seen is None:
        return Look(0)
    gap_ms = now_ms - seen.at_ms
    if gap_ms < 0:
        return Look(now_ms + lease_ms, stepped_back=True)
    if run_id != seen.run_id or gap_ms > lease_ms / 3:
        return Look(now_ms + lease_ms)
    return Look(seen.hold_until_ms)
