"""What it costs to wait: Redis and the workers over some seconds in which no task starts or ends.

Idle: 1,000 worker loops in four processes, one queue, each with a claim parked. They have one
type of work to wait for, and have done a task before.

Held: one process whose tasks all run on, 10,000 of them and ten: their leases are renewed every
ten seconds, and they are looked at.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.peers.fleet import Fleet
from benchmarks.peers.measures import QUIET_SEC, START_SEC
from benchmarks.peers.roster import OURS, PEERS, Shape
from benchmarks.peers.rqueue_app import queue
from benchmarks.peers.stand import at_work, stand_for, wait_for

if TYPE_CHECKING:
    from benchmarks.peers.stand import Stand

PROCESSES, LOOPS = 4, 250
IDLE = f"{PROCESSES * LOOPS:,} idle worker loops in {PROCESSES} processes"
FEW, MANY = 10, 10_000
# Longer than a claim stays parked: all have parked anew by then, each at a time of its own.
SETTLE_SEC = 6.0
IDLE_SEC = 10.0
# Two renewals of the default lease.
HELD_SEC = 20.0


@dataclass(frozen=True, slots=True)
class Rest:
    """The shares of one core, in percent."""

    redis: float
    workers: float


def idle() -> Rest:
    """1,000 worker loops with nothing to do."""
    with stand_for(PEERS[OURS], Shape("idle", "", PROCESSES, LOOPS)) as stand:
        stand.inside("send", "noop", 1)
        loops = [sys.executable, "-m", "benchmarks.peers.loops", str(LOOPS)]
        fleet = Fleet([loops] * PROCESSES, stand.env, stand.folder)
        with at_work(fleet):
            wait_for(lambda: known(stand), PROCESSES * LOOPS, fleet, quiet_sec=START_SEC)
            wait_for(stand.board.total, 1, fleet, quiet_sec=QUIET_SEC)
            return spent(stand, fleet, IDLE_SEC)


def known(stand: Stand) -> int:
    """How many workers the queue has heard of."""
    found: Any = stand.client.zcard(queue._internals.shard.keys.workers())
    return int(found)


def held(tasks: int) -> Rest:
    """One process that runs so many tasks, none of which ends."""
    with stand_for(PEERS[OURS], Shape("held", "", 1, tasks)) as stand:
        stand.inside("send", "hold", tasks)
        with at_work(stand.fleet()) as fleet:
            wait_for(stand.board.total, tasks, fleet, quiet_sec=START_SEC)
            return spent(stand, fleet, HELD_SEC)


def spent(stand: Stand, fleet: Fleet, seconds: float) -> Rest:
    """What both sides use over some seconds, after they have settled."""
    time.sleep(SETTLE_SEC)
    start, redis, workers = time.monotonic(), stand.server_cpu(), sum(fleet.cpu().values())
    time.sleep(seconds)
    percent = 100 / (time.monotonic() - start)
    return Rest(
        (stand.server_cpu() - redis) * percent, (sum(fleet.cpu().values()) - workers) * percent
    )
