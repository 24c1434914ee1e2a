"""The retention of archived rows: unlimited by default."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Days = Annotated[int, Field(ge=1, le=36_500)]
# A day is made of its minutes: they must be there until it is over, and a day longer.
MinuteDays = Annotated[int, Field(ge=2, le=36_500)]


class Retention(BaseModel):
    """Days that rows of the archive are kept after they ended; None for ever. A dead task goes only
    where `dead_days` is set, and then only so long after it was resolved.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    completed_days: Days | None = None
    cancelled_days: Days | None = None
    dead_days: Days | None = None
    agent_event_days: Days | None = None
    metrics_minute_days: MinuteDays | None = None

    @property
    def is_for_ever(self) -> bool:
        """Whether nothing ever goes."""
        return not any(days for _, days in self)

    def recounted_from(self, now: datetime) -> datetime:
        """The oldest minute of which all is still there: one before it must not be counted anew."""
        spans = [
            timedelta(days=days) - timedelta(hours=1)
            for days in (self.completed_days, self.cancelled_days, self.dead_days)
            if days is not None
        ]
        if self.metrics_minute_days is not None:
            spans.append(timedelta(days=self.metrics_minute_days - 1))
        return now - min(spans, default=timedelta(days=36_500))


def before(now: datetime, days: int) -> datetime:
    """What ended earlier than this has been kept for so many days."""
    return now - timedelta(days=days)
