"""The three measurements: a backlog worked off, the way to an idle worker, a killed worker.

Backlog: all tasks are enqueued first, then the workers start. The time runs from the first
counted task to the last, by the workers' own clocks, so no start-up is in it. Worker CPU is what
the processes used after their own first task; Redis CPU is INFO cpu, apart for enqueue and work.

Dispatch: an idle fleet of ten slots gets one task at a time, 10 ms apart; from the moment before
the enqueue call to the first line of the handler.

Kill: twenty naps of a second; half a second after the first has begun every process of the fleet
is killed with -9 and the fleet is started anew. From that start until each nap has ended once; at
most 150 s. What a peer needs to find lost work again is left at its defaults. Ours waits alone, the
peers wait together: they use no processor then, and one after the other would take half an hour.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import quantiles
from typing import TYPE_CHECKING

from benchmarks.peers import tally
from benchmarks.peers.stand import Skipped, Stand, at_work, stand_for, wait_for

if TYPE_CHECKING:
    from benchmarks.peers.fleet import Fleet
    from benchmarks.peers.roster import Peer, Shape

START_SEC = 40.0
QUIET_SEC = 30.0
SETTLE_SEC = 1.0
STAMPS, WARM = 200, 20
NAPS = 20
WORK_SEC = 0.5
LOST_SEC = 150.0
MICRO = 1e6


@dataclass(frozen=True, slots=True)
class Drained:
    """A backlog worked off; costs in microseconds a task."""

    tasks: int
    rate: float
    enqueue_rate: float
    redis_enqueue_us: float
    redis_work_us: float
    worker_us: float


@dataclass(frozen=True, slots=True)
class Dispatch:
    """From enqueue to start, in milliseconds."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Recovery:
    """After a kill: how long until all was done, or how much never was."""

    seconds: float
    lost: int


def drain(shape: Shape, peer: Peer, tasks: int) -> Drained:
    """Works off a backlog of no-ops."""
    with stand_for(peer, shape) as stand:
        fleet = stand.fleet()
        idle = stand.server_cpu()
        sent = stand.inside("send", "noop", tasks)["seconds"]
        full = stand.server_cpu()
        with at_work(fleet):
            wait_for(stand.board.total, 1, fleet, quiet_sec=START_SEC)
            before = fleet.cpu()
            wait_for(stand.board.total, tasks, fleet, quiet_sec=QUIET_SEC)
            spent = worker_cpu(fleet, before, stand)
            done = stand.server_cpu()
        counts = stand.board.counts()
    seconds = (max(c.last_ns for c in counts) - min(c.first_ns for c in counts)) / 1e9
    return Drained(
        tasks=tasks,
        rate=(tasks - 1) / seconds,
        enqueue_rate=(tasks - 1) / sent,
        redis_enqueue_us=(full - idle) / tasks * MICRO,
        redis_work_us=(done - full) / tasks * MICRO,
        worker_us=spent / tasks * MICRO,
    )


def worker_cpu(fleet: Fleet, before: dict[int, float], stand: Stand) -> float:
    """The processor time since each worker's first task, and of their supervisors meanwhile."""
    since = before | {count.pid: count.cpu_ns / 1e9 for count in stand.board.counts()}
    return sum(spent - since.get(pid, 0.0) for pid, spent in fleet.cpu().items())


def dispatch(shape: Shape, peer: Peer) -> Dispatch:
    """How soon an idle worker starts a task."""
    with stand_for(peer, shape) as stand:
        fleet = stand.fleet()
        with at_work(fleet):
            stand.inside("pace", 1)
            wait_for(lambda: stamps(stand), 1, fleet, quiet_sec=START_SEC)
            time.sleep(SETTLE_SEC)
            stand.inside("pace", WARM + STAMPS)
            wait_for(lambda: stamps(stand), 1 + WARM + STAMPS, fleet, quiet_sec=QUIET_SEC)
        found = sorted(stand.board.records(tally.STAMP))[1 + WARM :]
    taken = [(started - sent) / MICRO for sent, started in found]
    cuts = quantiles(taken, n=100, method="inclusive")
    return Dispatch(cuts[49], cuts[98])


def stamps(stand: Stand) -> int:
    return len(stand.board.records(tally.STAMP))


def recover(
    shape: Shape, peer: Peer, alone: AbstractContextManager[object] | None = None
) -> Recovery:
    """What a killed fleet's successor makes of the work in hand; `alone` is held until the kill."""
    with stand_for(peer, shape) as stand:
        with alone or nullcontext():
            fleet = killed(stand)
        start = time.monotonic()
        with at_work(fleet):
            while (done := ended(stand)) < NAPS and time.monotonic() - start < LOST_SEC:
                time.sleep(0.05)
            return Recovery(time.monotonic() - start, NAPS - done)


def killed(stand: Stand) -> Fleet:
    """A fleet that was killed at its first naps, to be started anew."""
    fleet = stand.fleet()
    stand.inside("send", "nap", NAPS)
    with at_work(fleet):
        wait_for(lambda: begun(stand), 1, fleet, quiet_sec=START_SEC)
        time.sleep(WORK_SEC)
        fleet.kill()
    if ended(stand):
        raise Skipped("the first naps had ended before the kill")
    return fleet


def begun(stand: Stand) -> int:
    return len(stand.board.records(tally.BEGUN))


def ended(stand: Stand) -> int:
    return len({number for number, _ in stand.board.records(tally.DONE)})
