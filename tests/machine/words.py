"""Between the model's words and the scripts': what is sent, and what comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rqueue.core.claim import grant
from rqueue.task.lane import Lane
from tests.machine.wire import compact
from tests.reference.conversation import Answer, Grant
from tests.reference.records import Draft, Special, Verdict


def fields(verdict: Verdict) -> tuple[Any, ...]:
    """A verdict as fail and reap read it."""
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
    """Where a draft goes, in the words of the scripts."""
    return f"{line}@{draft.key} {draft.base}" if draft.key else f"{line} {draft.base}"


def asks(draft: Draft) -> tuple[str, str]:
    """What is special about a draft, in the words of the script: `more` and `ask`."""
    ask: dict[str, object] = {}
    if draft.delay_ms:
        ask["delay"] = draft.delay_ms
    if draft.parents:
        ask["parents"] = list(draft.parents)
    if draft.if_exists != "keep":
        ask["if_exists"] = draft.if_exists
    return compact(kept(draft.special)), compact(ask)


def priced(draft: Draft) -> Lane:
    """The lane of a draft with its price, as a line of a submit has them."""
    estimate, most = draft.price
    return replace(draft.lane, price=f"{estimate}:{most}" if estimate or most else "")


def kept(special: Special) -> dict[str, object]:
    """What is kept with a task."""
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
    """A claim's reply."""
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
