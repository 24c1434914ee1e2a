"""The growth of the cost of a task: runs with something grown and plain runs alternate.

In flight: sleeping tasks in one process with 10,000 slots, and with 100. The sleep is proportional
to the number of slots, so both complete the same number of tasks a second and differ only in the
number in flight.

Backlog: the first 10,000 no-ops of a long backlog, and a backlog of 10,000 no-ops; ten slots.

Registered: a backlog of 10,000 no-ops for one worker with ten slots, in a queue with 1,000 other
workers, each with a waiting claim for another type, and in a queue with one other worker.

Redis CPU includes enqueue and work; worker CPU is what the process used after its first task. Each
figure is the median of the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.peers.catalogue import OURS, PEERS, SHAPES, Shape
from benchmarks.peers.environment import Environment, environment_for, running_fleet, wait_for
from benchmarks.peers.measures import MICRO, QUIET_SEC, START_SEC, worker_cpu

FEW, MANY = (Shape(f"1x{slots}", "", 1, slots) for slots in (100, 10_000))
# Three times the tasks in flight, which takes longer than the time between two renewals.
DOZES = 3 * MANY.slots
SHORT = 10_000
WORKERS = 1_000
# Short runs are cheap, and single ones differ by a tenth.
SHORT_RUNS = 5
# Each run takes its part of the long backlog, and a little more.
SHORTEST_LONG = 2 * SHORT_RUNS * SHORT


@dataclass(frozen=True, slots=True)
class Cost:
    """The rate of a run, and its costs in microseconds a task."""

    rate: float
    redis_us: float
    worker_us: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The cost of the same work in the plain run and in the grown one."""

    what: str
    plain: Cost
    grown: Cost


def in_flight(runs: int) -> Growth:
    """Many tasks in flight in one process, and few."""
    what = f"{MANY.slots:,} tasks in flight, compared with {FEW.slots:,}"
    return compared(what, partial(dozed, FEW), partial(dozed, MANY), runs)


def dozed(shape: Shape) -> Cost:
    with environment_for(PEERS[OURS], shape) as env:
        return worked(env, DOZES, filled(env, "doze", DOZES))


def backlog(length: int) -> Growth:
    """The beginning of a long backlog, and a short one."""
    ours, ten = PEERS[OURS], SHAPES["1x10"]
    with environment_for(ours, ten) as short, environment_for(ours, ten) as long:
        beginning = partial(worked, long, SHORT, filled(long, "noop", length))
        what = f"a backlog of {length:,}, compared with {SHORT:,}"
        return compared(what, partial(whole, short), beginning, SHORT_RUNS)


def registered() -> Growth:
    """Many registered workers, and one."""
    ours, ten = PEERS[OURS], SHAPES["1x10"]
    with environment_for(ours, ten) as one, environment_for(ours, ten) as many:
        register(one, 1)
        register(many, WORKERS)
        what = f"{WORKERS:,} registered workers, compared with one"
        return compared(what, partial(whole, one), partial(whole, many), SHORT_RUNS)


def compared(what: str, plain: Callable[[], Cost], grown: Callable[[], Cost], runs: int) -> Growth:
    """Both alternate, because the load of the machine varies."""
    pairs = [(plain(), grown()) for _ in range(runs)]
    return Growth(what, *(middle(costs) for costs in zip(*pairs, strict=True)))


def middle(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(
        median(cost.rate for cost in costs),
        median(cost.redis_us for cost in costs),
        median(cost.worker_us for cost in costs),
    )


def whole(env: Environment) -> Cost:
    """The cost of a whole short backlog."""
    return worked(env, SHORT, filled(env, "noop", SHORT))


def filled(env: Environment, kind: str, tasks: int) -> float:
    """Enqueues tasks. Returns the server time of each, in seconds."""
    before = env.server_cpu()
    env.call("send", kind, tasks)
    return (env.server_cpu() - before) / tasks


def worked(env: Environment, tasks: int, enqueue_sec: float) -> Cost:
    """Completes a number of the queued tasks with a new worker. Returns the cost."""
    counter_file, fleet = env.counter_file.emptied(), env.fleet()
    idle = env.server_cpu()
    with running_fleet(fleet):
        wait_for(counter_file.total, 1, fleet, quiet_sec=START_SEC)
        before = fleet.cpu()
        wait_for(counter_file.total, tasks, fleet, quiet_sec=QUIET_SEC)
        redis_sec = env.server_cpu() - idle
        # One process counts; of a long backlog it may have done a few tasks more.
        (done,) = counter_file.counts()
        spent = worker_cpu(fleet, before, env)
    return Cost(
        rate=(done.count - 1) / (done.last_ns - done.first_ns) * 1e9,
        redis_us=(redis_sec / done.count + enqueue_sec) * MICRO,
        worker_us=spent / done.count * MICRO,
    )


def register(env: Environment, workers: int) -> None:
    """Registers workers with the queue."""
    env.run("benchmarks.peers.registered", workers)
