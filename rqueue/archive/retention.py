"""The retention of archived rows: unlimited by default."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Days = Annotated[int, Field(ge=1, le=36_500)]
# The metrics of a day are computed from its minutes, which must exist until one day after its end.
MinuteDays = Annotated[int, Field(ge=2, le=36_500)]


class Retention(BaseModel):
    """Days that rows of the archive are kept after the end of their task; None keeps them
    permanently. The days of a dead task begin when it is resolved.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    completed_days: Days | None = None
    cancelled_days: Days | None = None
    dead_days: Days | None = None
    agent_event_days: Days | None = None
    metrics_minute_days: MinuteDays | None = None

    @property
    def is_for_ever(self) -> bool:
        """Whether no rows are ever deleted."""
        return not any(days for _, days in self)

    def recounted_from(self, now: datetime) -> datetime:
        """Returns the oldest minute of which no rows have been deleted. Older minutes must not be
        counted again.
        """
        spans = [
            timedelta(days=days) - timedelta(hours=1)
            for days in (self.completed_days, self.cancelled_days, self.dead_days)
            if days is not None
        ]
        if self.metrics_minute_days is not None:
            spans.append(timedelta(days=self.metrics_minute_days - 1))
        return now - min(spans, default=timedelta(days=36_500))


def before(now: datetime, days: int) -> datetime:
    """Returns the time before which rows have been kept for `days` days."""
    return now - timedelta(days=days)
