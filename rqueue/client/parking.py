"""How tasks of limited services are set aside: the same for workers and for leases by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from rqueue.model.attempt import Reason
from rqueue.policy.limiting import park_sec, slow_sec
from rqueue.store import leases
from rqueue.store.leases import Parking

if TYPE_CHECKING:
    from rqueue.model.attempt import Failed
    from rqueue.settings import Settings
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard

SPENT = "STATE:SPENT"
CLAIMED = "STATE:CLAIMED"


class Limited(NamedTuple):
    """A lease whose service is limited, its type, and how it failed."""

    task: str
    token: str
    type: str
    outcome: Failed


@dataclass(slots=True)
class Aside:
    """Sets tasks aside by the rules of a queue, and slows the others of their types down."""

    shard: Shard
    reader: Reader
    settings: Settings
    random: Random = field(default_factory=Random)

    def takes(self, outcome: Failed) -> bool:
        """Whether a task that failed so is set aside instead, if it was not too often."""
        limited = outcome.reason is Reason.RATE_LIMIT and not outcome.permanent
        return limited and not self.settings.rate_limit_counts

    async def park(self, limited: Sequence[Limited]) -> list[str]:
        """What the server says to each: OK, LOST, CLAIMED where it has not begun, or SPENT where it
        was set aside as often as it may be: it fails after all.
        """
        waits, rest = await self.waits(limited), self.settings.max_slowdown_sec
        rows = [
            Parking(
                one.task,
                one.token,
                round(wait * 1000),
                one.outcome.reason,
                one.type,
                round(slow_sec(wait, rest) * 1000),
            )
            for one, wait in zip(limited, waits, strict=True)
        ]
        return await leases.park(self.shard, rows, most=self.settings.max_rate_limit_parks)

    async def waits(self, limited: Sequence[Limited]) -> list[float]:
        """How long each is set aside: as its service says, else longer each time."""
        unsaid = [one.task for one in limited if one.outcome.retry_after is None]
        tasks = await self.reader.read(unsaid) if unsaid else []
        parks = {task.id.ulid: task.parks for task in tasks if task is not None}
        return [
            park_sec(one.outcome.retry_after, parks.get(one.task, 0), self.random)
            for one in limited
        ]
