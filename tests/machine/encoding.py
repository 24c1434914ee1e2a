"""Converts between the model's records and the moves' arguments and replies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rqueue.core.claim import grant
from rqueue.task.lane import Lane
from tests.machine.server_shard import compact
from tests.reference.claiming import Answer, Grant
from tests.reference.records import Draft, Special, Verdict


def fields(verdict: Verdict) -> tuple[Any, ...]:
    """The columns of a verdict for fail and reap."""
    return (
        verdict.task,
        verdict.token,
        "" if verdict.delay_ms is None else verdict.delay_ms,
        verdict.attempts,
        verdict.reclaims,
        verdict.reason,
        verdict.record,
        verdict.type,
        verdict.breaker,
        verdict.failed_by,
        verdict.poison,
    )


def place(draft: Draft, line: int) -> str:
    """The `place` column of a draft."""
    return f"{line}@{draft.tenant} {draft.base}" if draft.tenant else f"{line} {draft.base}"


def options_of(draft: Draft) -> tuple[str, str]:
    """The `special` column of a draft: stored options and options of the call."""
    call_options: dict[str, object] = {}
    if draft.delay_ms:
        call_options["delay"] = draft.delay_ms
    if draft.parents:
        call_options["parents"] = list(draft.parents)
    if draft.if_exists != "keep":
        call_options["if_exists"] = draft.if_exists
    return compact(kept(draft.special)), compact(call_options)


def priced(draft: Draft) -> Lane:
    """The lane of a draft with its price, as in a line of a submit."""
    estimate, most = draft.price
    return replace(draft.lane, price=f"{estimate}:{most}" if estimate or most else "")


def kept(special: Special) -> dict[str, object]:
    """The options that are stored with a task."""
    more: dict[str, object] = {}
    if special.idem is not None:
        more |= {"idem": special.idem, "window": special.window_ms, "unique": special.unique}
    if special.timeout_ms is not None:
        more["timeout"] = special.timeout_ms
    if special.deadline_ms is not None:
        more |= {"deadline": special.deadline_ms, "on_deadline": special.on_deadline}
    if special.ext is not None:
        more["ext"] = special.ext
    if special.trigger != "all_success":
        more["trigger"] = special.trigger
    return more


def answer_of(reply: list[Any]) -> Answer:
    """The reply to a claim."""
    word, *rest = reply
    if word != "OK":
        return Answer(word)
    return Answer("OK", int(rest[1]), tuple(map(grant_of, rest[2:])))


def grant_of(row: list[str]) -> Grant:
    """A row of it, as the store reads it."""
    found = grant([word.encode() for word in row])
    failed_by = " ".join(found.failed_by)
    counted = found.attempts, found.reclaims
    return Grant(found.task, found.token, *counted, found.definition, failed_by)
