"""State of the whole queue: pauses, counts, leases, and an overview for live views."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.store.keys import Keys
from rqueue.store.lanes import Lanes, read_lanes
from rqueue.store.replies import entry_ms, holder_in, ok, text, words
from rqueue.store.shard import TRIES
from rqueue.task.ids import TaskId
from rqueue.task.lane import Lane, micro
from rqueue.task.priority import BOUNDS, Tier
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.store.connection import Connection
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


TIERS = tuple(Tier)
# How often the counts are read while new lanes appear.
COUNT_TRIES = 3


@dataclass(frozen=True, slots=True)
class LaneCount:
    """The tasks of one lane: READY ones by tier, all others by state."""

    lane: Lane
    ready: dict[Tier, int]
    states: dict[str, int]


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of all lanes, the counters of the shard, and what is paused."""

    lanes: list[LaneCount]
    counters: dict[str, int]
    paused: frozenset[str]


class LeaseEntry(NamedTuple):
    """A lease as the pending list has it."""

    task: str
    entry: str
    consumer: str
    idle_ms: int
    state: str
    token: str
    lane: int


def pause_scope(type: str | None, lane: int | None) -> str:
    """The word for what is paused: the queue, a type or a lane."""
    if type is not None:
        return f"type={type}"
    return "queue" if lane is None else f"lane={lane}"


async def pause(shard: Shard, what: str) -> None:
    """Pauses the queue, a type or a lane: none of its tasks can be claimed."""
    args: dict[str, Argument] = {"what": what, **shard.request_args()}
    ok("queue/pause", what, await shard.run("queue/pause", args))


async def resume(shard: Shard, what: str) -> None:
    """Ends a pause and answers the waiting claims."""
    lanes = await read_lanes(shard)
    numbers = json.dumps(sorted(lanes.numbers.values()))
    args: dict[str, Argument] = {
        "what": what,
        "lanes": numbers,
        "tries": TRIES,
        **shard.request_args(),
    }
    (more,) = ok("queue/resume", what, await shard.run("queue/resume", args))
    if int(more):
        await answer_all(shard)


async def answer_all(shard: Shard) -> int:
    """Answers every waiting claim that can be served now, in bounded steps. Returns when the next
    gate opens (server ms, 0 for none).
    """
    lanes = await read_lanes(shard)
    while (found := await answer(shard, lanes))[0]:
        continue
    return found[1]


async def answer(shard: Shard, lanes: Lanes) -> tuple[bool, int]:
    """One step of answering waiting claims: whether there is more, and when the next gate opens."""
    args: dict[str, Argument] = {
        "numbers": json.dumps(sorted(lanes.numbers.values())),
        "tries": TRIES,
    }
    more, following = ok("queue/answer", "", await shard.run("queue/answer", args))
    return bool(int(more)), int(float(following))


async def tally(shard: Shard) -> Tally:
    """Counts by lane; the cost grows with the number of lanes only."""
    bounds = json.dumps([micro(bound) for bound, _ in BOUNDS])
    for _ in range(COUNT_TRIES):
        lanes = (await read_lanes(shard)).by_number()
        rates = [[number, lane.micro_rate] for number, lane in lanes.items()]
        args: dict[str, Argument] = {"rates": json.dumps(rates), "bounds": bounds}
        stats, paused, *rows = ok("queue/counts", "", await shard.run("queue/counts", args))
        counters, states = split_stats(stats)
        # A task may have moved to a lane that was created meanwhile: it would be counted in
        # neither.
        if states.keys() <= set(map(str, lanes)):
            break
    found = []
    for number, *ready in rows:
        tiers = dict(zip(TIERS, map(int, ready), strict=True))
        found.append(LaneCount(lanes[int(number)], tiers, states.get(str(number), {})))
    return Tally(found, counters, frozenset(text(what) for what in paused))


async def note_unserved(shard: Shard, rows: Sequence[tuple[int, str]], *, after_ms: int) -> int:
    """Records which lanes no live worker serves, and since when; returns how many were reported
    now.
    """
    args: dict[str, Argument] = {"after_ms": after_ms, "cap": shard.terms.events}
    return int(ok("worker/unserved", "", await shard.run("worker/unserved", args, rows))[0])


