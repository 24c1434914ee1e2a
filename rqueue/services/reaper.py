"""Gives back the tasks of workers that stopped renewing their leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rqueue.current import Current
from rqueue.errors import ScriptFault
from rqueue.model.attempt import Lost
from rqueue.model.lane import signature
from rqueue.model.state import IN_HAND, State
from rqueue.policy.fleet import has_one_slot
from rqueue.policy.leading import reap_sec
from rqueue.policy.lease import Pace, Seen, look
from rqueue.policy.retry import lost_unheard, runs_alone
from rqueue.policy.verdict import Report, rule, rules_of
from rqueue.store import leases
from rqueue.store.fleet import read_fleet
from rqueue.store.leases import Reaping
from rqueue.store.queue import InHand, in_hand
from rqueue.store.reaping import read_seen, restamp, write_seen

if TYPE_CHECKING:
    from random import Random

    from rqueue.clock import Clock
    from rqueue.model.task import Task
    from rqueue.policy.fleet import Known
    from rqueue.settings import Settings
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard

PAGE = 200


@dataclass(slots=True)
class Reaped:
    """What one tick did; `holding` where it reclaimed nothing on purpose.

    `stuck` are leases that it could not take, because what is stored of their tasks is damaged;
    `poison` are those of the dead that are poison pills.
    """

    ready: int = 0
    retrying: int = 0
    dead: int = 0
    held: int = 0
    stuck: int = 0
    poison: int = 0
    holding: bool = False

    def count(self, row: Reaping, word: str) -> None:
        """Adds what became of one lease."""
        self.poison += bool(row.poison) and word == State.DEAD_LETTERED
        match word:
            case State.READY:
                self.ready += 1
            case State.RETRYING:
                self.retrying += 1
            case State.DEAD_LETTERED:
                self.dead += 1
            case "STUCK":
                self.stuck += 1
            case _:
                self.held += 1


class Reaper:
    """Looks through the pending list for leases that nobody renewed, and decides by the same
    policy as a worker. Any number may run: the script looks again before it takes one.
    """

    def __init__(
        self,
        shard: Shard,
        reader: Reader,
        settings: Settings,
        *,
        clock: Clock,
        random: Random,
        interval_sec: float | None = None,
    ) -> None:
        self.shard = shard
        self.reader = reader
        self.current = Current(settings)
        self.clock = clock
        self.random = random
        self.lease_ms = round(settings.lease_sec * 1000)
        self.interval_sec = interval_sec or reap_sec(settings.lease_sec)
        self.pace = Pace(self.lease_ms, round(self.interval_sec * 1000))
        self.fleet: dict[str, Known] | None = None

    async def tick(self) -> Reaped:
        """Takes every silent lease, unless the silence may be the server's own."""
        if await self.must_hold():
            return Reaped(holding=True)
        reaped = Reaped()
        after = ""
        while page := await in_hand(self.shard, idle_ms=self.lease_ms, after=after, limit=PAGE):
            after = page[-1].entry
            for row, word in await self.settle(page):
                reaped.count(row, word)
        return reaped

    async def must_hold(self) -> bool:
        """Whether a restart, a pause or a step of the clock makes idle times worthless."""
        run_id = (await self.shard.runner.connection.server_info()).run_id
        now_ms, seen = await read_seen(self.shard)
        found = look(seen, now_ms, run_id, self.pace)
        if seen is not None:
            self.pace = replace(self.pace, last_gap_ms=max(0, now_ms - seen.at_ms))
        if found.stepped_back:
            await restamp(self.shard)
        await write_seen(self.shard, Seen(now_ms, run_id, found.hold_until_ms))
        return found.holds(now_ms)

    async def settle(self, page: Sequence[InHand]) -> list[tuple[Reaping, str]]:
        """Decides about a page of leases and carries it out."""
        self.fleet = None
        known = [lease for lease in page if lease.state in IN_HAND]
        tasks = await self.reader.read([lease.task for lease in known])
        sound: list[Reaping] = []
        damaged: list[Reaping] = []
        for lease, task in zip(known, tasks, strict=True):
            if task is not None:
                rows = damaged if task.damaged else sound
                rows.append(await self.verdict(lease, task))
        words = await leases.reap(self.shard, sound, idle_ms=self.lease_ms) if sound else []
        words += [await self.reap_alone(row) for row in damaged]
        return list(zip([*sound, *damaged], words, strict=True))

    async def reap_alone(self, row: Reaping) -> str:
        """Reaps a task in whose hash something is wrong: where the script stumbles over it, no
        other task is in the same call.
        """
        try:
            (word,) = await leases.reap(self.shard, [row], idle_ms=self.lease_ms)
        except ScriptFault as fault:
            self.reader.warn(row.task, f"cannot be reaped: {fault.reply}")
            return "STUCK"
        return word

    async def verdict(self, lease: InHand, task: Task) -> Reaping:
        """What becomes of a task whose worker is silent."""
        error = f"the worker was silent for {lease.idle_ms / 1000:.0f} s"
        report = Report(lease.consumer, error, self.clock.now())
        rules = rules_of(task.spec, self.current)
        # Handed out ahead of a free slot: nothing of it had begun.
        unbegun = task.started_at is None and not task.damaged
        state = State.CLAIMED if unbegun else State(lease.state)
        outcome = Lost(state, alone=not unbegun and await self.ran_alone(lease))
        ruling = rule(task, outcome, report, rules, random=self.random)
        often = unbegun and lost_unheard(task.epoch, task.attempts)
        suspect = often or (not unbegun and runs_alone(ruling.attempts, ruling.reclaims, rules))
        alone = await self.alone(lease.lane) if suspect else ""
        return Reaping(lease.task, lease.token, *ruling, alone)

    async def ran_alone(self, lease: InHand) -> bool:
        """Whether nothing ran beside the task in its worker: it was claimed so, or there is no room
        for two. What is still in the hands of a dead worker does not tell: it comes bit by bit.
        """
        lane = await self.reader.lane(lease.lane)
        if lane is not None and lane.alone:
            return True
        if self.fleet is None:
            self.fleet = {one.name: one for one in await read_fleet(self.shard)}
        known = self.fleet.get(lease.consumer)
        return known is not None and has_one_slot(known)

    async def alone(self, number: int) -> str:
        """The lane in which a task is claimed alone: it may be what kills its workers."""
        lane = await self.reader.lane(number)
        return signature(replace(lane, alone=True)) if lane else ""
