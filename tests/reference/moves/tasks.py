"""The moves that submit and change tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from rqueue.task.lane import lane_of
from tests.reference import cancelling, dead, operations, submitting, timers
from tests.reference.moves.call import raw, text
from tests.reference.moves.roles import refusal
from tests.reference.records import PLAIN, Draft, Special

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.task.lane import Lane
    from tests.reference.dependents import Rule
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply


def submit(model: Model, call: Call) -> Reply:
    """Submits independent tasks."""
    lanes = lanes_of(call)
    drafts = [draft_of(row, lanes) for row in call.rows]
    found = submitting.submit(model, drafts, refusal=refusal(model, call))
    return ["OK", 0, *(word for index, pair in found.items() for word in (index, *pair))]


def lanes_of(call: Call) -> list[Lane]:
    """The lanes of a call, in order."""
    return [lane_in(line) for line in call.text("lanes").splitlines()]


def lane_in(line: str) -> Lane:
    """The lane of a line, with its price."""
    first, _, name = line.partition(" ")
    return replace(lane_of(name), price=first.partition("$")[2])


def price_in(lane: Lane) -> tuple[int, int]:
    """The estimated and the highest permitted cost of a task."""
    estimate, _, most = (lane.price or "0:0").partition(":")
    return int(estimate), int(most)


def draft_of(row: dict[str, Argument], lanes: Sequence[Lane]) -> Draft:
    """A draft from its row. A task of a DAG has a rank, and dependencies inside and
    outside of it.
    """
    line, base, *rank = text(row["place"]).split(" ")
    number, _, key = line.partition("@")
    more, _, ask = text(row["special"]).partition("\n")
    options = json.loads(ask) if ask else {}
    lane = lanes[int(number) - 1]
    return Draft(
        text(row["task"]),
        replace(lane, price=""),
        int(base),
        raw(row["def"]),
        special=special_of(json.loads(more)) if more else PLAIN,
        parents=tuple(options.get("outside", options.get("parents", ()))),
        inside=tuple(text(row.get("parents", "")).split()),
        delay_ms=options.get("delay", 0),
        at_ms=options.get("at"),
        if_exists=options.get("if_exists", "keep"),
        rank=int(rank[0]) if rank else 0,
        tenant=key,
        price=price_in(lane),
    )


def special_of(more: dict[str, Any]) -> Special:
    """The options of a task, by the names of the moves."""
    return Special(
        idem=more.get("idem"),
        unique=more.get("unique", "until_done"),
        window_ms=more.get("window", 0),
        timeout_ms=more.get("timeout"),
        deadline_ms=more.get("deadline"),
        on_deadline=more.get("on_deadline"),
        ext=more.get("ext"),
        tags=tuple(more.get("tags", ())),
        ttl_ms=more.get("ttl"),
        trigger=more.get("trigger", "all_success"),
    )


def cancel(model: Model, call: Call) -> Reply:
    """Cancels with all cascades in one call."""
    tasks = [text(row["task"]) for row in call.rows]
    rule = cast("Rule", call.text("dependents"))
    words = cancelling.cancel(
        model, tasks, request=call.text("request"), reason=call.text("reason"), dependents=rule
    )
    return ["OK", 0, 0, *words]


def revive(model: Model, call: Call) -> Reply:
    """Retries a dead task."""
    word, *rest = dead.revive(
        model,
        call.text("task"),
        life=call.number("life"),
        definition=raw(call.args["def"]),
        delay_ms=call.number("delay"),
        review=review_in(call.args["review"]),
    ).split(" ")
    return [word, 0, *rest] if word == "OK" else [word, *rest]


def discard(model: Model, call: Call) -> Reply:
    """Discards dead tasks."""
    return ["OK", *dead.discard(model, decisions_in(call), reason=call.text("reason"))]


def escalate(model: Model, call: Call) -> Reply:
    """Escalates dead tasks."""
    return ["OK", *dead.escalate(model, decisions_in(call))]


def reviewed(model: Model, call: Call) -> Reply:
    """Deletes archived reviews."""
    return ["OK", dead.reviewed(model, [text(row["entry"]) for row in call.rows])]


def decisions_in(call: Call) -> list[dead.Decided]:
    """The tasks of a decision, each with the life that was reviewed and the review."""
    return [
        (
            text(row["task"]),
            int(row["life"]) if row["life"] != "" else None,
            review_in(row["review"]),
        )
        for row in call.rows
    ]


def review_in(review: Argument) -> dict[str, str]:
    """The fields of a review."""
    found: dict[str, str] = json.loads(text(review) or "{}")
    return found


def set_priority(model: Model, call: Call) -> Reply:
    """Sets the base priority of a task."""
    task, base = call.text("task"), call.number("priority")
    return operations.set_priority(model, task, base=base, was=call.number("was")).split(" ")


def rescore(model: Model, call: Call) -> Reply:
    """Updates the urgency of tasks."""
    return [
        "OK",
        *(
            operations.rescore(
                model, text(row["task"]), boost=int(row["boost"]), was=int(row["was"])
            )
            for row in call.rows
        ),
    ]


def reschedule(model: Model, call: Call) -> Reply:
    """Sets the time of a waiting task."""
    at, delay = call.text("at"), call.text("delay")
    delay_ms = int(at) - model.now_ms if at else int(delay)
    reply = operations.reschedule(model, call.text("task"), delay_ms=delay_ms).split(" ")
    return ["OK", model.now_ms + delay_ms] if reply == ["OK"] else list(reply)


def run_now(model: Model, call: Call) -> Reply:
    """Ends the delay of a task."""
    found = timers.run_now(model, call.text("task"))
    if isinstance(found, int):
        return ["OK", 0, found]
    return [found] if found == "GONE" else ["STATE", found]


def edit(model: Model, call: Call) -> Reply:
    """Replaces the definition of a waiting task."""
    was, definition = raw(call.args["was"]), raw(call.args["def"])
    return operations.edit(model, call.text("task"), was=was, definition=definition).split(" ")


def watch(model: Model, call: Call) -> Reply:
    """Watches tasks: a mailbox gets a line when they end."""
    tasks = [text(row["task"]) for row in call.rows]
    return ["OK", *operations.watch(model, call.text("box"), tasks)]