def split_stats(flat: list[bytes]) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """The shard's counters, and each lane's counters by state: `<name>` and `<lane>:<state>` in the
    hash.
    """
    counters: dict[str, int] = {}
    states: dict[str, dict[str, int]] = {}
    for name, count in zip(map(text, flat[::2]), map(int, flat[1::2]), strict=True):
        lane, colon, state = name.partition(":")
        if colon:
            states.setdefault(lane, {})[state] = count
        else:
            counters[name] = count
    return counters, states


async def read_leases(
    shard: Shard, *, idle_ms: int, after: str = "", limit: int = 500
) -> list[LeaseEntry]:
    """A page of leases that were not renewed for at least `idle_ms`, after an entry."""
    args: dict[str, Argument] = {
        "idle_ms": idle_ms,
        "from": f"({after}" if after else "-",
        "limit": limit,
    }
    rows = ok("scheduler/silent_leases", "", await shard.run("scheduler/silent_leases", args))
    return [
        LeaseEntry(
            task=text(row[0]),
            entry=text(row[1]),
            consumer=text(row[2]),
            idle_ms=int(row[3]),
            state=text(row[4]),
            token=text(row[5]),
            # A lane that cannot be read is 0, so that the reaper can process the rest of the page.
            lane=int(row[6]) if row[6].removeprefix(b"-").isdigit() else 0,
        )
        for row in rows
    ]


# Keys that one step of SCAN reads: the server is busy for well below a millisecond.
STEP = 1000


async def find_queues(connection: Connection, namespace: str) -> list[str]:
    """The names of all queues of a namespace, found with bounded SCAN steps over all keys of the
    server.
    """
    from rqueue.store.errors import translated  # noqa: PLC0415 - most who count need no driver

    pattern = Keys(namespace, "*").lanes()
    before, after = pattern.split("*")
    found: set[str] = set()
    with translated(f"{connection.address} SCAN"):
        steps = connection.client.scan_iter(match=pattern, count=STEP, _type="hash")
        async for key in steps:
            found.add(text(key).removeprefix(before).removesuffix(after))
    return sorted(found)


WORKERS, LEASES, EVENTS = 1000, 500, 200
# Events of failed attempts.
FAILURES = frozenset({"task.retrying", "task.dead_lettered"})


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """A worker: time since its last heartbeat, and how many leases it holds."""

    name: str
    silent_ms: int
    held: int


@dataclass(frozen=True, slots=True)
class ActiveTask:
    """A leased task, and for how long: since its start, or since its claim if it has not been
    started.
    """

    task: TaskId
    type: str
    state: str
    worker: str
    for_ms: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt: the event that followed, and the reason."""

    task: TaskId
    event: str
    reason: str
    ago_ms: int


@dataclass(frozen=True, slots=True)
class Overview:
    """A shard at one moment.

    `waits_ms` has by type the longest wait among the tasks that are next in their tier. `active`
    comes from the oldest entries of the stream, `failures` from the last events.
    """

    leader: str | None
    waits_ms: dict[str, int]
    workers: list[WorkerLoad]
    active: list[ActiveTask]
    failures: list[Failure]


async def read_overview(shard: Shard) -> Overview:
    """The shard as it is now; the cost does not grow with the number of tasks."""
    lanes = (await read_lanes(shard)).by_number()
    types = {number: lane.type for number, lane in lanes.items()}
    args: dict[str, Argument] = {
        "rates": json.dumps([[number, lane.micro_rate] for number, lane in lanes.items()]),
        "bounds": json.dumps([micro(bound) for bound, _ in BOUNDS]),
        "workers": WORKERS,
        "leases": LEASES,
        "events": EVENTS,
    }
    reply = ok("queue/overview", "", await shard.run("queue/overview", args))
    now_ms, leader, heads, seen, consumers, held, events = reply
    return Overview(
        leader=leader_in(leader, now_ms),
        waits_ms=waits_in(heads, types, now_ms),
        workers=loads_in(seen, consumers, now_ms),
        active=[one for row in held if (one := active_in(row, types, now_ms))],
        failures=[failure for row in events if (failure := failure_in(row, now_ms))],
    )


def leader_in(flat: list[bytes], now_ms: int) -> str | None:
    """The owner of the scheduler's election, while its term lasts."""
    term = dict(zip(flat[::2], flat[1::2], strict=True))
    return words(term[b"owner"]) if int(term.get(b"until_ms", 0)) > now_ms else None


