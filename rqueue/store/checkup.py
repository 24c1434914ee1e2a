"""Reads the facts of a check-up; what they mean is for `rqueue.policy.checkup`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from redis.asyncio import RedisCluster

from rqueue.errors import ConfigError, ScriptFault
from rqueue.policy.checkup import Memory, Persistence, QueueFacts, ServerFacts, SinkFacts
from rqueue.policy.fleet import asks_for
from rqueue.store.fleet import unserved_lanes
from rqueue.store.leading import leader
from rqueue.store.queue import in_hand, tally
from rqueue.store.reaping import clock as server_clock
from rqueue.store.replies import text
from rqueue.store.server import ask_info, read_info
from rqueue.store.sinks import list_sinks

if TYPE_CHECKING:
    from rqueue.clock import Clock
    from rqueue.store.connection import Client
    from rqueue.store.scripts import Script
    from rqueue.store.shard import Shard

T = TypeVar("T")

PAGE = 500
PAGES = 20
CALLED = re.compile(r'redis\.p?call\("(\w+)"(?:, "([A-Z]+)")?')
# Commands that are several; the ACL knows each of them.
FAMILIES = frozenset({"XGROUP", "XINFO"})
# What clients send beside the scripts.
PLAIN = frozenset(
    {"EVAL", "EVALSHA", "BLPOP", "GET", "GETRANGE", "EXISTS", "HGETALL", "ZCARD"}
    | {"ZRANGE", "TIME", "XRANGE", "XREAD", "XREVRANGE", "XINFO|STREAM"}
)
# What stands before the first key, where it does not come first.
BEFORE_KEYS = {"EVAL": "x 1", "EVALSHA": "x 1", "XREAD": "STREAMS"}
BEFORE_KEYS |= {"XREADGROUP": "GROUP g c STREAMS"}
# Not a file of lua/: it is no move, and no other script may ask about the user who runs it.
# The key is given more often than any command needs it: Redis 7.0.15 and Valkey 9.1.2 read beyond
# the words of a call that is too short, and crash.
PROBE = """
local refused = {}
for at, command in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(command, "%S+") do
    words[#words + 1] = word
  end
  for _ = 1, 5 do
    words[#words + 1] = KEYS[1]
  end
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  if not (known and allowed) then
    refused[#refused + 1] = at
  end
end
return refused
"""


async def read_server(shard: Shard, clock: Clock) -> ServerFacts:
    """All that a server tells this user."""
    connection = shard.runner.connection
    # Asked twice: the first time, most of it goes into the connection.
    await connection.call(server_clock, what="TIME")
    before_ms = clock.now_ms()
    seconds, micros = await connection.call(server_clock, what="TIME")
    here_ms = (before_ms + clock.now_ms()) // 2
    facts = await permitted(connection.call(ask_info, what="INFO"))
    info = read_info(facts) if facts else None
    save = await permitted(connection.call(ask_save, what="CONFIG GET"))
    return ServerFacts(
        name=info.name if info else "",
        version=info.version if info else None,
        in_cluster=bool(info and info.cluster),
        cluster_url=connection.cluster,
        replica=bool(facts and facts.get("role") == "slave"),
        memory=memory_of(facts) if facts else None,
        persistence=persistence_of(facts, save) if facts else None,
        skew_ms=int(seconds) * 1000 + int(micros) // 1000 - here_ms,
        scripts=len(shard.runner.scripts),
        bad_scripts=await bad_scripts(shard),
        refused=await refused(shard),
    )


async def read_queue(shard: Shard, name: str) -> QueueFacts:
    """How a queue is doing."""
    paused = (await tally(shard)).paused
    term = await leader(shard)
    missed: Counter[str] = Counter()
    for lane, number in (await unserved_lanes(shard)).items():
        missed[asks_for(lane)] += number
    owner = term.owner if term else None
    sinks = [SinkFacts(one.name, one.silent_ms, one.oldest_ms) for one in await list_sinks(shard)]
    return QueueFacts(name, owner, await lag_ms(shard), paused, missed, tuple(sinks))


async def lag_ms(shard: Shard) -> int | None:
    """How long the oldest task that nobody has claimed waits; None where none does.

    A look at the oldest entries of the stream only: with very many in hand before the first
    that waits, none is seen.
    """
    connection, key, after = shard.runner.connection, shard.keys.ready(), ""
    for _ in range(PAGES):
        # Leases first: what is claimed in between did wait until now.
        held = {lease.entry for lease in await in_hand(shard, idle_ms=0, after=after, limit=PAGE)}
        start = f"({after}" if after else "-"
        page = await connection.call(reading(key, start), what="XRANGE")
        for entry in page:
            if entry not in held:
                seconds, micros = await connection.call(server_clock, what="TIME")
                now_ms = int(seconds) * 1000 + int(micros) // 1000
                return max(0, now_ms - int(entry.split("-")[0]))
        if len(page) < PAGE:
            return None
        after = page[-1]
    return None


def reading(key: str, start: str) -> Callable[[Client], Awaitable[list[str]]]:
    """The read of a page of a stream's entries."""

    async def read(client: Client) -> list[str]:
        found: Any = await client.xrange(key, start, "+", PAGE)
        return [text(entry) for entry, _ in found]

    return read


async def bad_scripts(shard: Shard) -> tuple[str, ...]:
    """The scripts that the server does not take."""
    bad: list[str] = []
    for name, script in shard.runner.scripts.items():
        try:
            sha = await shard.runner.connection.call(loading(script), what="SCRIPT LOAD")
        except (ConfigError, ScriptFault):
            bad.append(name)
        else:
            if sha != script.sha:
                bad.append(name)
    return tuple(bad)


def loading(script: Script) -> Callable[[Client], Awaitable[str]]:
    """The load of one script."""

    async def load(client: Client) -> str:
        return text(await client.script_load(script.source))

    return load


async def refused(shard: Shard) -> tuple[str, ...] | None:
    """The commands that this user may not send; None where it may not even ask."""
    connection, key, names = shard.runner.connection, shard.keys.ready(), commands(shard)
    calls = [f"{name.replace('|', ' ')} {BEFORE_KEYS.get(name, '')}" for name in names]
    found: Any = await permitted(
        connection.call(lambda c: c.eval(PROBE, 1, key, *calls), what="EVAL")
    )
    if not isinstance(found, list | None):
        # Something that speaks as a server does, and is none.
        raise ScriptFault(f"{connection.address} EVAL", found)
    return None if found is None else tuple(names[at - 1] for at in found)


def commands(shard: Shard) -> list[str]:
    """Every command that the scripts call and clients send, as the server's ACL spells them."""
    found = set(PLAIN)
    for script in shard.runner.scripts.values():
        for name, word in CALLED.findall(script.source):
            found.add(f"{name}|{word}" if name in FAMILIES else name)
    return sorted(found)


async def permitted(call: Awaitable[T]) -> T | None:
    """What a call answers, or None where this user may not send it."""
    try:
        return await call
    except (ConfigError, ScriptFault):
        return None


async def ask_save(client: Client) -> dict[str, str]:
    """When the server writes snapshots, by its configuration."""
    if isinstance(client, RedisCluster):
        answer: Any = await client.config_get("save", target_nodes=RedisCluster.DEFAULT_NODE)
    else:
        answer = await client.config_get("save")
    return {text(name): text(value) for name, value in answer.items()}


def memory_of(facts: dict[str, Any]) -> Memory:
    """What INFO says of memory."""
    return Memory(
        policy=str(facts.get("maxmemory_policy", "unknown")),
        used=int(facts.get("used_memory", 0)),
        limit=int(facts.get("maxmemory", 0)),
    )


def persistence_of(facts: dict[str, Any], save: dict[str, str] | None) -> Persistence:
    """What INFO and the configuration say of the disk."""
    words = [facts.get("aof_last_write_status", "ok"), facts.get("rdb_last_bgsave_status", "ok")]
    return Persistence(
        log=bool(int(facts.get("aof_enabled", 0))),
        snapshots=None if save is None else bool(save.get("save")),
        healthy=all(word == "ok" for word in words),
    )
