"""Whether a server is fit for a queue: facts in, findings out, each with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

OLDEST = (7, 0)
SKEW_MS = 1000
LAG_MS = 60_000
# A notifier says every half minute that it serves a sink; a notice is there in seconds.
SILENT_MS, LATE_MS = 120_000, 60_000
FULL = 0.8
MOST_LINES = 10
UNKNOWN = "the server does not tell this user"


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check-up: what was looked at, what was found, what to do about it."""

    level: Level
    what: str
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """How a server treats its memory; a limit of 0 is none."""

    policy: str
    used: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Persistence:
    """What survives a restart; `snapshots` is None where the server does not say."""

    log: bool
    snapshots: bool | None
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What is known of a server; None where this user may not ask."""

    name: str = ""
    version: tuple[int, int] | None = None
    in_cluster: bool = False
    cluster_url: bool = False
    replica: bool = False
    memory: Memory | None = None
    persistence: Persistence | None = None
    skew_ms: int = 0
    scripts: int = 0
    bad_scripts: tuple[str, ...] = ()
    refused: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """How long ago a notifier served a sink, and for how long it lacks a notice; None for none."""

    name: str
    silent_ms: int
    oldest_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What is known of a queue; `lag_ms` is None where nothing waits to be claimed. `unserved` is
    how many tasks ask for what no live worker offers, by what that is.
    """

    name: str
    leader: str | None = None
    lag_ms: int | None = None
    paused: frozenset[str] = frozenset()
    unserved: Mapping[str, int] = field(default_factory=dict)
    sinks: tuple[SinkFacts, ...] = ()


def judge_server(facts: ServerFacts) -> list[Finding]:
    """All findings about a server."""
    return [
        version(facts),
        *role(facts),
        eviction(facts.memory),
        persistence(facts.persistence),
        skew(facts.skew_ms),
        scripts(facts),
        permissions(facts.refused),
    ]


def judge_queue(facts: QueueFacts) -> list[Finding]:
    """All findings about a queue."""
    return [leading(facts), lag(facts), *unserved(facts), *pauses(facts), *notices(facts)]


def leading(facts: QueueFacts) -> Finding:
    """Someone must run the services: they retry, and bring back what a lost worker had."""
    what = f"queue {facts.name}: scheduler"
    if facts.leader is None:
        advice = "start `rqueue worker` or `rqueue scheduler`"
        return Finding(
            Level.FAIL, what, "nobody leads: no retries, no lost task comes back", advice
        )
    return Finding(Level.OK, what, f"led by {facts.leader}")


def lag(facts: QueueFacts) -> Finding:
    """How long the oldest ready task waits."""
    what = f"queue {facts.name}: lag"
    if facts.lag_ms is None:
        return Finding(Level.OK, what, "nothing waits for a worker")
    found = f"the oldest ready task waits for {facts.lag_ms / 1000:.1f} s"
    if facts.lag_ms <= LAG_MS:
        return Finding(Level.OK, what, found)
    advice = "see `rqueue workers`: start more, and some that serve its type and capabilities"
    return Finding(Level.WARN, what, found, advice)


def unserved(facts: QueueFacts) -> list[Finding]:
    """What waits for a worker that is not there: one line each, as far as a page has room."""
    what = f"queue {facts.name}: unserved"
    advice = "start `rqueue worker` with these --type, --agent and --capability"
    found = sorted(facts.unserved.items(), key=lambda item: (-item[1], item[0]))
    lines = [
        Finding(Level.WARN, what, f"{number} ready that no live worker can do: {asked}", advice)
        for asked, number in found[:MOST_LINES]
    ]
    if len(found) > MOST_LINES:
        more = f"and {len(found) - MOST_LINES} more kinds of task"
        lines.append(Finding(Level.WARN, what, more, advice))
    return lines


def pauses(facts: QueueFacts) -> list[Finding]:
    """What is not handed out because an operator said so."""
    if not facts.paused:
        return []
    what, found = f"queue {facts.name}: paused", ", ".join(sorted(facts.paused))
    return [Finding(Level.WARN, what, found, "`rqueue resume` ends a pause")]


def notices(facts: QueueFacts) -> list[Finding]:
    """Whether every sink is told what it wants to be told."""
    return [sink_found(f"queue {facts.name}: sink {sink.name}", sink) for sink in facts.sinks]


