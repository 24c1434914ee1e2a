"""What a live view shows of a shard beside its counts, in one bounded read."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rqueue.model.ids import TaskId
from rqueue.model.lane import micro
from rqueue.model.scale import BOUNDS
from rqueue.store.lanes import read_lanes
from rqueue.store.replies import ok
from rqueue.store.values import entry_ms, holder_in, words

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

WORKERS, LEASES, EVENTS = 1000, 500, 200
# Events that tell of an attempt that failed.
FAILURES = frozenset({"task.retrying", "task.dead_lettered"})


@dataclass(frozen=True, slots=True)
class Hand:
    """A worker: when it gave its last sign of life, and how many tasks it has in hand."""

    name: str
    silent_ms: int
    held: int


@dataclass(frozen=True, slots=True)
class Underway:
    """A task that a worker has, and since when: started, or claimed if it has not been."""

    task: TaskId
    type: str
    state: str
    worker: str
    for_ms: int


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed: what became of its task, and why."""

    task: TaskId
    event: str
    reason: str
    ago_ms: int


@dataclass(frozen=True, slots=True)
class Look:
    """A shard at one moment.

    `waits_ms` is by type how long the longest waits of those that are next in their tier;
    `underway` comes from the oldest entries of the stream, `failures` from the last events.
    """

    leader: str | None
    waits_ms: dict[str, int]
    hands: list[Hand]
    underway: list[Underway]
    failures: list[Failure]


async def look(shard: Shard) -> Look:
    """The shard as it is now, in time that does not grow with its tasks."""
    lanes = (await read_lanes(shard)).by_number()
    types = {number: lane.type for number, lane in lanes.items()}
    args: dict[str, Argument] = {
        "rates": json.dumps([[number, lane.micro_rate] for number, lane in lanes.items()]),
        "bounds": json.dumps([micro(bound) for bound, _ in BOUNDS]),
        "workers": WORKERS,
        "leases": LEASES,
        "events": EVENTS,
    }
    reply = ok("queue/look", "", await shard.run("queue/look", args))
    now_ms, leader, heads, seen, consumers, held, events = reply
    return Look(
        leader=leader_in(leader, now_ms),
        waits_ms=waits_in(heads, types, now_ms),
        hands=hands_in(seen, consumers, now_ms),
        underway=[one for row in held if (one := underway_in(row, types, now_ms))],
        failures=[told for row in events if (told := failure_in(row, now_ms))],
    )


def leader_in(flat: list[bytes], now_ms: int) -> str | None:
    """Who runs the services, while the term lasts."""
    term = dict(zip(flat[::2], flat[1::2], strict=True))
    return words(term[b"owner"]) if int(term.get(b"until_ms", 0)) > now_ms else None


def waits_in(heads: list[list[Any]], types: dict[int, str], now_ms: int) -> dict[str, int]:
    """The longest wait of each type that has something ready."""
    found: dict[str, int] = {}
    for number, *entries in heads:
        type = types[int(number)]
        for entry in entries:
            # Broken bytes are no entry; the view goes on with the rest.
            with suppress(ValueError):
                found[type] = max(found.get(type, 0), now_ms - entry_ms(words(entry)))
    return found


def hands_in(seen: list[bytes], consumers: list[list[Any]], now_ms: int) -> list[Hand]:
    """The workers, the busiest first."""
    held = {words(name): int(number) for name, number in consumers}
    hands = [
        Hand(words(name), max(0, now_ms - int(float(at))), held.get(words(name), 0))
        for name, at in zip(seen[::2], seen[1::2], strict=True)
    ]
    return sorted(hands, key=lambda hand: (-hand.held, hand.silent_ms, hand.name))


def underway_in(row: list[bytes], types: dict[int, str], now_ms: int) -> Underway | None:
    """A lease as it is shown; none where its entry or its task's hash is broken."""
    ulid, state, lane, holder = map(words, row)
    try:
        claimed, started, worker = holder_in(holder)
        type = types[int(lane)]
        task = TaskId.from_ulid(ulid)
    except (ValueError, KeyError):
        return None
    return Underway(task, type, state, worker, max(0, now_ms - (started or claimed)))


def failure_in(row: list[Any], now_ms: int) -> Failure | None:
    """An event as it is shown; none where it tells of something else."""
    entry, flat = row
    said = {words(name): words(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
    if said.get("event") not in FAILURES:
        return None
    task = TaskId.from_ulid(said.get("task", ""))
    # The reason comes first; of a task that is tried again, when and how often follows.
    reason, ago_ms = said.get("detail", "").partition(" ")[0], now_ms - entry_ms(words(entry))
    return Failure(task, said["event"], reason, max(0, ago_ms))
