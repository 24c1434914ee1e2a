"""Sets tasks aside whose services want to be asked more slowly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rqueue.model.attempt import Reason
from rqueue.policy.limiting import park_sec, slow_sec
from rqueue.store import leases
from rqueue.store.leases import Parking
from rqueue.store.stored import claimed

if TYPE_CHECKING:
    from rqueue.model.attempt import Failed
    from rqueue.services.desk import Parts
    from rqueue.store.claims import Grant

SPENT = "STATE:SPENT"


class Parker:
    """Parks for one worker. A task that was set aside too often is not any more: it fails."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.spent: set[str] = set()

    def limited(self, failed: Sequence[tuple[Grant, Failed]]) -> list[tuple[Grant, Failed]]:
        """Those of the failed attempts whose tasks are to be set aside instead."""
        if self.parts.settings.rate_limit_counts:
            return []
        return [
            (grant, outcome)
            for grant, outcome in failed
            if outcome.reason is Reason.RATE_LIMIT
            and not outcome.permanent
            and grant.token not in self.spent
        ]

    async def park(self, limited: Sequence[tuple[Grant, Failed]]) -> list[str]:
        """What the server says to each: OK, LOST, or SPENT where it fails after all."""
        waits, rest = await self.waits(limited), self.parts.settings.max_slowdown_sec
        rows = [
            Parking(
                grant.task,
                grant.token,
                round(wait * 1000),
                outcome.reason,
                claimed(grant).type,
                round(slow_sec(wait, rest) * 1000),
            )
            for (grant, outcome), wait in zip(limited, waits, strict=True)
        ]
        most = self.parts.settings.max_rate_limit_parks
        words = await leases.park(self.parts.shard, rows, most=most)
        self.spent.update(
            grant.token for (grant, _), word in zip(limited, words, strict=True) if word == SPENT
        )
        return words

    async def waits(self, limited: Sequence[tuple[Grant, Failed]]) -> list[float]:
        """How long each is set aside: as its service says, else longer each time."""
        unsaid = [grant.task for grant, outcome in limited if outcome.retry_after is None]
        tasks = await self.parts.reader.read(unsaid) if unsaid else []
        parks = {task.id.ulid: task.parks for task in tasks if task is not None}
        return [
            park_sec(outcome.retry_after, parks.get(grant.task, 0), self.parts.random)
            for grant, outcome in limited
        ]
