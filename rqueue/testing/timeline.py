"""The clock of a queue in a test, which stands still until it is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rqueue.dags.resumer import Resumer
from rqueue.errors import ConfigError
from rqueue.maintenance.promoter import Promoter
from rqueue.maintenance.reaper import Reaper
from rqueue.maintenance.rescorer import Rescorer
from rqueue.producer.drafts import Drafter
from rqueue.store.replies import text

if TYPE_CHECKING:
    from random import Random

    from rqueue.runtime import Runtime
    from rqueue.store.library import Argument

EPOCH = datetime.fromtimestamp(0, UTC)
# The clock of the server, see the file.
CLOCK = Path(__file__).with_name("clock.lua").read_text(encoding="utf-8")
# Sets the clock and deletes expired keys. ARGV: now, and the prefixes of keys that callers wait for
# in real seconds, which are not deleted.
MOVE = """
redis.call("SET", CLOCK, ARGV[1])
for _, key in ipairs(redis.call("KEYS", "*")) do
  local at, is_over = redis.call("PEXPIRETIME", key), false
  if at >= FAR then
    is_over = at - FAR <= tonumber(ARGV[1])
  end
  for i = 2, #ARGV do
    is_over = is_over and string.sub(key, 1, #ARGV[i]) ~= ARGV[i]
  end
  if is_over then
    redis.call("DEL", key)
  end
end
"""
TASKS = 'return redis.call("ZRANGE", TASKS, 0, -1)'
# Returns the next instant at which something falls due, or 0. KEYS: ready, wakes, and the other
# sets by due time. ARGV: lease ms, and the patterns of the sets of READY tasks: gates that open
# count only if there are any.
NEXT = """
local redis, is_ready = clocked(redis), false
local now, next_ms = tonumber(redis.call("GET", CLOCK)), 0
local function at(ms)
  ms = tonumber(ms)
  if ms and ms > now and (next_ms == 0 or ms < next_ms) then
    next_ms = ms
  end
end
for i = 2, #ARGV do
  is_ready = is_ready or #redis.call("KEYS", ARGV[i]) > 0
end
for i = is_ready and 2 or 3, #KEYS do
  at(redis.call("ZRANGEBYSCORE", KEYS[i], "(" .. now, "+inf", "WITHSCORES", "LIMIT", 0, 1)[2])
end
for _, held in ipairs(redis.pcall("XPENDING", KEYS[1], "workers", "-", "+", 100000)) do
  at(now - held[3] + ARGV[1])
end
return string.format("%.0f", next_ms)
"""
# Returns the number of the waiter's last claim, until when it waits, the version of the lanes, and
# what is due now. KEYS: waiter, lanes, and the work of services: two sets by time, two sets, two
# hashes.
SNAPSHOT = """
local now, waiter = redis.call("GET", CLOCK), redis.call("HMGET", KEYS[1], "seq", "until")
local version = redis.call("HGET", KEYS[2], "version")
local found = { waiter[1] or "0", waiter[2] or "0", version or "0" }
local function add(key, names)
  for _, name in ipairs(names) do
    found[#found + 1] = key .. " " .. name
  end
end
for i = 3, 4 do
  add(KEYS[i], redis.call("ZRANGEBYSCORE", KEYS[i], "-inf", now, "LIMIT", 0, 100))
end
for i = 5, 6 do
  add(KEYS[i], redis.call("SMEMBERS", KEYS[i]))
end
for i = 7, 8 do
  add(KEYS[i], redis.call("HKEYS", KEYS[i]))
end
return found
"""


class ManualClock:
    """A clock that stands still until `ms` is set."""

    def __init__(self, now: datetime) -> None:
        self.ms = ms_of(now)

    def now(self) -> datetime:
        """Returns the current time as an aware datetime in UTC."""
        return EPOCH + timedelta(milliseconds=self.ms)

    def now_ms(self) -> int:
        """Returns the current time in milliseconds since 1970."""
        return self.ms

    def monotonic(self) -> float:
        """Returns the same time in seconds; it never decreases."""
        return self.ms / 1000


def ms_of(at: datetime) -> int:
    """Returns an instant in milliseconds since 1970."""
    return (at - EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The number of a waiter's last claim and whether it waits, the version of the lanes, and the
    work that is due for services.
    """

    seq: int
    waits: bool
    version: str
    due: frozenset[str]


class SteadyReaper(Reaper):
    """A reaper for a clock that moves in steps, which do not mean that the server was paused."""

    async def must_hold(self) -> bool:
        """Returns False: leases are always reaped."""
        return False


class Timeline:
    """Moves the clock and runs the services of a scheduler, in the order of what is due."""

    def __init__(self, runtime: Runtime, clock: ManualClock, random: Random) -> None:
        shard, reader, settings = runtime.shard, runtime.reader, runtime.settings
        self.clock = clock
        self.connection = runtime.connection
        self.keys = shard.keys
        self.lease_ms = round(settings.lease_sec * 1000)
        self.services = (
            SteadyReaper(shard, reader, settings, clock=clock, random=random),
            Rescorer(shard, reader),
            Promoter(shard),
            Resumer(shard, Drafter(settings, clock)),
        )
        # What was due before the last tick and still is.
        self.stuck: frozenset[str] = frozenset()
        self.moving = asyncio.Lock()

    async def set(self, ms: int) -> None:
        """Sets the time, here and at the server; deletes the keys that have expired."""
        await self.run(MOVE, [], ms, self.keys.mail(""), self.keys.watchers(""))
        self.clock.ms = ms

    async def move(self, until_ms: int) -> None:
        """Moves the time to an instant; runs the services at each instant at which something falls
        due before it. Raises ConfigError for an instant in the past.
        """
        if until_ms < self.clock.ms:
            raise ConfigError("time", "does not go backwards")
        while 0 < (due_ms := await self.next_ms()) <= until_ms:
            await self.set(due_ms)
            await self.tick()
        await self.set(until_ms)
        await self.tick()

    async def jump(self) -> bool:
        """Moves to the next instant at which something falls due; returns whether there is one."""
        due_ms = await self.next_ms()
        if due_ms:
            await self.move(due_ms)
        return due_ms > 0

    async def tick(self) -> None:
        """Runs one tick of each service."""
        async with self.moving:
            before = (await self.snapshot()).due
            for service in self.services:
                await service.tick()
            self.stuck = before & (await self.snapshot()).due

    async def next_ms(self) -> int:
        """Returns the next instant at which something falls due, 0 without one."""
        keys = self.keys
        sets = [keys.wakes(), keys.delayed(), keys.deadlines(), keys.deliveries()]
        lanes = [name.rpartition("0")[0] + "*" for name in (keys.lane(0), keys.keyed(0, ""))]
        return int(await self.run(NEXT, [keys.ready(), *sets], self.lease_ms, *lanes))

    async def snapshot(self, waiter: str = "") -> Snapshot:
        """Returns the state of a waiter, and what is due."""
        keys = self.keys
        found = await self.run(
            SNAPSHOT,
            [
                *(keys.waiter(waiter), keys.lanes(), keys.delayed(), keys.wakes()),
                *(keys.telling(), keys.unblocking(), keys.unfinished(), keys.cancelling()),
            ],
        )
        seq, until, version, *due = map(text, found)
        return Snapshot(int(seq), until != "0", version, frozenset(due))

    async def tasks(self) -> list[Any]:
        """Returns the ids of all submitted tasks, including expired ones, in their order."""
        found: list[Any] = await self.run(TASKS)
        return found

    async def run(self, script: str, keys: Sequence[str] = (), *args: Argument) -> Any:
        """Runs one of the scripts above and returns its reply."""
        words = ["EVAL", CLOCK + script, len(keys), *keys, *args]
        return await self.connection.execute_one(words, what="test clock")
