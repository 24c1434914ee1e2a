"""The real moves on a real server, with a clock that the test moves.

The library differs in two functions: `values.now_ms` and `values.entry_ms` read a key. So due
times, waits, deliveries and limits expire when the test moves the clock, and server and model have
the same time.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from redis.exceptions import ResponseError

from rqueue.store.keys import Keys
from rqueue.store.library import PACKAGE, Argument, Library, build

KEYS = Keys("rq", "machine")
CLOCK = "clock"
READ_CLOCK = f"""function values.{{name}}()
  local text = redis.call("GET", "{CLOCK}")
  return tonumber(text), text
end
"""
DUMP = """
local found = {}
for _, key in ipairs(redis.call("KEYS", ARGV[1] .. "*")) do
  local kind, content = redis.call("TYPE", key).ok, nil
  if kind == "string" then
    content = redis.call("GET", key)
  elseif kind == "hash" then
    content = redis.call("HGETALL", key)
  elseif kind == "set" then
    content = redis.call("SMEMBERS", key)
  elseif kind == "zset" then
    content = redis.call("ZRANGE", key, 0, -1, "WITHSCORES")
  elseif kind == "list" then
    content = redis.call("LRANGE", key, 0, -1)
  else
    content = redis.call("XRANGE", key, "-", "+")
  end
  found[#found + 1] = { string.sub(key, #ARGV[1] + 1), kind, redis.call("PTTL", key), content }
end
local held = redis.pcall("XPENDING", ARGV[1] .. "ready", "workers", "-", "+", 1000)
return { found, held.err and {} or held }
"""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of one Lua file that a test must detect."""

    file: str
    old: str
    new: str


def library_with_clock(where: Path, *mutations: Mutation) -> Library:
    """The library with the test's clock, built from a copy in `where` with the mutations."""
    shutil.copytree(PACKAGE.parent / "lua", where)
    with (where / "lib" / "core" / "values.lua").open("a") as values:
        for name in ("now_ms", "entry_ms"):
            values.write(READ_CLOCK.replace("{name}", name))
    for mutation in mutations:
        path = where / mutation.file
        text = path.read_text()
        assert mutation.old in text, f"{mutation.file} has no such text any more"
        path.write_text(text.replace(mutation.old, mutation.new))
    return build(where)


@dataclass(slots=True)
class Dump:
    """Every key of the shard at one moment, by name: type, expiry and content."""

    kinds: dict[str, str]
    expiring: set[str]
    content: dict[str, Any]
    pending: list[tuple[str, str]]
    now_ms: int

    def named(self, prefix: str) -> dict[str, Any]:
        """The keys with this prefix, by the rest of their names."""
        found = self.content.items()
        return {key.removeprefix(prefix): value for key, value in found if key.startswith(prefix)}


@dataclass(slots=True)
class ServerShard:
    """A plain client and the library, without retries and statistics."""

    client: redis.Redis
    library: Library
    now_ms: int = 1_800_000_000_000

    def reset(self) -> None:
        """Empties the server."""
        self.client.flushall()

    def run(
        self, name: str, args: Mapping[str, Argument], rows: Sequence[Sequence[Argument]] = ()
    ) -> list[Any]:
        """Runs a move. Returns its reply as text, with its first word."""
        move = self.library.moves[name]
        keys = {key: getattr(KEYS, key)() for key in move.keys}
        words = move.pack(keys, {"root": KEYS.root, **args}, rows)
        pipe = self.client.pipeline(transaction=False)
        pipe.set(CLOCK, self.now_ms)
        pipe.execute_command(move.verb, move.function, *words)
        reply = pipe.execute(raise_on_error=False)[1]
        if isinstance(reply, ResponseError) and "Function not found" in str(reply):
            self.client.function_load(self.library.source)
            reply = self.client.execute_command(move.verb, move.function, *words)
        if isinstance(reply, Exception):
            raise reply
        return list(as_text(reply))

    def dump(self) -> Dump:
        """All keys, with abbreviated ones expanded."""
        found, held = as_text(self.client.execute_command("EVAL", DUMP, 0, KEYS.root))
        dump = Dump(
            {key: kind for key, kind, _, _ in found},
            {key for key, _, ttl, _ in found if ttl >= 0},
            {key: shaped(kind, content) for key, kind, _, content in found},
            [(entry, consumer) for entry, consumer, _, _ in held],
            self.now_ms,
        )
        expand(dump)
        return dump

    def age(self, entry: str, consumer: str, idle_ms: int) -> None:
        """Ages a lease as if it had not been renewed for that time."""
        self.client.xclaim(KEYS.ready(), "workers", consumer, 0, [entry], idle=idle_ms, justid=True)


def expand(dump: Dump) -> None:
    """Expands abbreviations: a task with a single dependency has no `waits` set, one with a single
    dependent names it in its hash, one with dependencies in its DAG is not listed as blocked. While
    its DAG is being written such a task is stored as PENDING, although it is CREATED; the DAG
    counts those.
    """
    content = dump.content
    writing = {dag for dag, row in dump.named("dag:").items() if row.get("status") == "writing"}
    hidden: Counter[tuple[str, str]] = Counter()
    for task, row in dump.named("task:").items():
        if row.pop("sole", "0") == "1":
            content[f"waits:{task}"] = {row["up0"]}
        dag = "".join(letter for letter in row.get("flags", "") if not letter.islower())
        if row.get("state") == "PENDING" and dag in writing:
            row["state"] = "CREATED"
            hidden[dag, row["lane"]] += 1
        elif row.get("state") == "PENDING" and "up0" in row:
            content.setdefault("blocked", {})[task] = "0"
    for task, row in dump.named("task:").items():
        child = row.pop("down", None)
        if child is not None and task in content.get(f"waits:{child}", ()):
            content.setdefault(f"dependents:{task}", {})[child] = "0"
    check_waiting(dump, hidden)


def check_waiting(dump: Dump, hidden: Counter[tuple[str, str]]) -> None:
    """The DAGs' counts of hidden tasks by lane equal a recount."""
    for dag, row in dump.named("dag:").items():
        lanes = [name for name in row if name.startswith("waiting:")]
        counted = {name.removeprefix("waiting:"): int(row.pop(name)) for name in lanes}
        for lane, number in counted.items():
            assert number == hidden[dag, lane], f"{dag} counts {counted} that wait inside"


def shaped(kind: str, content: Any) -> Any:
    """The content of a key as Python values."""
    if kind in ("hash", "zset"):
        return dict(zip(content[::2], content[1::2], strict=True))
    if kind == "set":
        return set(content)
    if kind == "stream":
        return [(entry, dict(zip(f[::2], f[1::2], strict=True))) for entry, f in content]
    return content


def times(zset: dict[str, str]) -> dict[str, int]:
    """A sorted set whose scores are times."""
    return {member: int(float(score)) for member, score in zset.items()}


def as_text(value: Any) -> Any:
    """A reply in bytes mode as text."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [as_text(item) for item in value]
    return value


def compact(found: Mapping[str, object] | Sequence[object]) -> str:
    """JSON, or "" for empty values."""
    return json.dumps(found, separators=(",", ":")) if found else ""
