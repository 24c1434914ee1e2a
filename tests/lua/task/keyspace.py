"""Every key of a queue in a comparable form: names for ids, `*` for times and random bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rqueue.core.claim import WaitingClaim
from rqueue.store.library import Argument
from rqueue.task.lane import Offer
from tests.harness import Harness

SOME = "*"
CODE_LANE = '{"rate":0.1,"type":"code"}'
EXCLUSIVE_LANE = '{"alone":true,"rate":0.1,"type":"code"}'
LANES = {"lanes": {CODE_LANE: "1", "next": "1", "version": "*"}}
# Keys that the claim of one task by w1 leaves, whatever happens to the task.
W1 = {"workers": ["w1"], "waiter:w1": SOME}
# Keys that one failed attempt leaves for the breaker of its type.
FAILING = {"breaker:code": {"failures": "1", "last_failure": SOME}, "breakers": ["code"]}
# Fields of a hash with a time: only their presence is compared.
CLOCK = frozenset(
    {
        "entry",
        "score",
        "created",
        "finished",
        "due",
        "discarded",
        "last_failure",
        "opened",
        "until",
        "reviewed",
    }
)
# Keys that waiting claims share, named by the hash of the lanes they serve.
WAITING_CLAIM = {
    "profile:*": '[[1,100000,"code",false]]',
    "profiles:1": ["*"],
    "profiles:new": ["*"],
}
TOOK = re.compile(r'(?<="duration_sec":)[0-9.]+')
HASH = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{16})\b")
BY_SCORE = re.compile(
    r"lane:|waiting:|tag:|delayed$|blocked$|deadlines$|dead$|handoffs$|workers$|wakes$|dags$|writing$|dependents:"
)


async def run_move(
    harness: Harness,
    move: str,
    args: Mapping[str, Argument] | None = None,
    rows: Iterable[Sequence[Argument]] = (),
) -> list[Any]:
    """The reply of a move with its words as text; a manual call gets its own request name."""
    shard = harness.queue._internals.shard
    manual = {"request", "memo_ms"} <= set(shard.runner.moves[move].args)
    all_args = {**(shard.request_args() if manual else {}), **(args or {})}
    return [text(word) for word in await shard.run(move, all_args, rows)]


async def all_keys(harness: Harness, **ids: str) -> dict[str, Any]:
    """Every key without its root, and its content; without stored replies of manual calls."""
    root, names = harness.keys.root, {task[-26:]: name for name, task in ids.items()}
    found: dict[str, Any] = {}
    for key, value in (await harness.dump()).items():
        short = named(key.removeprefix(root), names)
        if short.startswith("req:"):
            continue
        if short.startswith("waiter:"):
            found[short.partition("/")[0]] = SOME
        else:
            found[short] = plain(short, value, names)
    return found


async def expiring_keys(harness: Harness, **ids: str) -> set[str]:
    """The keys that have an expiry, without memos of manual calls."""
    root, names = harness.keys.root, {task[-26:]: name for name, task in ids.items()}
    found = set()
    for key in await harness.client.keys("rq:*"):
        short = named(key.decode().removeprefix(root), names)
        if await harness.client.pttl(key) > 0 and not short.startswith(("waiter:", "req:")):
            found.add(short)
    return found


async def waiting_claim(
    harness: Harness, worker: str = "w2", n: int = 1, type: str = "code", *,
    capabilities: Sequence[str] = (),
) -> WaitingClaim:  # fmt: skip
    """A claim that waits at the server for `n` tasks, with an existing lane."""
    if not await harness.client.exists(harness.keys.lanes()):
        await harness.client.hset(harness.keys.lanes(), mapping=LANES["lanes"] | {"version": "1"})
    offer = Offer.of([type], capabilities=capabilities)
    waiter = WaitingClaim(
        harness.queue._internals.shard, worker, offer, name=f"{worker}/parked", lasts=True
    )
    answer = await waiter.claim(n, wait_ms=60_000)
    assert (answer.grants, answer.wait_ms) == ([], 60_000)
    return waiter


async def mailbox_lines(harness: Harness, waiter: WaitingClaim) -> list[str]:
    """The lines in the mailbox of a waiting claim."""
    return [
        line.decode()
        for line in await harness.client.lrange(harness.keys.mail(waiter.mailbox), 0, -1)
    ]


def plain(key: str, value: Any, names: Mapping[str, str]) -> Any:
    """The content of a key, without what differs from run to run."""
    if key == "ready":
        entries, pending = value
        tasks = {entry: named(fields[b"task"].decode(), names) for entry, fields in entries}
        return list(tasks.values()), {tasks[entry]: who.decode() for entry, who in pending}
    if isinstance(value, tuple):
        rows = [decoded(fields, names) for _, fields in value[0]]
        return [row | {"at": SOME} for row in rows] if key == "reviews" else rows
    if key in HASHES:
        return HASHES[key](decoded(value, names))
    if BY_SCORE.match(key):
        members = [named(member.decode(), names) for member, _ in value]
        return sorted(members) if key.startswith("dependents:") else members
    if key.startswith(("task:", "dag:", "breaker:")):
        return task_fields(decoded(value, names))
    return decoded(value, names) if not key.startswith("failures:") else records(value, names)


def records(value: list[bytes], names: Mapping[str, str]) -> list[str]:
    """The records of attempts, oldest first, however long those took."""
    return [TOOK.sub(SOME, named(record.decode(), names)) for record in value]


# Versions begin at the current time; a counter that reaches zero stays.
HASHES: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {
    "stats": lambda found: {name: int(n) for name, n in found.items() if int(n)},
    "lanes": lambda found: found | {"version": SOME},
}


def task_fields(fields: dict[str, str]) -> dict[str, str]:
    """A task's hash, or a DAG's: a definition in one piece, times and random bits as `*`."""
    found = {}
    for name, value in fields.items():
        if name in CLOCK:
            found[name] = SOME
        elif name == "token" or (name == "settled" and ":" in value):
            found[name] = f"{value.partition(':')[0]}:*"
        elif name == "holder":
            claimed, started, owner = value.split(" ")
            assert int(claimed) > 0
            found[name] = f"* {'*' if int(started) else '0'} {owner}"
        elif not re.fullmatch(r"def[1-7]", name):
            found[name] = SOME if name in ("def0", "more") else value
    return found


def decoded(value: Any, names: Mapping[str, str]) -> Any:
    """Bytes as text, at any depth, with names for ids."""
    match value:
        case bytes():
            return named(value.decode(), names)
        case dict():
            return {decoded(k, names): decoded(v, names) for k, v in value.items()}
        case list() | set():
            return sorted((decoded(one, names) for one in value), key=str)
        case _:
            return value


def text(word: Any) -> Any:
    """A word of a reply, at any depth."""
    if isinstance(word, list):
        return [text(one) for one in word]
    return word.decode() if isinstance(word, bytes) else word


def named(line: str, names: Mapping[str, str]) -> str:
    """A text with names for ids, and `*` for hashes."""
    for ulid, name in names.items():
        line = line.replace(ulid, name)
    return HASH.sub(SOME, line)
