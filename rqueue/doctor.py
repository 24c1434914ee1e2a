"""Checks the configuration of a server and its queues: reads facts and returns findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue.core.counts import read_leases, tally
from rqueue.core.workers import requirements_of, unserved_lanes
from rqueue.errors import ConfigError, FunctionsMissing, ScriptFault
from rqueue.finding import Finding, Level
from rqueue.maintenance.rescorer import server_ms
from rqueue.notices.store import list_sinks
from rqueue.process.scheduler import leader
from rqueue.store.connection import fetch_info, read_info
from rqueue.store.functions import is_missing, load_functions
from rqueue.store.replies import text
from rqueue.store.url import is_cluster

if TYPE_CHECKING:
    from rqueue.clock import Clock
    from rqueue.store.shard import Shard
    from rqueue.store.url import Client


OLDEST = (7, 0)
SKEW_MS = 1000
LAG_MS = 60_000
# Limits of healthy sinks: a notifier registers every 30 s and delivers a notice in seconds.
SILENT_MS, LATE_MS = 120_000, 60_000
FULL = 0.8
MOST_LINES = 10
UNKNOWN = "this user may not read it"


@dataclass(frozen=True, slots=True)
class Memory:
    """A server's memory settings; a limit of 0 means no limit."""

    policy: str
    used: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Persistence:
    """What a server writes to disk; `snapshots` is None if it cannot be read."""

    log: bool
    snapshots: bool | None
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The facts about a server; a field is None if this user may not read it."""

    name: str = ""
    version: tuple[int, int] | None = None
    in_cluster: bool = False
    cluster_url: bool = False
    replica: bool = False
    memory: Memory | None = None
    persistence: Persistence | None = None
    skew_ms: int = 0
    functions: int = 0
    missing: str | None = None
    refused: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """The time since a notifier last served a sink, and the age of the oldest undelivered notice,
    None without one.
    """

    name: str
    silent_ms: int
    oldest_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """The facts about a queue. `lag_ms` is None if no task waits to be claimed. `unserved` counts
    tasks that no live worker can run, by their requirements.
    """

    name: str
    leader: str | None = None
    lag_ms: int | None = None
    paused: frozenset[str] = frozenset()
    unserved: Mapping[str, int] = field(default_factory=dict)
    sinks: tuple[SinkFacts, ...] = ()


def judge_server(facts: ServerFacts) -> list[Finding]:
    """Returns all findings about a server."""
    return [
        version(facts),
        *role(facts),
        eviction(facts.memory),
        persistence(facts.persistence),
        skew(facts.skew_ms),
        functions(facts),
        # Permissions cannot be checked without functions.
        *([permissions(facts.refused)] if facts.missing is None else []),
    ]


def judge_queue(facts: QueueFacts) -> list[Finding]:
    """Returns all findings about a queue."""
    return [leading(facts), lag(facts), *unserved(facts), *pauses(facts), *notices(facts)]


def leading(facts: QueueFacts) -> Finding:
    """Checks that a leader runs the services, which retry tasks and reap those of lost workers."""
    what = f"queue {facts.name}: scheduler"
    if facts.leader is None:
        advice = "start `rqueue worker` or `rqueue scheduler`"
        return Finding(Level.FAIL, what, "no leader: no retries, no reclaimed leases", advice)
    return Finding(Level.OK, what, f"leader is {facts.leader}")


def lag(facts: QueueFacts) -> Finding:
    """Checks how long the oldest ready task has waited."""
    what = f"queue {facts.name}: lag"
    if facts.lag_ms is None:
        return Finding(Level.OK, what, "no task waits for a worker")
    found = f"the oldest ready task has waited for {facts.lag_ms / 1000:.1f} s"
    if facts.lag_ms <= LAG_MS:
        return Finding(Level.OK, what, found)
    advice = "see `rqueue workers`: start more that serve its type and capabilities"
    return Finding(Level.WARN, what, found, advice)


def unserved(facts: QueueFacts) -> list[Finding]:
    """Reports tasks that no live worker can run: one finding per requirement, up to a maximum."""
    what = f"queue {facts.name}: unserved"
    advice = "start `rqueue worker` with these --type, --agent and --capability"
    found = sorted(facts.unserved.items(), key=lambda item: (-item[1], item[0]))
    lines = [
        f"{number} ready task{plural(number)} that no live worker can run: {required}"
        for required, number in found[:MOST_LINES]
    ]
    if left := len(found[MOST_LINES:]):
        lines.append(f"and {left} more kind{plural(left)} of task")
    return [Finding(Level.WARN, what, line, advice) for line in lines]


def plural(number: int) -> str:
    """Returns the ending of a noun after a number."""
    return "" if number == 1 else "s"


def pauses(facts: QueueFacts) -> list[Finding]:
    """Reports what an operator has paused."""
    if not facts.paused:
        return []
    what, found = f"queue {facts.name}: paused", ", ".join(sorted(facts.paused))
    return [Finding(Level.WARN, what, found, "`rqueue resume` ends a pause")]


def notices(facts: QueueFacts) -> list[Finding]:
    """Checks that every sink receives its notices."""
    return [sink_found(f"queue {facts.name}: sink {sink.name}", sink) for sink in facts.sinks]


def sink_found(what: str, sink: SinkFacts) -> Finding:
    """Checks that a sink is served and receives its notices."""
    if sink.silent_ms > SILENT_MS:
        found = f"no notifier has served it for {sink.silent_ms / 1000:.0f} s"
        advice = (
            "start `rqueue notifier` where its secret is set; else its notices are deleted later"
        )
        return Finding(Level.WARN, what, found, advice)
    if sink.oldest_ms is not None and sink.oldest_ms > LATE_MS:
        found = f"the oldest undelivered notice is {sink.oldest_ms / 1000:.0f} s old"
        return Finding(Level.WARN, what, found, "see the log of the notifier: the sink may be down")
    return Finding(Level.OK, what, "all notices delivered")


def version(facts: ServerFacts) -> Finding:
    """Checks for Redis 7.0 or later, or Valkey, with a URL of the right kind."""
    if facts.version is None:
        return Finding(Level.WARN, "version", UNKNOWN, "allow INFO, so that it can be checked")
    found = f"{facts.name} {'.'.join(map(str, facts.version))}"
    if facts.name != "valkey" and facts.version < OLDEST:
        return Finding(Level.FAIL, "version", found, "use Redis 7.0 or later, or Valkey")
    if facts.in_cluster and not facts.cluster_url:
        advice = "write the URL as redis+cluster://"
        return Finding(Level.FAIL, "version", f"{found}, part of a cluster", advice)
    return Finding(Level.OK, "version", found)


def role(facts: ServerFacts) -> list[Finding]:
    """Reports a replica, which refuses writes or loses them."""
    if not facts.replica:
        return []
    advice = "use the URL of its primary; redis+sentinel:// finds it by itself"
    return [
        Finding(
            Level.FAIL, "role", "the server is a replica: no task can be added or claimed", advice
        )
    ]


def eviction(memory: Memory | None) -> Finding:
    """Checks that a full server refuses new tasks and never evicts stored ones."""
    if memory is None:
        advice = "make sure that maxmemory-policy is noeviction"
        return Finding(Level.WARN, "memory", UNKNOWN, advice)
    if memory.policy != "noeviction":
        found = f"maxmemory-policy is {memory.policy}: a full server would evict tasks"
        return Finding(Level.FAIL, "memory", found, "CONFIG SET maxmemory-policy noeviction")
    if memory.limit and memory.used > FULL * memory.limit:
        found = f"{memory.used / memory.limit:.0%} of maxmemory is used"
        return Finding(Level.WARN, "memory", found, "raise maxmemory, or let the queue drain")
    limit = f"maxmemory {memory.limit}" if memory.limit else "no maxmemory"
    return Finding(Level.OK, "memory", f"noeviction, {limit}")


def persistence(kept: Persistence | None) -> Finding:
    """Checks that tasks survive a restart of the server."""
    if kept is None:
        return Finding(Level.WARN, "persistence", UNKNOWN, "make sure that appendonly is yes")
    if not kept.healthy:
        advice = "see the server's log and its disk: it refuses writes, or will lose them"
        return Finding(Level.FAIL, "persistence", "the last write to disk failed", advice)
    if kept.log:
        return Finding(Level.OK, "persistence", "appendonly")
    advice = "CONFIG SET appendonly yes keeps all but the last second"
    if kept.snapshots is False:
        return Finding(Level.WARN, "persistence", "off: a restart loses every task", advice)
    found = "snapshots only: a restart loses all changes since the last"
    return Finding(Level.WARN, "persistence", found, advice)


def skew(skew_ms: int) -> Finding:
    """Checks the difference between the clocks. Leases use the server's clock only; `at` and
    `deadline` are instants of this machine.
    """
    found = f"the server's clock is {abs(skew_ms)} ms {'ahead' if skew_ms >= 0 else 'behind'}"
    if abs(skew_ms) <= SKEW_MS:
        return Finding(Level.OK, "clock", found)
    advice = "set both by NTP: `at` and `deadline` are off by as much"
    return Finding(Level.WARN, "clock", found, advice)


def functions(facts: ServerFacts) -> Finding:
    """Checks that the server has the functions of this release."""
    if facts.missing is not None:
        return Finding(Level.FAIL, "functions", facts.missing, "rqueue functions load")
    return Finding(Level.OK, "functions", f"{facts.functions} loaded")


def permissions(refused: tuple[str, ...] | None) -> Finding:
    """Checks that this user may send the commands of moves and clients."""
    if refused is None:
        found = "this user may not call functions on the queue's keys"
        advice = "ACL SETUSER <user> +fcall +fcall_ro ~<namespace>:*, then run doctor again"
        return Finding(Level.FAIL, "permissions", found, advice)
    if refused:
        advice = f"ACL SETUSER <user> {' '.join(f'+{word.lower()}' for word in refused)}"
        return Finding(Level.FAIL, "permissions", f"refused: {', '.join(refused)}", advice)
    return Finding(Level.OK, "permissions", "every command is allowed")


T = TypeVar("T")
PAGE = 500
PAGES = 20
CALLED = re.compile(r'redis\.p?call\("(\w+)"(?:, "([A-Z]+)")?')
# Commands whose subcommands have permissions of their own.
FAMILIES = frozenset({"XGROUP", "XINFO"})
# Commands that clients send besides moves.
PLAIN = frozenset(
    {"FCALL", "FCALL_RO", "BLPOP", "GET", "GETRANGE", "EXISTS", "HGETALL", "ZCARD"}
    | {"ZRANGE", "TIME", "XRANGE", "XREAD", "XREVRANGE", "XINFO|STREAM"}
)
# Arguments before the first key, for commands whose first argument is not a key.
BEFORE_KEYS = {"FCALL": "x 1", "FCALL_RO": "x 1", "XREAD": "STREAMS"}

BEFORE_KEYS |= {"XREADGROUP": "GROUP g c STREAMS"}


async def read_server(shard: Shard, clock: Clock) -> ServerFacts:
    """Reads the facts about a server that this user may read."""
    connection = shard.runner.connection
    # The first call opens the connection, which takes time; the second one is measured.
    await server_ms(shard)
    before_ms, there_ms = clock.now_ms(), await server_ms(shard)
    here_ms = (before_ms + clock.now_ms()) // 2
    facts = await permitted(connection.call(fetch_info, what="INFO"))
    info = read_info(facts) if facts else None
    replica = bool(facts and facts.get("role") == "slave")
    save = await permitted(connection.call(ask_save, what="CONFIG GET"))
    missing = await functions_missing(shard, replica=replica)
    return ServerFacts(
        name=info.name if info else "",
        version=info.version if info else None,
        in_cluster=bool(info and info.cluster),
        cluster_url=connection.cluster,
        replica=replica,
        memory=memory_of(facts) if facts else None,
        persistence=persistence_of(facts, save) if facts else None,
        skew_ms=there_ms - here_ms,
        functions=len(shard.runner.moves),
        missing=missing,
        refused=await refused(shard) if missing is None else None,
    )


async def read_queue(shard: Shard, name: str) -> QueueFacts:
    """Reads the facts about a queue."""
    paused = (await tally(shard)).paused
    term = await leader(shard)
    missed: Counter[str] = Counter()
    for lane, number in (await unserved_lanes(shard)).items():
        missed[requirements_of(lane)] += number
    owner = term.owner if term else None
    sinks = [SinkFacts(one.name, one.silent_ms, one.oldest_ms) for one in await list_sinks(shard)]
    return QueueFacts(name, owner, await lag_ms(shard), paused, missed, tuple(sinks))


async def lag_ms(shard: Shard) -> int | None:
    """Returns how long the oldest unclaimed task has waited; None without one.

    Only the oldest entries of the stream are read. If all of them are leased, no task is found.
    """
    connection, key, after = shard.runner.connection, shard.keys.ready(), ""
    for _ in range(PAGES):
        # Leases are read first: a task that is claimed in between has waited until now.
        held = {
            lease.entry for lease in await read_leases(shard, idle_ms=0, after=after, limit=PAGE)
        }
        start = f"({after}" if after else "-"
        page = await connection.call(reading(key, start), what="XRANGE")
        for entry in page:
            if entry not in held:
                return max(0, await server_ms(shard) - int(entry.split("-")[0]))
        if len(page) < PAGE:
            return None
        after = page[-1]
    return None


def reading(key: str, start: str) -> Callable[[Client], Awaitable[list[str]]]:
    """Returns a call that reads one page of a stream's entries."""

    async def read(client: Client) -> list[str]:
        found: Any = await client.xrange(key, start, "+", PAGE)
        return [text(entry) for entry, _ in found]

    return read


