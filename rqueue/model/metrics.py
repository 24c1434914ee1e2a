"""What was counted in a minute, an hour or a day of a queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime

Period = Literal["minute", "hour", "day"]


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """One row of task_queue_metrics. `average_latency` is seconds from creation to completion,
    `worker_heartbeat_delay` the seconds since the last sign of life of the live worker that was
    silent for longest, both None where there was none; `error_rates_per_agent` is the share of
    each agent's attempts that failed.
    """

    period: Period
    start: datetime
    tasks_created: int = 0
    tasks_completed: int = 0
    tasks_failed: int = 0
    average_latency: float | None = None
    worker_heartbeat_delay: float | None = None
    error_rates_per_agent: dict[str, float] = field(default_factory=dict)
