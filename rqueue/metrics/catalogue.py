"""Every metric: its name, meaning and labels. docs/metrics.md is checked against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# A ratio is stored as its two sides, so that the values of several processes can be added.
Kind = Literal["counter", "gauge", "ratio", "histogram"]

WAIT_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
SCRIPT_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
# The label of metrics that belong to one worker and end with its process.
OF_ONE_WORKER = "agent_id"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `bounds` are the buckets of a histogram."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def lasts(self) -> bool:
        """Whether the value is kept when the process that counted it has ended."""
        return self.kind in ("counter", "histogram") and OF_ONE_WORKER not in self.labels


METRICS = (
    Metric("task_queue_depth", "gauge", "tasks that have not ended, and dead ones",
           ("status", "priority_tier")),
    Metric("task_queue_wait_seconds", "histogram", "time from READY to claimed, first attempts",
           (), WAIT_BOUNDS),
    Metric("tasks_completed_total", "counter", "tasks that were completed", ("type",)),
    Metric("tasks_failed_total", "counter", "attempts that failed or were lost", ("reason",)),
    Metric("tasks_dead_lettered_total", "counter", "tasks that will not be retried"),
    Metric("task_cost_usd", "counter", "costs reported by handlers",
           ("type", "agent", "model")),
    Metric("daily_spend_usd", "gauge", "cost of all tasks today, UTC"),
    Metric("budget_remaining_usd", "gauge", "remaining budgets of workers",
           ("agent",)),
    Metric("agent_utilization", "ratio", "the share of a worker's slots that is busy",
           ("agent_id",)),
    Metric("agent_heartbeat_misses_total", "counter", "renewals of leases that failed",
           ("agent_id",)),
    Metric("agent_claim_success_rate", "ratio",
           "the share of a worker's last thousand claims that returned a task", ("agent_id",)),
    Metric("rqueue_queue_depth", "gauge", "tasks by queue, type and status",
           ("queue", "type", "status")),
    Metric("rqueue_unserved_tasks", "gauge", "ready tasks that no live worker can run",
           ("queue", "type")),
    Metric("rqueue_workers", "gauge", "registered workers by status", ("queue", "status")),
    Metric("rqueue_day_budget_remaining_usd", "gauge", "remaining budget of the day", ("queue",)),
    Metric("rqueue_budgets_short", "gauge", "accounts that could not cover a task", ("queue",)),
    Metric("rqueue_unpaid_tasks", "gauge", "ready tasks that exceed the budgets of their DAGs",
           ("queue",)),
    Metric("rqueue_breakers", "gauge", "types whose breakers are in this state",
           ("queue", "state")),
    Metric("rqueue_slowdowns", "gauge",
           "types and limit keys slowed down for a rate-limited service", ("queue", "what")),
    Metric("rqueue_outbox_entries", "gauge", "ended tasks that wait for the archive", ("queue",)),
    Metric("rqueue_outbox_age_seconds", "gauge", "age of the oldest entry of the outbox",
           ("queue",)),
    Metric("rqueue_leases_held", "gauge", "leases held by this process", ("queue",)),
    Metric("rqueue_leases_lost_total", "counter", "leases that a renewal found lost", ("queue",)),
    Metric("rqueue_fence_rejections_total", "counter",
           "settles rejected because the lease was lost", ("queue",)),
    Metric("rqueue_suspended_total", "counter", "times a task was suspended for its children",
           ("queue", "type")),
    Metric("rqueue_parked_total", "counter", "times a task was parked for a rate-limited service",
           ("queue", "type")),
    Metric("rqueue_poison_pills_total", "counter",
           "tasks that died because they fail on every worker", ("queue",)),
    Metric("rqueue_workers_blamed_total", "counter",
           "workers drained because they fail tasks that others complete", ("queue",)),
    Metric("rqueue_reaped_total", "counter", "lost leases that the reaper handled, by new status",
           ("queue", "status")),
    Metric("rqueue_service_ticks_total", "counter", "ticks of a service", ("queue", "service")),
    Metric("rqueue_service_faults_total", "counter", "ticks of a service that failed",
           ("queue", "service")),
    Metric("rqueue_service_work_total", "counter", "work done by the ticks of a service",
           ("queue", "service", "what")),
    Metric("rqueue_notices_delivered_total", "counter", "notices delivered to a sink",
           ("queue", "sink")),
    Metric("rqueue_notices_failed_total", "counter", "failed deliveries to a sink",
           ("queue", "sink")),
    Metric("rqueue_notices_given_up_total", "counter",
           "notices given up after too many failed deliveries", ("queue", "sink")),
    Metric("rqueue_notices_oldest_seconds", "gauge",
           "age of a sink's oldest undelivered notice", ("queue", "sink")),
    Metric("rqueue_notices_open", "gauge", "notices on their way to a sink",
           ("queue", "sink")),
    Metric("rqueue_scheduler_leading", "gauge", "1 if this process leads the services",
           ("queue",)),
    Metric("rqueue_script_seconds", "histogram", "round trips of moves", ("script",),
           SCRIPT_BOUNDS),
    Metric("rqueue_event_loop_lag_seconds", "gauge", "delay of the event loop",
           ("agent_id",)),
    Metric("rqueue_processes", "gauge", "worker processes that run"),
    Metric("rqueue_process_restarts_total", "counter", "worker processes that were replaced",
           ("why",)),
)  # fmt: skip
CATALOGUE = {metric.name: metric for metric in METRICS}
