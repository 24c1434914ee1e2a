"""Sets tasks of a worker aside whose services want to be asked more slowly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rqueue.client.parking import SPENT, Aside, Limited
from rqueue.store.stored import claimed

if TYPE_CHECKING:
    from rqueue.model.attempt import Failed
    from rqueue.services.desk import Parts
    from rqueue.store.claims import Grant


class Parker:
    """Parks for one worker. A task that was set aside too often is not any more: it fails."""

    def __init__(self, parts: Parts) -> None:
        self.aside = Aside(parts.shard, parts.reader, parts.settings, parts.random)
        self.spent: set[str] = set()

    def limited(self, failed: Sequence[tuple[Grant, Failed]]) -> list[tuple[Grant, Failed]]:
        """Those of the failed attempts whose tasks are to be set aside instead."""
        return [
            (grant, outcome)
            for grant, outcome in failed
            if self.aside.takes(outcome) and grant.token not in self.spent
        ]

    async def park(self, limited: Sequence[tuple[Grant, Failed]]) -> list[str]:
        """What the server says to each: OK, LOST, or SPENT where it fails after all."""
        words = await self.aside.park(
            [
                Limited(grant.task, grant.token, claimed(grant).type, outcome)
                for grant, outcome in limited
            ]
        )
        self.spent.update(
            grant.token for (grant, _), word in zip(limited, words, strict=True) if word == SPENT
        )
        return words
