"""How long one scheduler leads a shard, when others ask, and how long to pause when it is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

LONGEST_TERM_SEC = 5.0
# A term is a sixth of a lease: a new leader takes over before the reaper's gap, a third of a
# lease, is reached, so that a lost scheduler does not make it hold.
TERMS_A_LEASE = 6
REAPS_A_LEASE = 20
SHARE_TRUSTED = 0.9
FIRST_PAUSE_SEC = 0.1
LONGEST_PAUSE_SEC = 5.0


def term_sec(lease_sec: float) -> float:
    """How long a leader leads without renewing."""
    return min(LONGEST_TERM_SEC, lease_sec / TERMS_A_LEASE)


def reap_sec(lease_sec: float) -> float:
    """How often leases are looked at."""
    return lease_sec / REAPS_A_LEASE


def ask_sec(ttl_sec: float, random: Random) -> float:
    """How long to wait before asking for the leadership again, or renewing it; many that do not
    lead shall not ask at once.
    """
    return ttl_sec / 3 * random.uniform(0.8, 1.2)


def trusted_until(asked_at: float, ttl_sec: float) -> float:
    """Until when a leader may believe that it leads: counted from before it asked, by its own
    clock, and a little less than the term, so that it stops before another begins.
    """
    return asked_at + ttl_sec * SHARE_TRUSTED


def pause_sec(failures: int, random: Random) -> float:
    """How long to leave a server alone that did not answer so many times in a row."""
    longest = min(LONGEST_PAUSE_SEC, FIRST_PAUSE_SEC * 2.0 ** min(failures, 10))
    return longest * random.uniform(0.5, 1.0)
