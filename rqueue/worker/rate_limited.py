"""Parks tasks of rate-limited services, for workers and for manual leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from rqueue.core import leases
from rqueue.core.leases import Parked
from rqueue.core.reader import claimed_task
from rqueue.task.attempt.classify import park_sec, slow_sec
from rqueue.task.attempt.outcome import Reason

if TYPE_CHECKING:
    from rqueue.core.claim import Grant
    from rqueue.core.reader import Reader
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard
    from rqueue.task.attempt.outcome import Failed
    from rqueue.worker.executor import Parts


SPENT = "STATE:SPENT"
CLAIMED = "STATE:CLAIMED"


class Limited(NamedTuple):
    """A lease whose service is rate limited, its type, and its failure."""

    task: str
    token: str
    type: str
    outcome: Failed


@dataclass(slots=True)
class Parker:
    """Parks tasks by the rules of a queue, and slows down other tasks of their types."""

    shard: Shard
    reader: Reader
    settings: Settings
    random: Random = field(default_factory=Random)

    def applies_to(self, outcome: Failed) -> bool:
        """Whether a failure parks its task instead of spending an attempt."""
        limited = outcome.reason is Reason.RATE_LIMIT and not outcome.permanent
        return limited and not self.settings.rate_limit_counts

    async def park(self, limited: Sequence[Limited]) -> list[str]:
        """Parks tasks and returns a word for each: OK, LOST, CLAIMED if it has not started, or
        SPENT if it was parked too often and has to fail.
        """
        delays, rest = await self.delays(limited), self.settings.max_slowdown_sec
        rows = [
            Parked(
                one.task,
                one.token,
                round(wait * 1000),
                one.outcome.reason,
                one.type,
                round(slow_sec(wait, rest) * 1000),
            )
            for one, wait in zip(limited, delays, strict=True)
        ]
        return await leases.park(self.shard, rows, most=self.settings.max_rate_limit_parks)

    async def delays(self, limited: Sequence[Limited]) -> list[float]:
        """The delay of each: as its service asks, else longer with each park."""
        without_delay = [one.task for one in limited if one.outcome.retry_after is None]
        tasks = await self.reader.read(without_delay) if without_delay else []
        parks = {task.id.ulid: task.parks for task in tasks if task is not None}
        return [
            park_sec(one.outcome.retry_after, parks.get(one.task, 0), self.random)
            for one in limited
        ]


class WorkerParker:
    """Parks for one worker, and remembers the tasks that were parked too often and have to fail."""

    def __init__(self, parts: Parts) -> None:
        self.parker = Parker(parts.shard, parts.reader, parts.settings, parts.random)
        self.spent: set[str] = set()

    def limited(self, failed: Sequence[tuple[Grant, Failed]]) -> list[tuple[Grant, Failed]]:
        """The failed attempts that are to be parked."""
        return [
            (grant, outcome)
            for grant, outcome in failed
            if self.parker.applies_to(outcome) and grant.token not in self.spent
        ]

    async def park(self, limited: Sequence[tuple[Grant, Failed]]) -> list[str]:
        """Parks tasks and returns a word for each: OK, LOST, or SPENT if it has to fail."""
        words = await self.parker.park(
            [
                Limited(grant.task, grant.token, claimed_task(grant).type, outcome)
                for grant, outcome in limited
            ]
        )
        self.spent.update(
            grant.token for (grant, _), word in zip(limited, words, strict=True) if word == SPENT
        )
        return words
