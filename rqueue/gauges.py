"""Collects the metrics of a process, from its workers and schedulers, and those of its queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rqueue.budgets.accounts import budgets
from rqueue.core.counts import TOTALS, counts_of, tally
from rqueue.core.outbox import oldest_ms
from rqueue.core.workers import (
    WorkerStatus,
    offers_of,
    read_fleet,
    ready_by_lane,
    run_status,
    unserved,
)
from rqueue.limits.breaker import breakers
from rqueue.limits.slowdown import slowdowns
from rqueue.metrics.figures import Figures
from rqueue.notices.notifier import PREFIX
from rqueue.notices.store import list_sinks
from rqueue.process.monitor import Gauges
from rqueue.task.attempt.breaker import BreakerState
from rqueue.task.attempt.outcome import Reason
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.core.counts import Tally
    from rqueue.process.monitor import ServedQueue
    from rqueue.process.scheduler import Scheduler
    from rqueue.process.service import ServiceCounters
    from rqueue.store.shard import Shard
    from rqueue.worker.worker import Worker


# Only READY tasks are counted by priority tier.
ANY_TIER = "any"
# How many slow-downs are read at most.
MOST_SLOWED = 1000
# The counters of notifiers, each of which is a metric.
NOTICED = ("delivered", "failed", "given_up")
# The new state of a task, by the reaper's name for it.
REAPED = {
    "ready": State.READY,
    "retrying": State.RETRYING,
    "dead": State.DEAD_LETTERED,
}


def gather(served_queues: Sequence[ServedQueue]) -> Figures:
    """Returns the metrics of this process. May be called from any thread."""
    figures = Figures()
    for one in served_queues:
        if one.worker is not None:
            add_worker(figures, one.queue, one.worker)
        if one.scheduler is not None:
            add_scheduler(figures, one.queue, one.scheduler)
        add_services(figures, one.queue, one.services)
    return figures


def add_worker(figures: Figures, queue: str, worker: Worker) -> None:
    """Adds the counters of a worker and the number of its leases."""
    stats, beats, slots = worker.executor.stats, worker.beat.beats, worker.slots
    figures.add(stats.figures.cells)
    for type, number in list(stats.completed_by_type.items()):
        figures.count("tasks_completed_total", type, by=number)
    name = worker.name
    # The workers of a process share slots and name: each reports its part of the ratio.
    own_share = max(slots.size, 1) / len(slots.shared_slots.members)
    figures.add_ratio("agent_utilization", name, part=len(slots.running), whole=own_share)
    claims_filled = min(stats.claims_filled, stats.claims_sent)
    figures.add_ratio("agent_claim_success_rate", name, part=claims_filled, whole=stats.claims_sent)
    figures.count("agent_heartbeat_misses_total", name, by=beats.missed)
    figures.count("rqueue_leases_lost_total", queue, by=0)
    figures.count("rqueue_fence_rejections_total", queue, by=0)
    figures.put("rqueue_leases_held", queue, value=len(worker.held))


def add_scheduler(figures: Figures, queue: str, scheduler: Scheduler) -> None:
    """Adds the counters of the services that this scheduler runs. A reaped lease also counts as a
    failed attempt with the reason `crash`.
    """
    figures.put("rqueue_scheduler_leading", queue, value=float(leads(scheduler)))
    add_services(figures, queue, scheduler.figures)
    reaped = scheduler.figures["reaper"].work if "reaper" in scheduler.figures else {}
    for what, state in REAPED.items():
        number = reaped.get(what, 0)
        figures.count("rqueue_reaped_total", queue, state, by=number)
        figures.count("tasks_failed_total", Reason.CRASH.label, by=number)
    figures.count("tasks_dead_lettered_total", by=reaped.get("dead", 0))
    figures.count("rqueue_poison_pills_total", queue, by=reaped.get("poison", 0))
    drainer = scheduler.figures.get("drainer")
    blamed = drainer.work.get("blamed", 0) if drainer else 0
    figures.count("rqueue_workers_blamed_total", queue, by=blamed)


def add_services(figures: Figures, queue: str, services: Mapping[str, ServiceCounters]) -> None:
    """Adds the ticks and counters of services; those of notifiers also by sink."""
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
    """Returns whether this scheduler is the leader, according to its last reply."""
    term, owner = scheduler.term, scheduler.owner
    silent_sec = scheduler.clock.monotonic() - scheduler.answered_at
    return term is not None and term.owner == owner.name and silent_sec < owner.ttl_sec


async def add_fleet(figures: Figures, queue: str, shard: Shard, counted: Tally) -> None:
    """Adds the registered workers, and the tasks that none of them can run."""
    known = await read_fleet(shard)
    for status in WorkerStatus:
        number = sum(run_status(run) is status for one in known for run in one.runs)
        figures.put("rqueue_workers", queue, status, value=number)
    missed = unserved(ready_by_lane(counted), offers_of(known))
    for type in {one.lane.type for one in counted.lanes}:
        number = sum(ready for lane, ready in missed.items() if lane.type == type)
        figures.count("rqueue_unserved_tasks", queue, type, by=number)


async def add_gates(figures: Figures, queue: str, shard: Shard) -> None:
    """Adds the budgets, the tasks that they block, and the states of breakers and slow-downs."""
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
    """Adds the age of each sink's oldest undelivered notice, and the notices being delivered."""
    for sink in await list_sinks(shard):
        waits_sec = (sink.oldest_ms or 0) / 1000
        figures.put("rqueue_notices_oldest_seconds", queue, sink.name, value=waits_sec)
        figures.put("rqueue_notices_open", queue, sink.name, value=sink.open)


async def gather_queues(served_queues: Sequence[ServedQueue]) -> Figures:
    """Returns the metrics of the queues. The cost grows with the number of lanes only."""
    figures = Figures()
    for queue, shard in {one.queue: one.shard for one in served_queues}.items():
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


GAUGES = Gauges(gather, gather_queues)
