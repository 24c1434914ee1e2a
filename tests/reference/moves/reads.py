"""The moves that only read."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from rqueue.task.ids import number_of
from rqueue.task.state import State
from tests.reference.moves.call import text
from tests.reference.moves.leases import more_of
from tests.reference.selection import effective

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply
    from tests.reference.records import Notes, Record

MENTION = re.compile(rb"art_[0-9A-Za-z]+")


def read(model: Model, call: Call) -> Reply:
    """All data of tasks."""
    found = (model.visible(text(row["task"])) for row in call.rows)
    return ["OK", str(model.now_ms), *(row_of(model, record) for record in found)]


def outputs(model: Model, call: Call) -> Reply:
    """The results of the first tasks, as many as fit."""
    reply: Reply = ["OK"]
    left = call.number("limit")
    for at, row in enumerate(call.rows):
        record = model.visible(text(row["task"]))
        left -= 0 if record is None else len(record.result)
        if left < 0 and at:
            break
        reply += ["GONE", b""] if record is None else [str(record.state), record.result]
    return reply


def mentions(model: Model, call: Call) -> Reply:
    """The artifacts that stored data mentions, in one page."""
    kept = b" ".join(
        text
        for record in model.tasks.values()
        for text in (
            record.definition,
            record.result,
            record.notes.progress,
            record.notes.checkpoint,
            record.notes.artifacts,
            *record.steps.values(),
        )
    )
    return ["OK", "0", *sorted(set(MENTION.findall(kept)))]


def explain(model: Model, call: Call) -> Reply:
    """The position of a task in the order of a claim, also if it were READY now."""
    record = model.visible(call.text("task"))
    if record is None:
        return ["GONE"]
    lanes = {number: lane for lane, number in model.lanes.items()}

    def place(one: Record) -> tuple[float, str]:
        return effective(model, one, lanes[one.lane]), one.id

    before = [one.lane for one in model.ready() if place(one) < place(record)]
    stands = int(record in model.ready())
    facts = [str(model.now_ms), str(record.state), str(record.score), str(record.lane)]
    points = [number(record.priority), str(record.rank or 0)]
    return ["OK", *facts, *points, stands, before.count(record.lane), len(before)]


def dependents(model: Model, call: Call) -> Reply:
    """The dependents of a task."""
    waiting = sorted(record.id for record in model.waiting_for(call.text("task")))
    return ["OK", len(waiting), *waiting[: call.number("limit")]]


def row_of(model: Model, record: Record | None) -> Reply:
    """One task in the parts of its keys."""
    if record is None:
        return [[], b"", b"", [], [], b"", [], [], [], []]
    flat = [word for pair in fields_of(record).items() for word in pair]
    idle: int | bytes = model.now_ms - record.seen_ms if record.leased else b""
    return [
        flat,
        record.definition,
        record.result,
        record.failures,
        sorted(record.waits),
        idle,
        note_fields(record.notes),
        record.notes.lane_turns,
        record.above,
        list(record.steps),
    ]


def fields_of(record: Record) -> dict[str, str]:
    """The hash of a task, without fields that are not read."""
    found = {
        "state": str(record.state),
        "lane": str(record.lane),
        "score": str(record.score),
        "created": str(record.created_ms),
        "entry": entry_of(record),
        "attempts": str(record.attempts),
        "reclaims": str(record.reclaims),
        "parks": str(record.parks),
        "failed_by": record.failed_by,
        "poison": record.poison,
        "token": record.token,
        "more": more_of(record.life),
        "reason": record.reason,
        "reviewed": number(record.reviewed_ms or None),
        "resolution": record.resolution,
        "finished": number(record.finished_ms),
        "discarded": number(record.discarded_ms),
        "due": number(record.due_ms or None),
        "priority": number(record.priority),
        "flags": record.dag,
        "rank": number(record.rank or None),
    }
    if record.claimed_ms:
        found["holder"] = f"{record.claimed_ms} {record.started_ms} {record.owner}"
    known = {name: value for name, value in found.items() if value}
    return known if record.why is None else {**known, "why": record.why}


def number(value: int | None) -> str:
    """A number of the hash; "" for None."""
    return "" if value is None else str(value)


def place_of(record: Record) -> tuple[int, int]:
    """The position of a task in the stream: by creation time, then by id."""
    return record.created_ms, number_of(record.id)


def entry_of(record: Record) -> str:
    """The id of its stream entry."""
    return "{}-{}".format(*place_of(record))


def note_fields(notes: Notes) -> list[str | bytes]:
    """The hash of a task's notes."""
    found: dict[str, str | bytes] = {
        "micro_usd": str(notes.micro_usd),
        "tokens_in": str(notes.tokens_in),
        "tokens_out": str(notes.tokens_out),
    }
    found |= {"progress": notes.progress} if notes.progress else {}
    found |= {"checkpoint": notes.checkpoint} if notes.checkpoint else {}
    found |= {"artifacts": notes.artifacts} if notes.artifacts else {}
    found |= {"model": notes.model} if notes.model else {}
    return [word for pair in found.items() for word in pair]


def silent_leases(model: Model, call: Call) -> Reply:
    """A page of the leases that were not renewed for that time."""
    held, after = sorted(model.leased(), key=place_of), call.text("from").removeprefix("(")
    if after != "-":
        ms, seq = map(int, after.split("-"))
        held = [record for record in held if place_of(record) > (ms, seq)]
    silent = [r for r in held if model.now_ms - r.seen_ms >= call.number("idle_ms")]
    return [
        "OK",
        *(
            [r.id, entry_of(r), r.owner, model.now_ms - r.seen_ms, r.state, r.token, str(r.lane)]
            for r in silent[: call.number("limit")]
        ),
    ]


def counts(model: Model, call: Call) -> Reply:
    """Counters by lane and state, and the READY tasks of each lane by tier."""
    counted = model.counters().items()
    stats = {f"{lane}:{state}": n for (lane, state), n in counted if state is not State.READY}
    stats |= {f"{lane}:READY": n for lane, n in model.held().items()}
    stats |= {"submitted": model.submitted, "outbox": sum(map(len, model.outbox))}
    lanes = {number: lane for lane, number in model.lanes.items()}
    bounds, rows = call.json("bounds"), []
    for lane, _ in call.json("rates"):
        ready = [model.tasks[task] for task in model.lane(lane)]
        tiers = [0] * (len(bounds) + 1)
        for record in ready:
            tiers[bisect_right(bounds, effective(model, record, lanes[lane]))] += 1
        rows.append([lane, *tiers])
    flat = [word for name, n in stats.items() for word in (name, str(n))]
    return ["OK", flat, sorted(model.paused), *rows]
