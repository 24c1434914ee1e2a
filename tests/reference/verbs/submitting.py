"""The scripts that take tasks in and change them from outside, spoken by the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from rqueue.task.lane import lane_of
from tests.reference import cancelling, operating, passing, reviewing, submitting
from tests.reference.records import PLAIN, Draft, Special
from tests.reference.verbs.roles import refusal
from tests.reference.verbs.words import raw, text

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.task.lane import Lane
    from tests.reference.model import Model
    from tests.reference.telling import Rule
    from tests.reference.verbs.words import Asked, Reply


def submit(model: Model, asked: Asked) -> Reply:
    """Tasks of several lanes, each for itself."""
    lanes = lanes_of(asked)
    drafts = [draft_of(row, lanes) for row in asked.rows]
    found = submitting.submit(model, drafts, refusal=refusal(model, asked))
    return ["OK", 0, *(word for index, pair in found.items() for word in (index, *pair))]


def lanes_of(asked: Asked) -> list[Lane]:
    """The lanes of a call, in the order of their lines."""
    return [lane_in(line) for line in asked.text("lanes").splitlines()]


def lane_in(line: str) -> Lane:
    """The lane of a line, with the price of its tasks."""
    first, _, name = line.partition(" ")
    return replace(lane_of(name), price=first.partition("$")[2])


def price_in(lane: Lane) -> tuple[int, int]:
    """What a task on its way into a lane is expected and allowed to cost."""
    estimate, _, most = (lane.price or "0:0").partition(":")
    return int(estimate), int(most)


def draft_of(row: dict[str, Argument], lanes: Sequence[Lane]) -> Draft:
    """A task as a script is told of it. One of a DAG has a rank, and parents in it and outside."""
    line, base, *rank = text(row["place"]).split(" ")
    number, _, key = line.partition("@")
    more, _, ask = text(row["special"]).partition("\n")
    wishes = json.loads(ask) if ask else {}
    lane = lanes[int(number) - 1]
    return Draft(
        text(row["task"]),
        replace(lane, price=""),
        int(base),
        raw(row["def"]),
        special=special_of(json.loads(more)) if more else PLAIN,
        parents=tuple(wishes.get("outside", wishes.get("parents", ()))),
        inside=tuple(text(row.get("parents", "")).split()),
        delay_ms=wishes.get("delay", 0),
        at_ms=wishes.get("at"),
        if_exists=wishes.get("if_exists", "keep"),
        rank=int(rank[0]) if rank else 0,
        key=key,
        price=price_in(lane),
    )


def special_of(more: dict[str, Any]) -> Special:
    """What is special about a task, by the names that scripts use."""
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


def cancel(model: Model, asked: Asked) -> Reply:
    """All of a cascade at once: nothing is left for another call."""
    tasks = [text(row["task"]) for row in asked.rows]
    rule = cast("Rule", asked.text("dependents"))
    words = cancelling.cancel(
        model, tasks, request=asked.text("request"), reason=asked.text("reason"), dependents=rule
    )
    return ["OK", 0, 0, *words]


def revive(model: Model, asked: Asked) -> Reply:
    """A new life for a dead task."""
    word, *rest = operating.revive(
        model,
        asked.text("task"),
        life=asked.number("life"),
        definition=raw(asked.args["def"]),
        delay_ms=asked.number("delay"),
        said=said_in(asked.args["review"]),
    ).split(" ")
    return [word, 0, *rest] if word == "OK" else [word, *rest]


def discard(model: Model, asked: Asked) -> Reply:
    """Gives dead tasks up."""
    return ["OK", *operating.discard(model, decided_in(asked), reason=asked.text("reason"))]


def escalate(model: Model, asked: Asked) -> Reply:
    """Marks dead tasks for whoever may decide about them."""
    return ["OK", *reviewing.escalate(model, decided_in(asked))]


def reviewed(model: Model, asked: Asked) -> Reply:
    """The reviews of these entries are in the archive."""
    return ["OK", reviewing.reviewed(model, [text(row["entry"]) for row in asked.rows])]


def decided_in(asked: Asked) -> list[reviewing.Decided]:
    """The tasks that a decision is about, each with the life that was seen and what is said."""
    return [
        (text(row["task"]), int(row["life"]) if row["life"] != "" else None, said_in(row["review"]))
        for row in asked.rows
    ]


def said_in(review: Argument) -> dict[str, str]:
    """What is said of a decision, by name."""
    found: dict[str, str] = json.loads(text(review) or "{}")
    return found


def set_priority(model: Model, asked: Asked) -> Reply:
    """Another base priority for a task."""
    task, base = asked.text("task"), asked.number("priority")
    return operating.set_priority(model, task, base=base, was=asked.number("was")).split(" ")


def rescore(model: Model, asked: Asked) -> Reply:
    """The urgency that tasks have by now."""
    return [
        "OK",
        *(
            operating.rescore(
                model, text(row["task"]), boost=int(row["boost"]), was=int(row["was"])
            )
            for row in asked.rows
        ),
    ]


def reschedule(model: Model, asked: Asked) -> Reply:
    """Another time for a waiting task."""
    at, delay = asked.text("at"), asked.text("delay")
    delay_ms = int(at) - model.now_ms if at else int(delay)
    reply = operating.reschedule(model, asked.text("task"), delay_ms=delay_ms).split(" ")
    return ["OK", model.now_ms + delay_ms] if reply == ["OK"] else list(reply)


def run_now(model: Model, asked: Asked) -> Reply:
    """Ends a task's waiting for its time."""
    found = passing.run_now(model, asked.text("task"))
    if isinstance(found, int):
        return ["OK", 0, found]
    return [found] if found == "GONE" else ["STATE", found]


def edit(model: Model, asked: Asked) -> Reply:
    """Another definition for a waiting task."""
    was, definition = raw(asked.args["was"]), raw(asked.args["def"])
    return operating.edit(model, asked.text("task"), was=was, definition=definition).split(" ")


def watch(model: Model, asked: Asked) -> Reply:
    """Asks for mail when tasks end."""
    tasks = [text(row["task"]) for row in asked.rows]
    return ["OK", *operating.watch(model, asked.text("box"), tasks)]