async def functions_missing(shard: Shard, *, replica: bool) -> str | None:
    """Returns why the server lacks the functions of this release; None if it has them.

    Loads missing functions if this user may; a replica gets them from its primary.
    """
    runner = shard.runner
    words = runner.moves["queue/permitted"].pack(shard.move_keys["queue/permitted"], {"root": ""})
    move = runner.moves["queue/permitted"]
    try:
        reply = await runner.connection.execute_one(
            (move.verb, move.function, *words), what=move.name
        )
    except ConfigError:
        return None  # The user may not call functions: `permissions` reports this.
    except ScriptFault as fault:
        if not is_missing(fault):
            raise
    else:
        if not isinstance(reply, list):
            # The server speaks the protocol but is not Redis.
            raise ScriptFault(f"{runner.connection.address} {move.verb}", reply)
        return None
    if replica:
        return f"{runner.library.name} is not on this replica"
    try:
        await load_functions(runner.connection, runner.library)
    except FunctionsMissing as error:
        return str(error)
    return None


async def refused(shard: Shard) -> tuple[str, ...] | None:
    """Returns the commands that this user may not send; None if that cannot be checked."""
    names = commands(shard)
    calls = [(f"{name.replace('|', ' ')} {BEFORE_KEYS.get(name, '')}",) for name in names]
    found = await permitted(shard.run("queue/permitted", rows=calls))
    return None if found is None else tuple(names[at - 1] for at in found[1:])


