"""The ACL users of a queue: the rights of each role, derived from its moves.

Inside a function the server checks every command against the ACL of the caller. So each role has
the commands of its moves, found by `tools.lua`, and those that its clients send directly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rqueue.store.functions import USED
from rqueue.store.library import library
from tools.keys import QUEUE, patterns
from tools.lua.commands import COMMANDS
from tools.lua.touches import touches, writes

PREFIX = "rqueue-"

# What the driver sends to connect, and to read the slots of a cluster. CLIENT SETINFO is left out:
# Redis 7.0 does not have it and would refuse the whole line, and clients tolerate the error.
CONNECTING = {"client|setname", "cluster|slots", "command", "ping", "select", "time"}

# Moves that read. Some of them also update indexes of gates.
READING = {
    "breaker/read", "budget/read", "dag/edges", "dag/list", "dag/read", "notice/list",
    "queue/counts", "queue/overview", "queue/permitted", "role/list", "scheduler/silent_leases",
    "slowdown/list", "task/dependents", "task/explain", "task/outputs", "task/read", "task/why",
    "worker/list",
}  # fmt: skip
# What clients read without a function.
READ_COMMANDS = {
    "exists", "get", "hget", "hgetall", "xinfo|consumers", "xinfo|stream", "xrange", "xread",
    "xrevrange", "zrevrangebyscore", "zscan",
}  # fmt: skip

# Submitting tasks and DAGs, waiting for their results, and continuing calls that return `more`.
SUBMITTING = {
    "dag/commit", "dag/drop", "dag/submit", "queue/answer", "task/submit", "task/unblock",
    "task/watch",
}  # fmt: skip
OPERATING = {
    "breaker/close", "breaker/open", "budget/set", "dag/budget", "dag/cancel", "dag/pause",
    "dag/resume", "queue/pause", "queue/resume", "role/drop", "role/set", "slowdown/lift",
    "task/cancel", "task/discard", "task/edit", "task/escalate", "task/reschedule", "task/revive",
    "task/run_now", "task/set_priority", "worker/drain",
}  # fmt: skip
WORKING = {
    "archive/join", "dag/spawn", "task/attach", "task/cancel", "task/claim", "task/complete",
    "task/exchange", "task/fail", "task/note", "task/park", "task/release", "task/renew",
    "task/start", "task/step", "task/validate", "worker/leave", "worker/register",
}  # fmt: skip
SERVING = {
    "archive/acknowledge", "archive/acknowledge_reviews", "archive/collect", "archive/join",
    "archive/leave", "archive/read", "archive/recount", "archive/resend", "dag/cancel",
    "dag/facts", "dag/follow", "dag/forget", "dag/pause", "dag/rank", "dag/resume", "dag/steps",
    "inbox/acknowledge", "inbox/receive", "notice/forget", "notice/serve", "notice/settle",
    "notice/take", "repair/mend", "repair/mentions", "repair/prune", "repair/sweep", "repair/tidy",
    "repair/walk", "scheduler/lead", "scheduler/observe", "scheduler/restamp", "scheduler/yield",
    "task/cancel", "task/expire", "task/promote", "task/reap", "task/recall", "task/rescore",
    "task/revive", "worker/dismiss", "worker/drain", "worker/unserved",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Role:
    """A role: the moves that it calls, and the commands that its clients send directly."""

    name: str
    moves: frozenset[str] = frozenset()
    # Direct commands to keys of the queue.
    plain: frozenset[str] = frozenset()
    # Direct commands without a key.
    keyless: frozenset[str] = frozenset()
    # Commands to the key in which clients record the library that they use.
    recording: frozenset[str] = field(default=frozenset({"hset"}))


ROLES = (
    Role(
        "producer",
        frozenset(READING | SUBMITTING | OPERATING),
        frozenset(READ_COMMANDS | {"blpop", "xadd"}),
        frozenset({"wait"}),
    ),
    Role(
        "worker",
        frozenset(READING | SUBMITTING | WORKING),
        frozenset(READ_COMMANDS | {"blpop"}),
        frozenset({"wait"}),
    ),
    Role(
        "scheduler",
        frozenset(READING | SUBMITTING | SERVING),
        frozenset(READ_COMMANDS | {"getrange", "srandmember", "zcount", "zrange"}),
        frozenset({"info"}),
    ),
    Role("reader", frozenset(READING), frozenset(READ_COMMANDS), frozenset({"info"})),
    Role(
        "migrator",
        keyless=frozenset({"function|delete", "function|list", "function|load"}),
        recording=frozenset({"hdel", "hgetall", "hset"}),
    ),
)


def users() -> str:
    """The content of the ACL file: one user a line. All users are off."""
    return "".join(f"user {PREFIX}{role.name} off {' '.join(rules(role))}\n" for role in ROLES)


def rules(role: Role) -> Iterator[str]:
    """The rules of a user: everything is removed, then what the role needs is granted."""
    yield from ("resetchannels", "-@all")
    allowed = CONNECTING | role.keyless | role.plain | commands(role.moves)
    if role.name == "reader":
        yield f"%R~{QUEUE.root}*"
        yield from granted({"fcall_ro"} | {one for one in allowed if not is_write(one)})
        yield from index_rights(role)
    elif role.moves:
        yield f"~{QUEUE.root}*"
        yield from granted({"fcall", "fcall_ro"} | allowed)
    else:
        yield from granted(allowed)
    yield selector(role.recording, [USED])


def index_rights(role: Role) -> Iterator[str]:
    """The writes of reading moves: each command for the keys that need it only."""
    # The server treats every key of FCALL as written.
    routes = {key for name in role.moves for key in keys_of_call(name)}
    yield selector({"fcall"}, sorted(routes))
    written: dict[str, set[str]] = defaultdict(set)
    for name in role.moves:
        for pattern, words in touches()[name].keys.items():
            written[pattern] |= {word.lower() for word in words if writes(word)}
    for one in patterns():
        if written[one.name]:
            yield selector(written[one.name], [one.glob])


def is_write(command: str) -> bool:
    """Whether a command changes keys."""
    return command.partition("|")[0].upper() in COMMANDS and writes(command.upper())


def commands(moves: Iterable[str]) -> set[str]:
    """The commands of moves, spelled as in ACL rules."""
    return {word.lower() for name in moves for word in touches()[name].commands}


def keys_of_call(name: str) -> list[str]:
    """The KEYS of a move that is called with FCALL."""
    move = library().moves[name]
    if move.verb == "FCALL_RO":
        return []
    return [one.key for one in patterns() if one.name in move.keys]


def selector(words: Iterable[str], keys: Iterable[str]) -> str:
    """A selector: commands for these keys only."""
    return f"({' '.join([*(f'~{key}' for key in keys), *granted(words)])})"


def granted(words: Iterable[str]) -> list[str]:
    """The rules that grant these commands."""
    return [f"+{word}" for word in sorted(words)]


def unassigned() -> list[str]:
    """The moves that no role has, and those of a role that do not exist."""
    return sorted(set().union(*(role.moves for role in ROLES)) ^ set(touches()))
