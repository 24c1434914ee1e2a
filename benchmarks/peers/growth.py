"""What the cost of a task grows with: each thing that grows beside a plain run, in turns.

In flight: dozing tasks in one process, of 10,000 slots and of 100. They doze the longer the more
slots there are, so that both end as many a second: the work is the same, and only what is in
flight differs.

Backlog: the first 10,000 no-ops of a long backlog and of one of just these, ten slots.

Registered: a backlog of 10,000 no-ops for one worker of ten slots, where the queue knows 1,000
others, each with a claim parked for other work, and where it knows one.

Redis CPU is that of enqueue and work together, worker CPU what the process used after its first
task; each figure is the median of the turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.peers.measures import MICRO, QUIET_SEC, START_SEC, worker_cpu
from benchmarks.peers.roster import OURS, PEERS, SHAPES, Shape
from benchmarks.peers.stand import Stand, at_work, stand_for, wait_for

FEW, MANY = (Shape(f"1x{slots}", "", 1, slots) for slots in (100, 10_000))
# Three times what is in flight, and longer than the time between two renewals.
DOZES = 3 * MANY.slots
SHORT = 10_000
WORKERS = 1_000
# The short ones are cheap, and single ones of them differ by a tenth.
SHORT_TURNS = 5
# Each turn takes its part of the long backlog, and a little of the next.
SHORTEST_LONG = 2 * SHORT_TURNS * SHORT


@dataclass(frozen=True, slots=True)
class Cost:
    """What the work of a run cost, in microseconds a task."""

    rate: float
    redis_us: float
    worker_us: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The cost of the same work where something has grown, beside the plain run."""

    what: str
    plain: Cost
    grown: Cost


def in_flight(turns: int) -> Growth:
    """Many tasks at once in one process, and few."""
    what = f"{MANY.slots:,} tasks in flight, beside {FEW.slots:,}"
    return compared(what, partial(dozed, FEW), partial(dozed, MANY), turns)


def dozed(shape: Shape) -> Cost:
    with stand_for(PEERS[OURS], shape) as stand:
        return worked(stand, DOZES, filled(stand, "doze", DOZES))


def backlog(length: int) -> Growth:
    """The beginning of a long backlog, and a short one."""
    ours, ten = PEERS[OURS], SHAPES["1x10"]
    with stand_for(ours, ten) as short, stand_for(ours, ten) as long:
        beginning = partial(worked, long, SHORT, filled(long, "noop", length))
        what = f"a backlog of {length:,}, beside {SHORT:,}"
        return compared(what, partial(whole, short), beginning, SHORT_TURNS)


def registered() -> Growth:
    """Many registered workers, and one."""
    ours, ten = PEERS[OURS], SHAPES["1x10"]
    with stand_for(ours, ten) as one, stand_for(ours, ten) as many:
        register(one, 1)
        register(many, WORKERS)
        what = f"{WORKERS:,} registered workers, beside one"
        return compared(what, partial(whole, one), partial(whole, many), SHORT_TURNS)


def compared(what: str, plain: Callable[[], Cost], grown: Callable[[], Cost], turns: int) -> Growth:
    """Both in turns, so that they meet the same weather."""
    pairs = [(plain(), grown()) for _ in range(turns)]
    return Growth(what, *(middle(costs) for costs in zip(*pairs, strict=True)))


def middle(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(
        median(cost.rate for cost in costs),
        median(cost.redis_us for cost in costs),
        median(cost.worker_us for cost in costs),
    )


def whole(stand: Stand) -> Cost:
    """A short backlog from its first task to its last."""
    return worked(stand, SHORT, filled(stand, "noop", SHORT))


def filled(stand: Stand, kind: str, tasks: int) -> float:
    """Enqueues so many; what each cost the server, in seconds."""
    before = stand.server_cpu()
    stand.inside("send", kind, tasks)
    return (stand.server_cpu() - before) / tasks


def worked(stand: Stand, tasks: int, enqueue_sec: float) -> Cost:
    """Works off so many tasks of what is there, by a worker that was not there before."""
    board, fleet = stand.board.anew(), stand.fleet()
    idle = stand.server_cpu()
    with at_work(fleet):
        wait_for(board.total, 1, fleet, quiet_sec=START_SEC)
        before = fleet.cpu()
        wait_for(board.total, tasks, fleet, quiet_sec=QUIET_SEC)
        redis_sec = stand.server_cpu() - idle
        # One process counts; of a long backlog it has gone on a little beyond these tasks.
        (done,) = board.counts()
        spent = worker_cpu(fleet, before, stand)
    return Cost(
        rate=(done.count - 1) / (done.last_ns - done.first_ns) * 1e9,
        redis_us=(redis_sec / done.count + enqueue_sec) * MICRO,
        worker_us=spent / done.count * MICRO,
    )


def register(stand: Stand, workers: int) -> None:
    """Makes so many workers known to the queue."""
    stand.run("benchmarks.peers.registered", workers)