def commands(shard: Shard) -> list[str]:
    """Returns every command that moves and clients send, as the ACL of the server spells it."""
    found = set(PLAIN)
    for name, word in CALLED.findall(shard.runner.library.source):
        found.add(f"{name}|{word}" if name in FAMILIES else name)
    return sorted(found)


async def permitted(call: Awaitable[T]) -> T | None:
    """Returns the result of a call; None if this user may not send it."""
    try:
        return await call
    except (ConfigError, FunctionsMissing, ScriptFault):
        return None


async def ask_save(client: Client) -> dict[str, str]:
    """Reads the snapshot configuration of the server."""
    if is_cluster(client):
        answer: Any = await client.config_get("save", target_nodes=client.DEFAULT_NODE)
    else:
        answer = await client.config_get("save")
    return {text(name): text(value) for name, value in answer.items()}


def memory_of(facts: dict[str, Any]) -> Memory:
    """Returns the memory settings from the reply of INFO."""
    return Memory(
        policy=str(facts.get("maxmemory_policy", "unknown")),
        used=int(facts.get("used_memory", 0)),
        limit=int(facts.get("maxmemory", 0)),
    )


def persistence_of(facts: dict[str, Any], save: dict[str, str] | None) -> Persistence:
    """Returns the persistence settings from INFO and the snapshot configuration."""
    words = [facts.get("aof_last_write_status", "ok"), facts.get("rdb_last_bgsave_status", "ok")]
    return Persistence(
        log=bool(int(facts.get("aof_enabled", 0))),
        snapshots=None if save is None else bool(save.get("save")),
        healthy=all(word == "ok" for word in words),
    )
