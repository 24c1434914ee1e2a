"""The figures of a process: what its worker and scheduler have counted, and what is queued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.client.counts import TOTALS, counts_of
from rqueue.metrics.figures import Figures
from rqueue.model.attempt import Reason
from rqueue.model.breaker import BreakerState
from rqueue.model.state import State
from rqueue.model.worker import WorkerStatus
from rqueue.policy.fleet import offers_of, run_status, unserved
from rqueue.services.notifier import PREFIX
from rqueue.store.breakers import breakers
from rqueue.store.budgets import budgets
from rqueue.store.fleet import read_fleet, ready_by_lane
from rqueue.store.outbox import oldest_ms
from rqueue.store.queue import tally
from rqueue.store.sinks import list_sinks
from rqueue.store.slowdowns import slowdowns

if TYPE_CHECKING:
    from rqueue.services.scheduler import Scheduler
    from rqueue.services.service import Figures as Done
    from rqueue.services.worker import Worker
    from rqueue.store.queue import Tally
    from rqueue.store.shard import Shard

# READY tasks are counted by the tier they have reached; of the others it is not known.
ANY_TIER = "any"
# There may be any number of keys; more need not be told apart.
MOST_SLOWED = 1000
# What notifiers do, by the metric of each.
NOTICED = ("delivered", "failed", "given_up")
# What the reaper calls what became of a lease.
REAPED = {
    "ready": State.READY,
    "retrying": State.RETRYING,
    "dead": State.DEAD_LETTERED,
}


@dataclass(frozen=True, slots=True)
class Watched:
    """One queue as this process serves it; `services` are those that no scheduler runs."""

    queue: str
    shard: Shard
    worker: Worker | None = None
    scheduler: Scheduler | None = None
    services: Mapping[str, Done] = field(default_factory=dict)


def gather(watched: Sequence[Watched]) -> Figures:
    """All that was counted in this process; read as it stands, from any thread."""
    figures = Figures()
    for one in watched:
        if one.worker is not None:
            add_worker(figures, one.queue, one.worker)
        if one.scheduler is not None:
            add_scheduler(figures, one.queue, one.scheduler)
        add_services(figures, one.queue, one.services)
    return figures


def add_worker(figures: Figures, queue: str, worker: Worker) -> None:
    """What a worker has counted, and what it holds now."""
    ledger, beats, slots = worker.desk.ledger, worker.beat.beats, worker.slots
    figures.add(ledger.figures.cells)
    for type, number in list(ledger.completed_by_type.items()):
        figures.count("tasks_completed_total", type, by=number)
    name = worker.name
    # Workers that share their seats share the name too: together they are the whole.
    seats = max(slots.size, 1) / len(slots.seats.members)
    figures.share("agent_utilization", name, part=len(slots.running), whole=seats)
    given = min(ledger.given, ledger.asked)
    figures.share("agent_claim_success_rate", name, part=given, whole=ledger.asked)
    figures.count("agent_heartbeat_misses_total", name, by=beats.missed)
    figures.count("rqueue_leases_lost_total", queue, by=0)
    figures.count("rqueue_fence_rejections_total", queue, by=0)
    figures.put("rqueue_leases_held", queue, value=len(worker.held))


def add_scheduler(figures: Figures, queue: str, scheduler: Scheduler) -> None:
    """What the services have done here; a lost lease is an attempt that ended in a crash."""
    figures.put("rqueue_scheduler_leading", queue, value=float(leads(scheduler)))
    add_services(figures, queue, scheduler.figures)
    reaped = scheduler.figures["reaper"].work if "reaper" in scheduler.figures else {}
    for what, state in REAPED.items():
        number = reaped.get(what, 0)
        figures.count("rqueue_reaped_total", queue, state, by=number)
        figures.count("tasks_failed_total", Reason.CRASH.label, by=number)
    figures.count("tasks_dead_lettered_total", by=reaped.get("dead", 0))
    figures.count("rqueue_poison_pills_total", queue, by=reaped.get("poison", 0))
    referee = scheduler.figures.get("referee")
    blamed = referee.work.get("blamed", 0) if referee else 0
    figures.count("rqueue_workers_blamed_total", queue, by=blamed)


def add_services(figures: Figures, queue: str, services: Mapping[str, Done]) -> None:
    """How often services ticked and what that did; of notifiers by their sinks, too."""
    for name, service in list(services.items()):
        figures.count("rqueue_service_ticks_total", queue, name, by=service.ticks)
        figures.count("rqueue_service_faults_total", queue, name, by=service.faults)
        for what, number in list(service.work.items()):
            figures.count("rqueue_service_work_total", queue, name, what, by=number)
        if name.startswith(PREFIX):
            sink, did = name.removeprefix(PREFIX), service.work
            for what in NOTICED:
                figures.count(f"rqueue_notices_{what}_total", queue, sink, by=did.get(what, 0))


def leads(scheduler: Scheduler) -> bool:
    """Whether it leads, as far as it has heard within its term."""
    term, owner = scheduler.term, scheduler.owner
    silent_sec = scheduler.clock.monotonic() - scheduler.heard_at
    return term is not None and term.owner == owner.name and silent_sec < owner.ttl_sec


async def add_fleet(figures: Figures, queue: str, shard: Shard, counted: Tally) -> None:
    """Who is at work, and what none of them can do."""
    known = await read_fleet(shard)
    for status in WorkerStatus:
        number = sum(run_status(run) is status for one in known for run in one.runs)
        figures.put("rqueue_workers", queue, status, value=number)
    missed = unserved(ready_by_lane(counted), offers_of(known))
    for type in {one.lane.type for one in counted.lanes}:
        number = sum(ready for lane, ready in missed.items() if lane.type == type)
        figures.count("rqueue_unserved_tasks", queue, type, by=number)


async def add_gates(figures: Figures, queue: str, shard: Shard) -> None:
    """What the day and the workers may still cost, what is not paid, and how gates are."""
    money = await budgets(shard)
    figures.count("daily_spend_usd", by=money.day.spent_usd)
    figures.put("rqueue_unpaid_tasks", queue, value=money.unpaid)
    figures.put("rqueue_budgets_short", queue, value=sum(one.short for one in money.accounts))
    for one in money.accounts:
        if one.worker is not None and one.remaining_usd is not None:
            figures.count("budget_remaining_usd", one.worker, by=one.remaining_usd)
        elif one.remaining_usd is not None:
            figures.put("rqueue_day_budget_remaining_usd", queue, value=one.remaining_usd)
    found = [one.state for one in await breakers(shard)]
    for state in (BreakerState.OPEN, BreakerState.HALF_OPEN):
        figures.put("rqueue_breakers", queue, state, value=found.count(state))
    resting = [one for one in await slowdowns(shard, most=MOST_SLOWED) if one.resting]
    types = sum(one.type is not None for one in resting)
    figures.put("rqueue_slowdowns", queue, "type", value=types)
    figures.put("rqueue_slowdowns", queue, "key", value=len(resting) - types)


async def add_sinks(figures: Figures, queue: str, shard: Shard) -> None:
    """For how long each sink has not been told something, and what is on its way."""
    for sink in await list_sinks(shard):
        waits_sec = (sink.oldest_ms or 0) / 1000
        figures.put("rqueue_notices_oldest_seconds", queue, sink.name, value=waits_sec)
        figures.put("rqueue_notices_open", queue, sink.name, value=sink.open)


async def gather_queues(watched: Sequence[Watched]) -> Figures:
    """How much there is in the queues now; the work grows with their lanes alone."""
    figures = Figures()
    for queue, shard in {one.queue: one.shard for one in watched}.items():
        counted = await tally(shard)
        counts = counts_of(counted)
        await add_fleet(figures, queue, shard, counted)
        await add_gates(figures, queue, shard)
        await add_sinks(figures, queue, shard)
        for tier, number in counts.by_tier.items():
            figures.count("task_queue_depth", State.READY, tier, by=number)
        for state, number in counts.by_state.items():
            if state is not State.READY and state not in TOTALS:
                figures.count("task_queue_depth", state, ANY_TIER, by=number)
        for type, states in counts.by_type.items():
            for state, number in states.items():
                if state not in TOTALS:
                    figures.count("rqueue_queue_depth", queue, type, state, by=number)
        figures.put("rqueue_outbox_entries", queue, value=counts.outbox)
        oldest = await oldest_ms(shard)
        figures.put("rqueue_outbox_age_seconds", queue, value=(oldest or 0) / 1000)
    return figures
