"""Gives back the tasks of workers that stopped renewing their leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rqueue.client.settler import delay_of, reason_of, rules_of
from rqueue.model.attempt import AttemptRecord, Lost, Reason
from rqueue.model.lane import signature
from rqueue.model.state import IN_HAND, State
from rqueue.policy.lease import Seen, look
from rqueue.policy.retry import Facts, decide
from rqueue.store import leases
from rqueue.store.leases import Reaping
from rqueue.store.queue import InHand, in_hand
from rqueue.store.reaping import read_seen, restamp, write_seen

if TYPE_CHECKING:
    from random import Random

    from rqueue.clock import Clock
    from rqueue.model.task import Task
    from rqueue.settings import Settings
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard

PAGE = 200


@dataclass(slots=True)
class Reaped:
    """What one tick did; `holding` where it reclaimed nothing on purpose."""

    ready: int = 0
    retrying: int = 0
    dead: int = 0
    held: int = 0
    holding: bool = False

    def count(self, word: str) -> None:
        """Adds what became of one lease."""
        match word:
            case State.READY:
                self.ready += 1
            case State.RETRYING:
                self.retrying += 1
            case State.DEAD_LETTERED:
                self.dead += 1
            case _:
                self.held += 1


class Reaper:
    """Looks through the pending list for leases that nobody renewed, and decides by the same
    policy as a worker. Any number may run: the script looks again before it takes one.
    """

    def __init__(
        self, shard: Shard, reader: Reader, settings: Settings, *, clock: Clock, random: Random
    ) -> None:
        self.shard = shard
        self.reader = reader
        self.settings = settings
        self.clock = clock
        self.random = random
        self.lease_ms = round(settings.lease_sec * 1000)

    async def tick(self) -> Reaped:
        """Takes every silent lease, unless the silence may be the server's own."""
        if await self.must_hold():
            return Reaped(holding=True)
        reaped = Reaped()
        after = ""
        while page := await in_hand(self.shard, idle_ms=self.lease_ms, after=after, limit=PAGE):
            after = page[-1].entry
            for word in await self.settle(page):
                reaped.count(word)
        return reaped

    async def must_hold(self) -> bool:
        """Whether a restart, a pause or a step of the clock makes idle times worthless."""
        run_id = (await self.shard.runner.connection.server_info()).run_id
        now_ms, seen = await read_seen(self.shard)
        found = look(seen, now_ms, run_id, self.lease_ms)
        if found.stepped_back:
            await restamp(self.shard)
        await write_seen(self.shard, Seen(now_ms, run_id, found.hold_until_ms))
        return found.holds(now_ms)

    async def settle(self, page: Sequence[InHand]) -> list[str]:
        """Decides about a page of leases and carries it out."""
        known = [lease for lease in page if lease.state in IN_HAND]
        tasks = await self.reader.read([lease.task for lease in known])
        rows = [
            await self.verdict(lease, task)
            for lease, task in zip(known, tasks, strict=True)
            if task is not None
        ]
        return await leases.reap(self.shard, rows, idle_ms=self.lease_ms) if rows else []

    async def verdict(self, lease: InHand, task: Task) -> Reaping:
        """What becomes of a task whose worker is silent."""
        facts = Facts(task.attempts, task.reclaims)
        rules = rules_of(task.spec, self.settings)
        decision = decide(Lost(State(lease.state)), facts, rules, self.random)
        record = AttemptRecord(
            attempt=decision.attempts,
            epoch=int(lease.token.split(":")[0]),
            agent=lease.consumer,
            reason=Reason.HEARTBEAT_TIMEOUT,
            error=f"the worker was silent for {lease.idle_ms / 1000:.0f} s",
            at=self.clock.now(),
        )
        return Reaping(
            lease.task,
            lease.token,
            delay_of(decision),
            decision.attempts,
            decision.reclaims,
            reason_of(decision, Reason.HEARTBEAT_TIMEOUT),
            record.model_dump_json(exclude_defaults=True),
            await self.alone(lease.lane),
        )

    async def alone(self, number: int) -> str:
        """The lane in which a task is claimed alone: it may be what kills its workers."""
        lane = await self.reader.lane(number)
        return signature(replace(lane, alone=True)) if lane else ""
