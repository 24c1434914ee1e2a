"""The cost of Redis and the workers over some seconds in which no task starts or ends.

Waiting: 1,000 worker loops in four processes, one queue, each with a waiting claim. They serve one
type, and have done a task before.

Running: one process with 10,000 running tasks, and with ten. Their leases are renewed every ten
seconds.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.peers.catalogue import OURS, PEERS, Shape
from benchmarks.peers.environment import environment_for, running_fleet, wait_for
from benchmarks.peers.fleet import Fleet
from benchmarks.peers.measures import QUIET_SEC, START_SEC
from benchmarks.peers.rqueue_app import queue

if TYPE_CHECKING:
    from benchmarks.peers.environment import Environment

PROCESSES, LOOPS = 4, 250
IDLE = f"{PROCESSES * LOOPS:,} idle worker loops in {PROCESSES} processes"
FEW, MANY = 10, 10_000
# Longer than a claim waits at the server: each has waited again by then, at a different time.
SETTLE_SEC = 6.0
IDLE_SEC = 10.0
# Two renewals of the default lease.
RUNNING_SEC = 20.0


@dataclass(frozen=True, slots=True)
class IdleCost:
    """Percent of one core."""

    redis: float
    workers: float


def waiting() -> IdleCost:
    """1,000 worker loops without tasks."""
    with environment_for(PEERS[OURS], Shape("idle", "", PROCESSES, LOOPS)) as env:
        env.call("send", "noop", 1)
        loops = [sys.executable, "-m", "benchmarks.peers.idle_workers", str(LOOPS)]
        fleet = Fleet([loops] * PROCESSES, env.env, env.folder)
        with running_fleet(fleet):
            wait_for(lambda: registered(env), PROCESSES * LOOPS, fleet, quiet_sec=START_SEC)
            wait_for(env.counter_file.total, 1, fleet, quiet_sec=QUIET_SEC)
            return spent(env, fleet, IDLE_SEC)


def registered(env: Environment) -> int:
    """How many workers are registered."""
    found: Any = env.client.zcard(queue._internals.shard.keys.workers())
    return int(found)


def running(tasks: int) -> IdleCost:
    """One process that runs a number of tasks, none of which ends."""
    with environment_for(PEERS[OURS], Shape("running", "", 1, tasks)) as env:
        env.call("send", "hold", tasks)
        with running_fleet(env.fleet()) as fleet:
            wait_for(env.counter_file.total, tasks, fleet, quiet_sec=START_SEC)
            return spent(env, fleet, RUNNING_SEC)


def spent(env: Environment, fleet: Fleet, seconds: float) -> IdleCost:
    """The cost of both sides over some seconds, after SETTLE_SEC."""
    time.sleep(SETTLE_SEC)
    start, redis, workers = time.monotonic(), env.server_cpu(), sum(fleet.cpu().values())
    time.sleep(seconds)
    percent = 100 / (time.monotonic() - start)
    return IdleCost(
        (env.server_cpu() - redis) * percent, (sum(fleet.cpu().values()) - workers) * percent
    )
