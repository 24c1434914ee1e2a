"""The three measurements: draining a backlog, dispatch to an idle worker, recovery after a kill.

Backlog: all tasks are enqueued first, then the workers start. The time runs from the first counted
task to the last, by the clocks of the workers, so it does not include their start-up. Worker CPU is
what the processes used after their first task; Redis CPU is INFO cpu, separately for enqueue and
work.

Dispatch: an idle fleet of ten slots gets one task at a time, 10 ms apart; from the moment before
the enqueue call to the first line of the handler.

Kill: twenty tasks that sleep for a second. Half a second after the first has begun, every process
of the fleet is killed with -9 and the fleet is started again. The time runs from that start until
each task has ended once; at most 150 s. The settings by which a peer finds lost work are its
defaults. rqueue is measured first; the peers then wait concurrently, because they use no processor
meanwhile and would take half an hour one after the other.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import quantiles
from typing import TYPE_CHECKING

from benchmarks.peers import counters
from benchmarks.peers.environment import (
    Environment,
    Skipped,
    environment_for,
    running_fleet,
    wait_for,
)

if TYPE_CHECKING:
    from benchmarks.peers.catalogue import Peer, Shape
    from benchmarks.peers.fleet import Fleet

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
    """A drained backlog; costs in microseconds a task."""

    tasks: int
    rate: float
    enqueue_rate: float
    redis_enqueue_us: float
    redis_work_us: float
    worker_us: float


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The time from enqueue to start, in milliseconds."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Recovery:
    """After a kill: the seconds until all tasks were done, and how many never were."""

    seconds: float
    lost: int


def drain(shape: Shape, peer: Peer, tasks: int) -> Drained:
    """Enqueues and drains a backlog of no-ops."""
    with environment_for(peer, shape) as env:
        fleet = env.fleet()
        idle = env.server_cpu()
        sent = env.call("send", "noop", tasks)["seconds"]
        full = env.server_cpu()
        with running_fleet(fleet):
            wait_for(env.counter_file.total, 1, fleet, quiet_sec=START_SEC)
            before = fleet.cpu()
            wait_for(env.counter_file.total, tasks, fleet, quiet_sec=QUIET_SEC)
            spent = worker_cpu(fleet, before, env)
            done = env.server_cpu()
        counts = env.counter_file.counts()
    seconds = (max(c.last_ns for c in counts) - min(c.first_ns for c in counts)) / 1e9
    return Drained(
        tasks=tasks,
        rate=(tasks - 1) / seconds,
        enqueue_rate=(tasks - 1) / sent,
        redis_enqueue_us=(full - idle) / tasks * MICRO,
        redis_work_us=(done - full) / tasks * MICRO,
        worker_us=spent / tasks * MICRO,
    )


def worker_cpu(fleet: Fleet, before: dict[int, float], env: Environment) -> float:
    """The processor time of each worker since its first task, and of their supervisors."""
    since = before | {count.pid: count.cpu_ns / 1e9 for count in env.counter_file.counts()}
    return sum(spent - since.get(pid, 0.0) for pid, spent in fleet.cpu().items())


def dispatch(shape: Shape, peer: Peer) -> Dispatch:
    """The delay until an idle worker starts a task."""
    with environment_for(peer, shape) as env:
        fleet = env.fleet()
        with running_fleet(fleet):
            env.call("pace", 1)
            wait_for(lambda: stamps(env), 1, fleet, quiet_sec=START_SEC)
            time.sleep(SETTLE_SEC)
            env.call("pace", WARM + STAMPS)
            wait_for(lambda: stamps(env), 1 + WARM + STAMPS, fleet, quiet_sec=QUIET_SEC)
        found = sorted(env.counter_file.records(counters.STAMP))[1 + WARM :]
    taken = [(started - sent) / MICRO for sent, started in found]
    cuts = quantiles(taken, n=100, method="inclusive")
    return Dispatch(cuts[49], cuts[98])


def stamps(env: Environment) -> int:
    return len(env.counter_file.records(counters.STAMP))


def recover(
    shape: Shape, peer: Peer, lock: AbstractContextManager[object] | None = None
) -> Recovery:
    """How a restarted fleet recovers the work of a killed one; `lock` is held until the kill."""
    with environment_for(peer, shape) as env:
        with lock or nullcontext():
            fleet = killed(env)
        start = time.monotonic()
        with running_fleet(fleet):
            while (done := ended(env)) < NAPS and time.monotonic() - start < LOST_SEC:
                time.sleep(0.05)
            return Recovery(time.monotonic() - start, NAPS - done)


def killed(env: Environment) -> Fleet:
    """A fleet that was killed while it ran its first tasks, to be started again."""
    fleet = env.fleet()
    env.call("send", "nap", NAPS)
    with running_fleet(fleet):
        wait_for(lambda: begun(env), 1, fleet, quiet_sec=START_SEC)
        time.sleep(WORK_SEC)
        fleet.kill()
    if ended(env):
        raise Skipped("the first tasks had ended before the kill")
    return fleet


def begun(env: Environment) -> int:
    return len(env.counter_file.records(counters.BEGUN))


def ended(env: Environment) -> int:
    return len({number for number, _ in env.counter_file.records(counters.DONE)})
