"""Moves the time of a queue in a test, from one thing that is due to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rqueue.dags.resumer import Resumer
from rqueue.errors import ConfigError
from rqueue.maintenance.promoter import Promoter
from rqueue.maintenance.reaper import Reaper
from rqueue.maintenance.rescorer import Rescorer
from rqueue.producer.drafts import Drafter
from rqueue.store.replies import text
from rqueue.testing.connection import CLOCK

if TYPE_CHECKING:
    from random import Random

    from rqueue.runtime import Runtime
    from rqueue.store.library import Argument
    from rqueue.testing.clock import ManualClock

# ARGV: now, and the prefixes of keys that are waited for in real seconds, whatever the clock shows.
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
# KEYS: ready, wakes, and the other sets of what falls due. ARGV: lease ms, and the patterns of the
# sets of READY tasks: a gate that opens concerns only those. The soonest instant after now at
# which something falls due, or 0.
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
# KEYS: waiter, lanes, and what services go on with: two sets by time, two sets, two hashes. What
# the waiter's last claim was, until when it waits, the version of the lanes, and what is due now.
LOOK = """
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


@dataclass(frozen=True, slots=True)
class Look:
    """What a conversation's last claim was and whether it waits; by which version of the lanes; and
    what services have to do now.
    """

    seq: int
    waits: bool
    version: str
    due: frozenset[str]


class SteadyReaper(Reaper):
    """The time of a test moves in steps: none of them means that the server stood still."""

    async def must_hold(self) -> bool:
        """Never."""
        return False


class Timeline:
    """The clock and the services that a scheduler would run: what is due happens in its order."""

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
        # What the last tick could do nothing about.
        self.stuck: frozenset[str] = frozenset()
        self.moving = asyncio.Lock()

    async def set(self, ms: int) -> None:
        """Shows another time, here and at the server; keys whose time has come are gone."""
        await self.run(MOVE, [], ms, self.keys.mail(""), self.keys.watchers(""))
        self.clock.ms = ms

    async def move(self, until_ms: int) -> None:
        """Lets the time pass until then; what falls due on the way happens when it does."""
        if until_ms < self.clock.ms:
            raise ConfigError("time", "does not go backwards")
        while 0 < (due_ms := await self.next_ms()) <= until_ms:
            await self.set(due_ms)
            await self.tick()
        await self.set(until_ms)
        await self.tick()

    async def jump(self) -> bool:
        """Moves to where the next thing falls due; whether there was one."""
        due_ms = await self.next_ms()
        if due_ms:
            await self.move(due_ms)
        return due_ms > 0

    async def tick(self) -> None:
        """What the services do at this moment."""
        async with self.moving:
            before = (await self.look()).due
            for service in self.services:
                await service.tick()
            self.stuck = before & (await self.look()).due

    async def next_ms(self) -> int:
        """When the next thing falls due; 0 where nothing does."""
        keys = self.keys
        sets = [keys.wakes(), keys.delayed(), keys.deadlines(), keys.deliveries()]
        lanes = [name.rpartition("0")[0] + "*" for name in (keys.lane(0), keys.keyed(0, ""))]
        return int(await self.run(NEXT, [keys.ready(), *sets], self.lease_ms, *lanes))

    async def look(self, waiter: str = "") -> Look:
        """How a conversation stands, and what is due."""
        keys = self.keys
        found = await self.run(
            LOOK,
            [
                *(keys.waiter(waiter), keys.lanes(), keys.delayed(), keys.wakes()),
                *(keys.telling(), keys.unblocking(), keys.unfinished(), keys.cancelling()),
            ],
        )
        seq, until, version, *due = map(text, found)
        return Look(int(seq), until != "0", version, frozenset(due))

    async def tasks(self) -> list[Any]:
        """The ids of all tasks in the order in which they were enqueued, of those gone as well."""
        found: list[Any] = await self.run(TASKS)
        return found

    async def run(self, script: str, keys: Sequence[str] = (), *args: Argument) -> Any:
        """The reply of one of the scripts above."""
        words = ["EVAL", CLOCK + script, len(keys), *keys, *args]
        return await self.connection.execute_one(words, what="test clock")