def sink_found(what: str, sink: SinkFacts) -> Finding:
    """Whether a sink is served, and has had its notices."""
    if sink.silent_ms > SILENT_MS:
        found = f"nobody has served it for {sink.silent_ms / 1000:.0f} s"
        advice = "start `rqueue notifier` where its secret is; else it is forgotten in a while"
        return Finding(Level.WARN, what, found, advice)
    if sink.oldest_ms is not None and sink.oldest_ms > LATE_MS:
        found = f"it lacks a notice that is {sink.oldest_ms / 1000:.0f} s old"
        return Finding(Level.WARN, what, found, "see the notifier's log: is the sink down?")
    return Finding(Level.OK, what, "it has had its notices")


def version(facts: ServerFacts) -> Finding:
    """Redis 7.0 or later, or Valkey, reached by the right kind of URL."""
    if facts.version is None:
        return Finding(Level.WARN, "version", UNKNOWN, "allow INFO to see what it is")
    found = f"{facts.name} {'.'.join(map(str, facts.version))}"
    if facts.name != "valkey" and facts.version < OLDEST:
        return Finding(Level.FAIL, "version", found, "use Redis 7.0 or later, or Valkey")
    if facts.in_cluster and not facts.cluster_url:
        advice = "write the URL as redis+cluster://"
        return Finding(Level.FAIL, "version", f"{found}, part of a cluster", advice)
    return Finding(Level.OK, "version", found)


def role(facts: ServerFacts) -> list[Finding]:
    """A replica refuses what is written to it, or forgets it."""
    if not facts.replica:
        return []
    advice = "use the URL of its primary; redis+sentinel:// finds it by itself"
    return [Finding(Level.FAIL, "role", "a replica: no task can be added or claimed here", advice)]


def eviction(memory: Memory | None) -> Finding:
    """A full server refuses new work; it must never throw tasks away."""
    if memory is None:
        advice = "make sure that maxmemory-policy is noeviction"
        return Finding(Level.WARN, "memory", UNKNOWN, advice)
    if memory.policy != "noeviction":
        found = f"maxmemory-policy is {memory.policy}: a full server would throw tasks away"
        return Finding(Level.FAIL, "memory", found, "CONFIG SET maxmemory-policy noeviction")
    if memory.limit and memory.used > FULL * memory.limit:
        found = f"{memory.used / memory.limit:.0%} of maxmemory is used"
        return Finding(Level.WARN, "memory", found, "raise maxmemory, or let the queue drain")
    limit = f"maxmemory {memory.limit}" if memory.limit else "no maxmemory"
    return Finding(Level.OK, "memory", f"noeviction, {limit}")


def persistence(kept: Persistence | None) -> Finding:
    """Whether tasks outlive the server's process."""
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
    found = "snapshots at most: a restart loses what came after the last"
    return Finding(Level.WARN, "persistence", found, advice)


def skew(skew_ms: int) -> Finding:
    """Leases go by the server's clock alone; `at` and `deadline` are instants of this machine."""
    found = f"the server's is {abs(skew_ms)} ms {'ahead' if skew_ms >= 0 else 'behind'}"
    if abs(skew_ms) <= SKEW_MS:
        return Finding(Level.OK, "clock", found)
    advice = "set both by NTP: `at` and `deadline` are off by as much"
    return Finding(Level.WARN, "clock", found, advice)


def scripts(facts: ServerFacts) -> Finding:
    """Every script must be one that the server takes."""
    if facts.bad_scripts:
        found = f"not loadable: {', '.join(facts.bad_scripts)}"
        advice = "allow SCRIPT LOAD and EVAL; if that is so, please report it"
        return Finding(Level.FAIL, "scripts", found, advice)
    return Finding(Level.OK, "scripts", f"{facts.scripts} loaded")


def permissions(refused: tuple[str, ...] | None) -> Finding:
    """The commands that scripts and clients send."""
    if refused is None:
        found = "this user may not run EVAL on the queue's keys"
        advice = (
            "ACL SETUSER <user> +eval +evalsha ~<namespace>:*, and the commands this names then"
        )
        return Finding(Level.FAIL, "permissions", found, advice)
    if refused:
        advice = f"ACL SETUSER <user> {' '.join(f'+{word.lower()}' for word in refused)}"
        return Finding(Level.FAIL, "permissions", f"refused: {', '.join(refused)}", advice)
    return Finding(Level.OK, "permissions", "every command is allowed")
