"""Helpers of tests of moves: rows by name, and every key with its content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rqueue.core.claim import grant
from rqueue.core.leases import HeldLease
from rqueue.core.submit import Row, lanes_text, special
from rqueue.core.timers import read_last_check
from rqueue.store.lanes import read_lanes
from rqueue.store.shard import ending
from rqueue.task.ids import new_task_id
from rqueue.task.lane import Lane, Offer
from tests.harness import Harness

# Without ageing a score equals the base, so that tests can write it.
PLAIN = Lane("code", 0.0)
BASE = 50_000_000
DEFINITION = '{"type":"code"}'
Keys = dict[str, Any]


def words(reply: Any) -> Any:
    """A reply with its bytes as text, at any depth."""
    match reply:
        case bytes():
            return reply.decode()
        case list() | tuple():
            return [words(part) for part in reply]
        case _:
            return reply


def to_json(facts: dict[str, Any] | None) -> str:
    """Facts as the client sends them; nothing for none."""
    return json.dumps(facts, separators=(",", ":")) if facts else ""


def a_row(
    *,
    task: str = "",
    lane: int = 1,
    base: int = BASE,
    definition: str = DEFINITION,
    more: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Row:
    """One task of a submit, by default a plain one."""
    name = task or new_task_id().ulid
    lines = special(to_json(more), to_json(options))
    return Row(name, f"{lane} {base}", definition.encode(), lines)


async def submit(
    harness: Harness,
    rows: Sequence[Row],
    *,
    lanes: Sequence[Lane] = (PLAIN,),
    max_lanes: int = 512,
    tries: int = 100,
    who: str = "",
    most: int | str = "",
) -> list[Any]:
    """The reply of the move submit."""
    args: dict[str, Any] = {
        "lanes": lanes_text(tuple(lanes)),
        "max_lanes": max_lanes,
        "tries": tries,
        "how": ending(harness.queue._internals.shard.terms),
        "who": who,
        "most": most,
    }
    found: list[Any] = words(await harness.queue._internals.shard.run("task/submit", args, rows))
    return found


async def submitted(harness: Harness, **options: Any) -> str:
    """The id of one new task, which was accepted."""
    row = a_row(**options)
    assert await submit(harness, [row]) == ["OK", 0]
    return row.task


async def claim(harness: Harness, n: int = 1, **changes: Any) -> list[Any]:
    """The claim move's reply, its rows as grants: all lanes, session `one` of worker `w1`,
    unless changed.
    """
    lanes = await read_lanes(harness.queue._internals.shard)
    served = lanes.served(Offer.of(changes.pop("types", None)))
    args: dict[str, Any] = {
        "waiter": "one",
        "seq": 1,
        "consumer": "w1",
        "bits": "bits",
        "n": n,
        "start": 0,
        "version": lanes.version,
        "lanes": served.lanes,
        "profile": served.profile,
        "box": "box",
        "wait_ms": 0,
        "delivery_ms": 2000,
        "memo_ms": 0,
    }
    unknown = set(changes) - set(args)
    assert not unknown
    reply = await harness.queue._internals.shard.run("task/claim", {**args, **changes})
    if words(reply[0]) != "OK":
        return list(words(reply))
    # Versions begin at the time; there is none before the first lane.
    word, version, wait_ms = words(reply[:3])
    return [word, "0" if version == "0" else "*", wait_ms, *map(grant, reply[3:])]


async def held(harness: Harness, *, start: int = 1, **options: Any) -> HeldLease:
    """A new task that worker `w1` has started, or only claimed."""
    task = await submitted(harness, **options)
    waiter = new_task_id().ulid
    reply = await claim(harness, waiter=waiter, start=start)
    assert [row.task for row in reply[3:]] == [task]
    return HeldLease(task, reply[3].token)


async def served_profile(harness: Harness) -> str:
    """The name of the set of all lanes."""
    return (await read_lanes(harness.queue._internals.shard)).served(Offer.of(None)).profile


async def age_holder(
    harness: Harness, task: str, *, claimed: int, started: int | None = None
) -> None:
    """Moves the claim and the start of a lease into the past."""
    now, _ = await read_last_check(harness.queue._internals.shard)
    key = harness.keys.task(task)
    owner = (await harness.client.hget(key, "holder")).decode().split(" ")[2]
    begun = 0 if started is None else now - started
    await harness.client.hset(key, "holder", f"{now - claimed} {begun} {owner}")


async def everything(harness: Harness) -> Keys:
    """Every key by its name after the root, and its content as text and numbers; without stored
    replies of manual calls.
    """
    root = harness.keys.root
    found: Keys = {}
    for key, content in (await harness.dump()).items():
        assert key.startswith(root)
        if key.startswith(f"{root}req:"):
            continue
        found[key.removeprefix(root)] = readable(content)
        if key.startswith(f"{root}dependents:"):
            found[key.removeprefix(root)] = set(found[key.removeprefix(root)])
    if "lanes" in found:
        # Versions begin at the time.
        found["lanes"]["version"] = "*"
    return found


def readable(content: Any) -> Any:
    """The content of a key: a stream as entries and their holders, a zset as member -> score."""
    match content:
        case tuple((entries, pending)):
            by_id = {words(name): texts(fields) for name, fields in entries}
            return by_id, {words(name): words(owner) for name, owner in pending}
        case dict():
            return texts(content)
        case set():
            return {words(member) for member in content}
        case [(_, float()), *_]:
            return {words(member): score for member, score in content}
        case _:
            return words(content)


def texts(fields: dict[bytes, bytes]) -> dict[str, str]:
    """A hash as text."""
    return {name.decode(): value.decode() for name, value in fields.items()}


async def pttl(harness: Harness, name: str) -> int:
    """The remaining time of a key in ms; -1 without expiry, -2 for no key."""
    found: int = await harness.client.pttl(harness.keys.root + name)
    return found
