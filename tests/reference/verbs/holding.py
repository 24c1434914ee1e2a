"""The scripts of who holds or wants leases, spoken by the model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rqueue.task.lane import lane_of, signature
from tests.reference import claiming, noting, passing, settling
from tests.reference.conversation import Claim
from tests.reference.noting import Noted
from tests.reference.records import Lease, Limits, LimitWords, Verdict
from tests.reference.verbs.words import raw, text

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from tests.reference.conversation import Grant
    from tests.reference.model import Model
    from tests.reference.verbs.words import Asked, Reply


# Where limits and the rules of keys stand in a lane of a claim: after number, rate, type, alone.
LIMITS, KEYS = 4, 5


def claim(model: Model, asked: Asked) -> Reply:
    """A claim whose tasks are handed out CLAIMED, or RUNNING where that is asked for."""
    return claimed(model, asked, start=asked.number("start") == 1)


def turn(model: Model, asked: Asked) -> Reply:
    """Completes and claims, started, in one call."""
    words = complete(model, asked)
    begin = asked.number("begin")
    return ["OK", words, claimed(model, asked, start=True, begin=begin), model.now_ms]


def claimed(model: Model, asked: Asked, *, start: bool, begin: int | None = None) -> Reply:
    """A claim of a conversation, and what is told to who asked."""
    call = Claim(
        waiter=asked.text("waiter"),
        seq=asked.number("seq"),
        consumer=asked.text("consumer"),
        bits=asked.text("bits"),
        n=asked.number("n"),
        lanes=tuple(number for number, *_ in asked.json("lanes")),
        limits=limits_in(asked.json("lanes")),
        keys={lane[0]: lane[KEYS] for lane in asked.json("lanes") if len(lane) > KEYS},
        version=asked.number("version"),
        box=asked.text("box"),
        start=start,
        wait_ms=asked.number("wait_ms"),
        delivery_ms=asked.number("delivery_ms"),
        begin=begin,
    )
    answer = claiming.claim(model, call)
    match answer.word:
        case "OK":
            rows = [row_of(model, grant) for grant in answer.grants]
            return ["OK", model.version, answer.wait_ms, *rows]
        case "LANES":
            flat = [word for pair in lane_table(model).items() for word in pair]
            return ["LANES", model.version, *flat]
        case word:
            return [word]


def limits_in(lanes: list[list[Any]]) -> tuple[LimitWords, ...]:
    """The limits that stand before these lanes, each once."""
    each = [lane[LIMITS] for lane in lanes if len(lane) > LIMITS and lane[LIMITS]]
    found = [(what, rate, per, many) for limits in each for what, rate, per, many in limits]
    return tuple(dict.fromkeys(found))


def row_of(model: Model, grant: Grant) -> list[str | bytes]:
    """A lease as its holder is told of it."""
    record = model.tasks[grant.task]
    # An entry's id where the task was READY from the first, as the server has it.
    created = str(record.created_ms) if record.due_ms else f"{record.created_ms}-0"
    counted = [str(grant.attempts), str(grant.reclaims), more_of(record.life), grant.failed_by]
    return [grant.task, grant.token, created, grant.definition, *counted]


def more_of(life: int) -> str:
    """What is kept with a task, as far as anyone reads it back."""
    return json.dumps({"life": life}) if life > 1 else ""


def lane_table(model: Model) -> dict[str, str]:
    """The lanes and their numbers, with the version of the table beside them."""
    numbers = {signature(lane): str(number) for lane, number in model.lanes.items()}
    return {**numbers, "version": str(model.version)}


def leases(asked: Asked) -> list[Lease]:
    """The rows of a call that names leases."""
    return [(text(row["task"]), text(row["token"])) for row in asked.rows]


def start(model: Model, asked: Asked) -> Reply:
    """CLAIMED to RUNNING."""
    return ["OK", *settling.start(model, leases(asked))]


def validate(model: Model, asked: Asked) -> Reply:
    """RUNNING to VALIDATING."""
    return ["OK", *settling.validate(model, leases(asked))]


def renew(model: Model, asked: Asked) -> Reply:
    """Keeps the leases of one worker."""
    numbers = (asked.number(name) for name in ("claim_ms", "timeout_ms", "grace_ms"))
    words = settling.renew(model, asked.text("consumer"), leases(asked), limits=Limits(*numbers))
    return ["OK", model.version, *words]


def complete(model: Model, asked: Asked) -> Reply:
    """Ends tasks whose handlers returned."""
    results = [raw(row["result"]) for row in asked.rows]
    rows = [(*lease, result) for lease, result in zip(leases(asked), results, strict=True)]
    return ["OK", 0, *settling.complete(model, rows)]


def fail(model: Model, asked: Asked) -> Reply:
    """Ends attempts that failed, as the policy decided."""
    return ["OK", 0, *settling.fail(model, [verdict_of(row) for row in asked.rows])]


def reap(model: Model, asked: Asked) -> Reply:
    """Takes silent leases, as the policy decided."""
    verdicts = [verdict_of(row) for row in asked.rows]
    return ["OK", 0, *passing.reap(model, verdicts, idle_ms=asked.number("idle_ms"))]


def verdict_of(row: dict[str, Argument]) -> Verdict:
    """How an attempt ends as failed, as the policy wrote it down."""
    delay, exclusive = text(row["delay"]), text(row.get("alone", ""))
    return Verdict(
        task=text(row["task"]),
        token=text(row["token"]),
        delay_ms=int(delay) if delay else None,
        attempts=int(row["attempts"]),
        reclaims=int(row["reclaims"]),
        reason=text(row["reason"]),
        record=text(row["record"]),
        type=text(row["type"]),
        breaker=text(row["breaker"]),
        failed_by=text(row["failed_by"]),
        poison=text(row["poison"]),
        owes=text(row.get("owes", "")),
        exclusive=lane_of(exclusive) if exclusive else None,
    )


def park(model: Model, asked: Asked) -> Reply:
    """Sets tasks aside, each with its reason."""
    rows = [
        (*lease, int(row["delay"]), text(row["type"]), int(row["slow_ms"]))
        for lease, row in zip(leases(asked), asked.rows, strict=True)
    ]
    parks = asked.text("parks")
    words = settling.park(model, rows, int(parks) if parks else None)
    for row, word in zip(asked.rows, words, strict=True):
        if word == "OK":
            model.tasks[text(row["task"])].reason = text(row["reason"])
    return ["OK", 0, *words]


def release(model: Model, asked: Asked) -> Reply:
    """Gives leases back unused."""
    return ["OK", 0, *settling.release(model, leases(asked))]


def note(model: Model, asked: Asked) -> Reply:
    """Keeps what running tasks say of themselves."""
    keep = asked.number("keep")
    return ["OK", *(noting.note(model, noted(row), keep=keep) for row in asked.rows)]


def noted(row: dict[str, Argument]) -> Noted:
    """A note as the context sent it."""
    return Noted(
        task=text(row["task"]),
        token=text(row["token"]),
        seq=int(row["seq"]) if row["seq"] != "" else None,
        progress=raw(row["progress"]),
        checkpoint=raw(row["checkpoint"]),
        line=raw(row["line"]),
        micro_usd=int(row["micro_usd"]),
        tokens_in=int(row["tokens_in"]),
        tokens_out=int(row["tokens_out"]),
        more_ms=int(row["more_ms"]),
        timeout_ms=int(row["timeout_ms"]),
        model=raw(row["model"]),
    )


def attach(model: Model, asked: Asked) -> Reply:
    """Notes an artifact with the task that put it."""
    lease = asked.text("task"), asked.text("token")
    said = asked.text("artifact"), raw(asked.args["facts"])
    return [noting.attach(model, lease, said, most=asked.number("most"))]


def step(model: Model, asked: Asked) -> Reply:
    """Keeps what a step of a running task gave, or tells what is kept."""
    lease = asked.text("task"), asked.text("token")
    name, result = asked.text("name"), raw(asked.args["result"])
    return noting.step(model, lease, (name, result), most=asked.number("most"))
