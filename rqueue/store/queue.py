"""The queue as a whole: pauses, counts, what is in hand, what has ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rqueue.model.lane import Lane, micro
from rqueue.model.scale import BOUNDS, Tier
from rqueue.store.lanes import Lanes, read_lanes
from rqueue.store.replies import ok, text
from rqueue.store.shard import TRIES

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

TIERS = tuple(Tier)
# How often the counts are asked for while new lanes come up in between.
ASKED = 3


@dataclass(frozen=True, slots=True)
class LaneCount:
    """The tasks of one lane: READY ones by tier, all others by state."""

    lane: Lane
    ready: dict[Tier, int]
    states: dict[str, int]


@dataclass(frozen=True, slots=True)
class Tally:
    """All lanes' counts, the counters of the whole shard, and what is paused."""

    lanes: list[LaneCount]
    counters: dict[str, int]
    paused: frozenset[str]


class InHand(NamedTuple):
    """A lease as the pending list has it."""

    task: str
    entry: str
    consumer: str
    idle_ms: int
    state: str
    token: str
    lane: int


def gate(type: str | None, lane: int | None) -> str:
    """The word for what is paused: the queue, a type or a lane."""
    if type is not None:
        return f"type={type}"
    return "queue" if lane is None else f"lane={lane}"


async def pause(shard: Shard, what: str) -> None:
    """Hands out nothing of the queue, a type or a lane."""
    args: dict[str, Argument] = {"what": what, **shard.by_hand()}
    ok("queue/pause", what, await shard.run("queue/pause", args))


async def resume(shard: Shard, what: str) -> None:
    """Ends a pause and answers who waited."""
    lanes = await read_lanes(shard)
    numbers = json.dumps(sorted(lanes.numbers.values()))
    args: dict[str, Argument] = {
        "what": what,
        "lanes": numbers,
        "tries": TRIES,
        **shard.by_hand(),
    }
    (more,) = ok("queue/resume", what, await shard.run("queue/resume", args))
    if int(more):
        await answer_all(shard)


async def answer_all(shard: Shard) -> int:
    """Answers every parked claim that can be served now, in bounded steps; when the next gate opens
    (server ms, 0 for none).
    """
    lanes = await read_lanes(shard)
    while (found := await answer(shard, lanes))[0]:
        continue
    return found[1]


async def answer(shard: Shard, lanes: Lanes) -> tuple[bool, int]:
    """Goes on answering parked claims: whether there is more, and when the next gate opens."""
    args: dict[str, Argument] = {
        "numbers": json.dumps(sorted(lanes.numbers.values())),
        "tries": TRIES,
    }
    more, following = ok("queue/answer", "", await shard.run("queue/answer", args))
    return bool(int(more)), int(float(following))


async def tally(shard: Shard) -> Tally:
    """Counts by lane, in time that grows with the lanes alone."""
    bounds = json.dumps([micro(bound) for bound, _ in BOUNDS])
    for _ in range(ASKED):
        lanes = (await read_lanes(shard)).by_number()
        rates = [[number, lane.micro_rate] for number, lane in lanes.items()]
        args: dict[str, Argument] = {"rates": json.dumps(rates), "bounds": bounds}
        stats, paused, *rows = ok("queue/counts", "", await shard.run("queue/counts", args))
        counters, states = split_stats(stats)
        # A task may have moved to a lane that was made meanwhile: it would be in neither.
        if states.keys() <= set(map(str, lanes)):
            break
    found = []
    for number, *ready in rows:
        tiers = dict(zip(TIERS, map(int, ready), strict=True))
        found.append(LaneCount(lanes[int(number)], tiers, states.get(str(number), {})))
    return Tally(found, counters, frozenset(text(what) for what in paused))


async def note_unserved(shard: Shard, rows: Sequence[tuple[int, str]], *, after_ms: int) -> int:
    """Remembers which lanes no live worker serves, and since when; how many were told of now."""
    args: dict[str, Argument] = {"after_ms": after_ms, "cap": shard.terms.events}
    return int(ok("queue/unserved", "", await shard.run("queue/unserved", args, rows))[0])


def split_stats(flat: list[bytes]) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """The shard's counters, and each lane's by state: `<name>` and `<lane>:<state>` in the hash."""
    counters: dict[str, int] = {}
    states: dict[str, dict[str, int]] = {}
    for name, count in zip(map(text, flat[::2]), map(int, flat[1::2]), strict=True):
        lane, colon, state = name.partition(":")
        if colon:
            states.setdefault(lane, {})[state] = count
        else:
            counters[name] = count
    return counters, states


async def in_hand(shard: Shard, *, idle_ms: int, after: str = "", limit: int = 500) -> list[InHand]:
    """A page of leases silent for at least `idle_ms`, after an entry."""
    args: dict[str, Argument] = {
        "idle_ms": idle_ms,
        "from": f"({after}" if after else "-",
        "limit": limit,
    }
    rows = ok("queue/in_hand", "", await shard.run("queue/in_hand", args))
    return [
        InHand(
            task=text(row[0]),
            entry=text(row[1]),
            consumer=text(row[2]),
            idle_ms=int(row[3]),
            state=text(row[4]),
            token=text(row[5]),
            # Broken bytes are no lane; the reaper goes on with the rest of the page.
            lane=int(row[6]) if row[6].removeprefix(b"-").isdigit() else 0,
        )
        for row in rows
    ]
