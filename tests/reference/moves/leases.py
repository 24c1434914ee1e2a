"""The moves of claims and leases."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rqueue.task.lane import lane_of, signature
from tests.reference import claiming, notes, settling, timers
from tests.reference.claiming import Claim
from tests.reference.moves.call import raw, text
from tests.reference.notes import NoteCall
from tests.reference.records import Lease, Limits, LimitWords, Verdict

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from tests.reference.claiming import Grant
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply


# Positions of limits and tenant rules in a lane of a claim: after number, rate, type, alone.
LIMITS, TENANT_RULES = 4, 5


def claim(model: Model, call: Call) -> Reply:
    """A claim whose tasks are CLAIMED, or RUNNING on request."""
    return claimed(model, call, start=call.number("start") == 1)


def exchange(model: Model, call: Call) -> Reply:
    """Completes and claims in one call; claimed tasks are started."""
    words = complete(model, call)
    begin = call.number("begin")
    return ["OK", words, claimed(model, call, start=True, begin=begin), model.now_ms]


def claimed(model: Model, call: Call, *, start: bool, begin: int | None = None) -> Reply:
    """Runs a claim and returns its reply."""
    claim = Claim(
        waiter=call.text("waiter"),
        seq=call.number("seq"),
        consumer=call.text("consumer"),
        bits=call.text("bits"),
        n=call.number("n"),
        lanes=tuple(number for number, *_ in call.json("lanes")),
        limits=limits_in(call.json("lanes")),
        tenant_rules={
            lane[0]: lane[TENANT_RULES] for lane in call.json("lanes") if len(lane) > TENANT_RULES
        },
        version=call.number("version"),
        box=call.text("box"),
        start=start,
        wait_ms=call.number("wait_ms"),
        delivery_ms=call.number("delivery_ms"),
        begin=begin,
    )
    answer = claiming.claim(model, claim)
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
    """The distinct limits of these lanes."""
    each = [lane[LIMITS] for lane in lanes if len(lane) > LIMITS and lane[LIMITS]]
    found = [(what, rate, per, many) for limits in each for what, rate, per, many in limits]
    return tuple(dict.fromkeys(found))


def row_of(model: Model, grant: Grant) -> list[str | bytes]:
    """A lease as its holder receives it."""
    record = model.tasks[grant.task]
    # An entry id if the task was READY at once, as on the server.
    created = str(record.created_ms) if record.due_ms else f"{record.created_ms}-0"
    counted = [str(grant.attempts), str(grant.reclaims), more_of(record.life), grant.failed_by]
    return [grant.task, grant.token, created, grant.definition, *counted]


def more_of(life: int) -> str:
    """The part of a task's options that is read back."""
    return json.dumps({"life": life}) if life > 1 else ""


def lane_table(model: Model) -> dict[str, str]:
    """The lanes and their numbers, with the version of the table."""
    numbers = {signature(lane): str(number) for lane, number in model.lanes.items()}
    return {**numbers, "version": str(model.version)}


def leases(call: Call) -> list[Lease]:
    """The leases of a call's rows."""
    return [(text(row["task"]), text(row["token"])) for row in call.rows]


def start(model: Model, call: Call) -> Reply:
    """CLAIMED to RUNNING."""
    return ["OK", *settling.start(model, leases(call))]


def validate(model: Model, call: Call) -> Reply:
    """RUNNING to VALIDATING."""
    return ["OK", *settling.validate(model, leases(call))]


def renew(model: Model, call: Call) -> Reply:
    """Keeps the leases of one worker."""
    numbers = (call.number(name) for name in ("claim_ms", "timeout_ms", "grace_ms"))
    words = settling.renew(model, call.text("consumer"), leases(call), limits=Limits(*numbers))
    return ["OK", model.version, *words]


def complete(model: Model, call: Call) -> Reply:
    """Ends tasks whose handlers returned."""
    results = [raw(row["result"]) for row in call.rows]
    rows = [(*lease, result) for lease, result in zip(leases(call), results, strict=True)]
    return ["OK", 0, *settling.complete(model, rows)]


def fail(model: Model, call: Call) -> Reply:
    """Ends attempts that failed, as the policy decided."""
    return ["OK", 0, *settling.fail(model, [verdict_of(row) for row in call.rows])]


def reap(model: Model, call: Call) -> Reply:
    """Takes silent leases, as the policy decided."""
    verdicts = [verdict_of(row) for row in call.rows]
    return ["OK", 0, *timers.reap(model, verdicts, idle_ms=call.number("idle_ms"))]


def verdict_of(row: dict[str, Argument]) -> Verdict:
    """The verdict about a failed attempt."""
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


def park(model: Model, call: Call) -> Reply:
    """Parks tasks, each with its reason."""
    rows = [
        (*lease, int(row["delay"]), text(row["type"]), int(row["slow_ms"]))
        for lease, row in zip(leases(call), call.rows, strict=True)
    ]
    parks = call.text("parks")
    words = settling.park(model, rows, int(parks) if parks else None)
    for row, word in zip(call.rows, words, strict=True):
        if word == "OK":
            model.tasks[text(row["task"])].reason = text(row["reason"])
    return ["OK", 0, *words]


def release(model: Model, call: Call) -> Reply:
    """Releases leases."""
    return ["OK", 0, *settling.release(model, leases(call))]


def note(model: Model, call: Call) -> Reply:
    """Stores what running tasks report."""
    keep = call.number("keep")
    return ["OK", *(notes.note(model, noted(row), keep=keep) for row in call.rows)]


def noted(row: dict[str, Argument]) -> NoteCall:
    """A note as the context sent it."""
    return NoteCall(
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


def attach(model: Model, call: Call) -> Reply:
    """Adds an artifact to the task that stored it."""
    lease = call.text("task"), call.text("token")
    artifact = call.text("artifact"), raw(call.args["facts"])
    return [notes.attach(model, lease, artifact, most=call.number("most"))]


def step(model: Model, call: Call) -> Reply:
    """Stores the result of a step, or returns the stored one."""
    lease = call.text("task"), call.text("token")
    name, result = call.text("name"), raw(call.args["result"])
    return notes.step(model, lease, (name, result), most=call.number("most"))
