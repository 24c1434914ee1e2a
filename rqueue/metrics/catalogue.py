"""Every metric: its name, what it means, its labels. docs/metrics.md is checked against this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# A ratio is kept as its two sides, so that several processes can be added up.
Kind = Literal["counter", "gauge", "ratio", "histogram"]

WAIT_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
SCRIPT_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
# Of one worker alone: gone when its process is.
OF_ONE_WORKER = "agent_id"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `bounds` are those of a histogram."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def lasts(self) -> bool:
        """Whether it is still counted when the process that counted it has ended."""
        return self.kind in ("counter", "histogram") and OF_ONE_WORKER not in self.labels


METRICS = (
    Metric("task_queue_depth", "gauge", "tasks that have not ended, and dead ones",
           ("status", "priority_tier")),
    Metric("task_queue_wait_seconds", "histogram", "from READY to claimed, first attempts",
           (), WAIT_BOUNDS),
    Metric("tasks_completed_total", "counter", "tasks that were completed", ("type",)),
    Metric("tasks_failed_total", "counter", "attempts that failed or were lost", ("reason",)),
    Metric("tasks_dead_lettered_total", "counter", "tasks that will not be tried again"),
    Metric("task_cost_usd", "counter", "what handlers said they spent",
           ("type", "agent", "model")),
    Metric("daily_spend_usd", "gauge", "what tasks have cost today, UTC"),
    Metric("budget_remaining_usd", "gauge", "what workers that have a budget may still cost",
           ("agent",)),
    Metric("agent_utilization", "ratio", "the share of a worker's slots that is busy",
           ("agent_id",)),
    Metric("agent_heartbeat_misses_total", "counter", "renewals of leases that failed",
           ("agent_id",)),
    Metric("agent_claim_success_rate", "ratio",
           "the share of a worker's last thousand claims that brought a task", ("agent_id",)),
    Metric("rqueue_queue_depth", "gauge", "tasks by queue, type and status",
           ("queue", "type", "status")),
    Metric("rqueue_unserved_tasks", "gauge", "ready tasks that no live worker can do",
           ("queue", "type")),
    Metric("rqueue_workers", "gauge", "registered workers by how they are", ("queue", "status")),
    Metric("rqueue_day_budget_remaining_usd", "gauge", "what the day may still cost", ("queue",)),
    Metric("rqueue_budgets_short", "gauge", "accounts that could not pay something", ("queue",)),
    Metric("rqueue_unpaid_tasks", "gauge", "ready tasks that their DAGs cannot pay", ("queue",)),
    Metric("rqueue_breakers", "gauge", "types whose breakers are in this state",
           ("queue", "state")),
    Metric("rqueue_slowdowns", "gauge", "types and limit keys that rest for a limited service",
           ("queue", "what")),
    Metric("rqueue_outbox_entries", "gauge", "ended tasks that wait for the archive", ("queue",)),
    Metric("rqueue_outbox_age_seconds", "gauge", "how long the first of them has been waiting",
           ("queue",)),
    Metric("rqueue_leases_held", "gauge", "tasks in the hands of this process", ("queue",)),
    Metric("rqueue_leases_lost_total", "counter", "leases that a renewal found lost", ("queue",)),
    Metric("rqueue_fence_rejections_total", "counter",
           "settles that were refused because the lease was another's", ("queue",)),
    Metric("rqueue_suspended_total", "counter", "times a task made way for others it had spawned",
           ("queue", "type")),
    Metric("rqueue_parked_total", "counter", "times a task was set aside for a limited service",
           ("queue", "type")),
    Metric("rqueue_poison_pills_total", "counter",
           "tasks that were given up because they fail wherever they run", ("queue",)),
    Metric("rqueue_workers_blamed_total", "counter",
           "workers that were sent home because they fail what others complete", ("queue",)),
    Metric("rqueue_reaped_total", "counter", "lost leases that the reaper took, by what became",
           ("queue", "status")),
    Metric("rqueue_service_ticks_total", "counter", "ticks of a service", ("queue", "service")),
    Metric("rqueue_service_faults_total", "counter", "ticks of a service that failed",
           ("queue", "service")),
    Metric("rqueue_service_work_total", "counter", "what the ticks of a service did",
           ("queue", "service", "what")),
    Metric("rqueue_notices_delivered_total", "counter", "notices that arrived at a sink",
           ("queue", "sink")),
    Metric("rqueue_notices_failed_total", "counter", "tries to tell a sink that failed",
           ("queue", "sink")),
    Metric("rqueue_notices_given_up_total", "counter", "notices that a sink refused too often",
           ("queue", "sink")),
    Metric("rqueue_notices_oldest_seconds", "gauge",
           "for how long a sink lacks the oldest notice that it was not told", ("queue", "sink")),
    Metric("rqueue_notices_open", "gauge", "notices that are taken for a sink and did not arrive",
           ("queue", "sink")),
    Metric("rqueue_scheduler_leading", "gauge", "1 where this process leads the services",
           ("queue",)),
    Metric("rqueue_script_seconds", "histogram", "round trips of scripts", ("script",),
           SCRIPT_BOUNDS),
    Metric("rqueue_event_loop_lag_seconds", "gauge", "how late the event loop turns",
           ("agent_id",)),
    Metric("rqueue_processes", "gauge", "worker processes that run"),
    Metric("rqueue_process_restarts_total", "counter", "worker processes that were replaced",
           ("why",)),
)  # fmt: skip
CATALOGUE = {metric.name: metric for metric in METRICS}
