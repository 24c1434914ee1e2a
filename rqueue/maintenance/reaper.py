"""Reclaims the tasks of workers that stopped renewing their leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rqueue.core import leases
from rqueue.core.counts import LeaseEntry, read_leases
from rqueue.core.leases import LostLease
from rqueue.core.timers import (
    LastCheck,
    Pace,
    check_server,
    read_last_check,
    restamp,
    write_last_check,
)
from rqueue.core.workers import has_one_slot, read_fleet
from rqueue.errors import ScriptFault
from rqueue.task.attempt.outcome import Lost
from rqueue.task.attempt.retry import lost_unstarted, runs_exclusively
from rqueue.task.attempt.verdict import Report, rule, rules_of
from rqueue.task.lane import signature
from rqueue.task.state import LEASED, State

if TYPE_CHECKING:
    from random import Random

    from rqueue.clock import Clock
    from rqueue.core.reader import Reader
    from rqueue.core.workers import WorkerRecord
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard
    from rqueue.task.task import Task

PAGE = 200
REAPS_A_LEASE = 20


@dataclass(slots=True)
class Reaped:
    """What one tick did; `holding` where it reclaimed nothing because the server itself may have
    been silent.

    `stuck` counts leases that could not be reclaimed because what is stored of their tasks is
    damaged; `poison` counts the dead that are poison pills.
    """

    ready: int = 0
    retrying: int = 0
    dead: int = 0
    held: int = 0
    stuck: int = 0
    poison: int = 0
    holding: bool = False

    def count(self, row: LostLease, word: str) -> None:
        """Counts what became of one lease."""
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
    """Finds leases in the pending list that were not renewed, and decides by the same rules as a
    worker. Any number may run: the move checks the lease again.
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
        self.current = settings.live()
        self.clock = clock
        self.random = random
        self.lease_ms = round(settings.lease_sec * 1000)
        self.interval_sec = interval_sec or reap_sec(settings.lease_sec)
        self.pace = Pace(self.lease_ms, round(self.interval_sec * 1000))
        self.fleet: dict[str, WorkerRecord] | None = None

    async def tick(self) -> Reaped:
        """Reclaims every lease that was not renewed, unless the server itself may have
        been silent.
        """
        if await self.must_hold():
            return Reaped(holding=True)
        reaped = Reaped()
        after = ""
        while page := await read_leases(self.shard, idle_ms=self.lease_ms, after=after, limit=PAGE):
            after = page[-1].entry
            for row, word in await self.settle(page):
                reaped.count(row, word)
        return reaped

    async def must_hold(self) -> bool:
        """Whether idle times mean nothing after a restart, a pause or a step of the clock."""
        run_id = (await self.shard.runner.connection.server_info()).run_id
        now_ms, seen = await read_last_check(self.shard)
        found = check_server(seen, now_ms, run_id, self.pace)
        if seen is not None:
            self.pace = replace(self.pace, last_gap_ms=max(0, now_ms - seen.at_ms))
        if found.stepped_back:
            await restamp(self.shard)
        await write_last_check(self.shard, LastCheck(now_ms, run_id, found.hold_until_ms))
        return found.holds(now_ms)

    async def settle(self, page: Sequence[LeaseEntry]) -> list[tuple[LostLease, str]]:
        """Decides about a page of leases and settles them."""
        self.fleet = None
        known = [lease for lease in page if lease.state in LEASED]
        tasks = await self.reader.read([lease.task for lease in known])
        sound: list[LostLease] = []
        damaged: list[LostLease] = []
        for lease, task in zip(known, tasks, strict=True):
            if task is not None:
                rows = damaged if task.damaged else sound
                rows.append(await self.verdict(lease, task))
        words = await leases.reap(self.shard, sound, idle_ms=self.lease_ms) if sound else []
        words += [await self.reap_one(row) for row in damaged]
        return list(zip([*sound, *damaged], words, strict=True))

    async def reap_one(self, row: LostLease) -> str:
        """Reaps a task whose stored parts are damaged in a call of its own: where the move fails,
        no other task is affected.
        """
        try:
            (word,) = await leases.reap(self.shard, [row], idle_ms=self.lease_ms)
        except ScriptFault as fault:
            self.reader.warn(row.task, f"cannot be reaped: {fault.reply}")
            return "STUCK"
        return word

    async def verdict(self, lease: LeaseEntry, task: Task) -> LostLease:
        """Decides what becomes of a task whose worker is silent."""
        error = f"the worker was silent for {lease.idle_ms / 1000:.0f} s"
        report = Report(lease.consumer, error, self.clock.now())
        rules = rules_of(task.spec, self.current)
        # Prefetched: the task had not begun.
        unbegun = task.started_at is None and not task.damaged
        state = State.CLAIMED if unbegun else State(lease.state)
        outcome = Lost(state, exclusive=not unbegun and await self.ran_exclusively(lease))
        ruling = rule(task, outcome, report, rules, random=self.random)
        often = unbegun and lost_unstarted(task.epoch, task.attempts)
        suspect = often or (
            not unbegun and runs_exclusively(ruling.attempts, ruling.reclaims, rules)
        )
        exclusive = await self.exclusive_lane(lease.lane) if suspect else ""
        return LostLease(lease.task, lease.token, *ruling, exclusive)

    async def ran_exclusively(self, lease: LeaseEntry) -> bool:
        """Whether nothing ran beside the task in its worker: it was exclusive, or the worker has
        one slot. The leases that a dead worker still holds do not show that: they expire one by
        one.
        """
        lane = await self.reader.lane(lease.lane)
        if lane is not None and lane.exclusive:
            return True
        if self.fleet is None:
            self.fleet = {one.name: one for one in await read_fleet(self.shard)}
        known = self.fleet.get(lease.consumer)
        return known is not None and has_one_slot(known)

    async def exclusive_lane(self, number: int) -> str:
        """The lane in which a task is exclusive: it may be what kills its workers."""
        lane = await self.reader.lane(number)
        return signature(replace(lane, exclusive=True)) if lane else ""


def reap_sec(lease_sec: float) -> float:
    """How often leases are checked."""
    return lease_sec / REAPS_A_LEASE
