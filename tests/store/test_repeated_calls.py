"""A function of the library keeps nothing between calls: an upvalue would outlive the call."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import ResponseError

from rqueue.core.submit import lanes_text
from rqueue.store.keys import Keys
from rqueue.store.library import Library, build, library
from rqueue.store.runner import Runner
from rqueue.store.shard import Shard, Terms, ending
from rqueue.task.lane import Lane
from tests.harness import NAME
from tests.servers import Server

LUA = Path(__file__).parent.parent.parent / "lua"
# Without ageing, a score is the same at each time.
LANES = lanes_text((Lane("code", 0.0),))
SERVED = '[[1,0,"code",false]]'
# Arguments and columns of rows that have the same form in all moves; any other is "1".
VALUES = {
    "bounds": "[10]",
    "def": '{"t":"code"}',
    "how": ending(Terms()),
    "keep_ms": "60000",
    "kinds": '["task"]',
    "memo_ms": "60000",
    "numbers": "[1]",
    "rates": "[[1,0]]",
    "review": "{}",
    "terms": ending(Terms()),
    "token": "1:1",
    "who": '{"by":[["1","1"]],"may":["1"]}',
}
# Those of one move.
MOVE_VALUES: dict[str, dict[str, str]] = {
    "dag/spawn": {"lanes": LANES, "place": "1 1 0", "special": "\n"},
    "dag/submit": {"facts": "[]", "lanes": LANES, "place": "1 1 0", "flags": "", "special": ""},
    "queue/resume": {"lanes": "[1]"},
    "repair/tidy": {"name": "profiles:1"},
    "task/claim": {"lanes": SERVED},
    "task/exchange": {"lanes": SERVED},
    "task/explain": {"lanes": "[[1,0]]"},
    "task/fail": {"breaker": ""},
    "task/reap": {"breaker": "", "idle_ms": "60000"},
    "task/renew": {"claim_ms": "60000", "timeout_ms": "60000"},
    "task/submit": {"lanes": LANES, "task": "3", "place": "1 1", "special": ""},
    "task/why": {"lane": '[1,0,"code",false]'},
}
NOW = re.compile(r"(?<!\d)\d{13}(?!\d)(-\d+)?")
# The lease of the running task was not renewed for this long; the call finds a little more.
IDLE_MS = 7_000_000
LASTED = re.compile(r'(?<!\d)700\d{4}(?!\d)|(?<="duration_sec":)[0-9.]+')
# A deadline that is counted from now may lie this much later.
SLACK_MS = 2
# Keys that moves read, beside those of the tasks and those that a move declares.
READ = ("breakers", "budgets", "dag:1", "profiles:1", "sink:1", "unfinished", "worker:1")
# Moves that no argument or key makes raise an error, each with the reason.
NEVER_RAISES = {
    "archive/join": "SET writes any text, over a key of any type",
    "archive/resend": "a key of another type is passed over, and its only number is compared",
    "queue/permitted": "tries commands, and replies which are forbidden",
    "scheduler/restamp": "without a list of leases, also for a wrong page, it replies as for none",
}


class Calls:
    """Calls of one move in two states of a server: empty, and with a running and a waiting task."""

    def __init__(self, client: redis.Redis, own: Library, name: str) -> None:
        self.client = client
        self.own = own
        self.name = name
        self.shard = Shard(Runner(None, own), Keys("rq", NAME), Terms())  # type: ignore[arg-type]
        # Lease moves get the running task, others the waiting one.
        names = own.moves[name].args + own.moves[name].each
        task = "1" if "token" in names else "2"
        self.values = VALUES | {"task": task, "root": self.shard.root} | MOVE_VALUES.get(name, {})

    def send(self, name: str, words: Sequence[Any]) -> Any:
        move = self.own.moves[name]
        return self.client.execute_command(move.verb, move.function, *words)

    def words(self) -> list[Any]:
        """The words of the call, with one row."""
        move = self.own.moves[self.name]
        row = [self.values.get(column, "1") for column in move.each]
        args = {arg: self.values.get(arg, "1") for arg in move.args}
        return move.pack(self.shard.move_keys[self.name], args, [row])

    def with_tasks(self) -> None:
        """Replaces all keys by those of two tasks, of which worker `1` runs the first."""
        self.client.flushall()
        keys = self.shard.move_keys["task/submit"]
        rows = [(task, "1 1", '{"t":"code"}', "") for task in ("1", "2")]
        args: dict[str, Any] = {
            "root": self.shard.root, "lanes": LANES, "max_lanes": 9, "tries": 9,
            "how": ending(Terms()), "who": "", "most": "",
        }  # fmt: skip
        self.send("task/submit", self.own.moves["task/submit"].pack(keys, args, rows))
        claim = self.own.moves["task/claim"]
        version = self.client.hget(self.shard.keys.lanes(), "version") or "0"
        given: dict[str, Any] = dict.fromkeys(claim.args, "1") | {
            "root": self.shard.root, "lanes": SERVED, "version": version, "memo_ms": 60_000,
        }  # fmt: skip
        self.send("task/claim", claim.pack(self.shard.move_keys["task/claim"], given))
        entry: Any = self.client.hget(self.shard.keys.task("1"), "entry")
        self.client.xclaim(
            self.shard.keys.ready(), "workers", "1", 0, [entry], idle=IDLE_MS, justid=True
        )

    def now_ms(self) -> int:
        seconds, micros = self.client.time()
        return int(seconds * 1000 + micros // 1000)

    def outcomes(self) -> list[str]:
        """The reply of the call and the keys it leaves, in each state; times of this round are
        replaced by a word, so that a time which was kept from an earlier round is not.
        """
        time.sleep(4 * SLACK_MS / 1000)
        began, found = self.now_ms(), []
        for prepare in (self.client.flushall, self.with_tasks):
            prepare()
            reply = self.send(self.name, self.words())
            found.append(plain([reply, *contents(self.client)]))
        ended = self.now_ms() + SLACK_MS

        def shown(match: re.Match[str]) -> str:
            return "now" if began <= int(match[0][:13]) <= ended else match[0]

        return [LASTED.sub("while", NOW.sub(shown, text)) for text in found]

    def raised(self) -> list[str]:
        """The errors of calls with an argument that is no number, and with a key of another
        type.
        """
        errors, words = [], self.words()
        keys = words[0]
        for at in range(keys + 1, len(words)):
            self.with_tasks()
            errors.append(self.error_of([*words[:at], "x", *words[at + 1 :]]))
        self.with_tasks()
        declared = words[1 : keys + 1] + [self.shard.root + key for key in READ]
        every = {*self.client.keys("*"), *(str(key).encode() for key in declared)}
        for key in sorted(every):
            self.with_tasks()
            is_text = self.client.type(key) == b"string"
            self.client.delete(key)
            self.client.rpush(key, "x") if is_text else self.client.set(key, "x")
            errors.append(self.error_of(words))
        return [error for error in errors if error]

    def error_of(self, words: Sequence[Any]) -> str:
        try:
            self.send(self.name, words)
        except ResponseError as error:
            return str(error)
        return ""


def contents(client: redis.Redis) -> Iterator[Any]:
    """Every key with its content."""
    for key in sorted(client.keys("*")):
        match client.type(key):
            case b"string":
                yield key, client.get(key)
            case b"hash":
                yield key, sorted(client.hgetall(key).items())
            case b"set":
                yield key, sorted(client.smembers(key))
            case b"zset":
                yield key, client.zrange(key, 0, -1, withscores=True)
            case b"list":
                yield key, client.lrange(key, 0, -1)
            case _:
                yield key, client.xrange(key)


def plain(value: Any) -> str:
    """A value as text; a score that is a whole number is written without a fraction."""
    match value:
        case bytes():
            return value.decode()
        case float():
            return f"{value:.0f}"
        case dict():
            return plain(list(value.items()))
        case list() | tuple():
            return "[" + ", ".join(map(plain, value)) + "]"
        case _:
            return str(value)


def check(client: redis.Redis, own: Library, name: str) -> None:
    """Fails where a move, called again, also after errors, does something else than when it was
    just loaded.
    """
    client.function_load(own.source, replace=True)
    calls = Calls(client, own, name)
    fresh = calls.outcomes()
    assert calls.outcomes() == fresh
    errors = calls.raised()
    assert bool(errors) != (name in NEVER_RAISES), errors
    assert calls.outcomes() == fresh


@pytest.fixture
def client(valkey: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey.plain_url, protocol=2) as client:
        yield client


@pytest.mark.parametrize("name", sorted(library().moves))
def test_a_function_keeps_nothing_between_calls(client: redis.Redis, name: str) -> None:
    """Called again, also after an error, it replies as when it was just loaded."""
    check(client, library(), name)


KEPT_TIME = (
    "lib/core/values.lua",
    'function values.now_ms()\n  local time = redis.call("TIME")',
    """local kept
function values.now_ms()
  kept = kept or redis.call("TIME")
  local time = kept""",
)
KEPT_LANES = (
    "lib/lane/lanes.lua",
    """function lanes.number_of(root, kind, max_lanes, now)
  if not kind.number then
    kind.number = redis.call""",
    """local kept = {}
function lanes.number_of(root, kind, max_lanes, now)
  kind.number = kept[kind.signature]
  if not kind.number then
    kept[kind.signature] = "1"
    kind.number = redis.call""",
)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        pytest.param(KEPT_TIME, "worker/list", id="a time in a reply"),
        pytest.param(KEPT_TIME, "worker/register", id="a time in a key"),
        pytest.param(KEPT_LANES, "task/submit", id="the number of a lane"),
    ],
)
def test_a_module_that_keeps_a_value_between_calls_is_found(
    client: redis.Redis, tmp_path: Path, change: tuple[str, str, str], name: str
) -> None:
    path, code, keeping = change
    shutil.copytree(LUA, tmp_path / "lua")
    module = tmp_path / "lua" / path
    text = module.read_text()
    assert text.count(code) == 1
    module.write_text(text.replace(code, keeping))
    other = build(tmp_path / "lua")

    with pytest.raises(AssertionError):
        check(client, other, name)