def waits_in(heads: list[list[Any]], types: dict[int, str], now_ms: int) -> dict[str, int]:
    """The longest wait of each type that has ready tasks."""
    found: dict[str, int] = {}
    for number, *entries in heads:
        type = types[int(number)]
        for entry in entries:
            # An entry that cannot be read is skipped.
            with suppress(ValueError):
                found[type] = max(found.get(type, 0), now_ms - entry_ms(words(entry)))
    return found


def loads_in(seen: list[bytes], consumers: list[list[Any]], now_ms: int) -> list[WorkerLoad]:
    """The workers, those with the most leases first."""
    held = {words(name): int(number) for name, number in consumers}
    workers = [
        WorkerLoad(words(name), max(0, now_ms - int(float(at))), held.get(words(name), 0))
        for name, at in zip(seen[::2], seen[1::2], strict=True)
    ]
    return sorted(workers, key=lambda load: (-load.held, load.silent_ms, load.name))


def active_in(row: list[bytes], types: dict[int, str], now_ms: int) -> ActiveTask | None:
    """A lease for display; None where its entry or its task's hash cannot be read."""
    ulid, state, lane, holder = map(words, row)
    try:
        claimed, started, worker = holder_in(holder)
        type = types[int(lane)]
        task = TaskId.from_ulid(ulid)
    except (ValueError, KeyError):
        return None
    return ActiveTask(task, type, state, worker, max(0, now_ms - (started or claimed)))


def failure_in(row: list[Any], now_ms: int) -> Failure | None:
    """A failure event for display; None for other events."""
    entry, flat = row
    fields = {words(name): words(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
    if fields.get("event") not in FAILURES:
        return None
    task = TaskId.from_ulid(fields.get("task", ""))
    # The reason comes first; a retry's delay and count follow it.
    reason, ago_ms = fields.get("detail", "").partition(" ")[0], now_ms - entry_ms(words(entry))
    return Failure(task, fields["event"], reason, max(0, ago_ms))


# States with a counter that only grows: tasks that ended so.
TOTALS = frozenset({State.COMPLETED, State.CANCELLED})


@dataclass(frozen=True, slots=True)
class Counts:
    """Tasks by state, by type and state, and the READY ones by the tier they have reached.

    COMPLETED and CANCELLED count all tasks that ended so since the queue was created.
    """

    by_state: dict[State, int] = field(default_factory=dict)
    by_type: dict[str, dict[State, int]] = field(default_factory=dict)
    by_tier: dict[Tier, int] = field(default_factory=dict)
    submitted: int = 0
    outbox: int = 0
    paused: frozenset[str] = frozenset()

    def __getitem__(self, state: State | str) -> int:
        """The number of tasks in a state."""
        return self.by_state.get(State(state), 0)

    @property
    def live(self) -> int:
        """The number of tasks that have not ended."""
        ended = (*TOTALS, State.DEAD_LETTERED)
        return sum(count for state, count in self.by_state.items() if state not in ended)


def counts_of(tally: Tally) -> Counts:
    """The sums over all lanes."""
    states: Counter[State] = Counter()
    tiers: Counter[Tier] = Counter()
    types: dict[str, Counter[State]] = {}
    for lane in tally.lanes:
        own = types.setdefault(lane.lane.type, Counter())
        own[State.READY] += sum(lane.ready.values())
        tiers.update(lane.ready)
        for name, count in lane.states.items():
            own[State(name)] += count
    for own in types.values():
        states.update(own)
    return Counts(
        by_state={state: states[state] for state in State if state is not State.FAILED},
        by_type={name: {s: n for s, n in own.items() if n} for name, own in types.items()},
        by_tier={tier: tiers[tier] for tier in Tier},
        submitted=tally.counters.get("submitted", 0),
        outbox=tally.counters.get("outbox", 0),
        paused=tally.paused,
    )
