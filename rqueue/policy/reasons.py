"""What holds a task back, as it is told to people, and when it may begin at the earliest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.model.limit import QUEUE

if TYPE_CHECKING:
    from datetime import datetime

NO_WORKER, LIMIT, SLOWED, BUDGET = "no worker", "limit", "slowed", "budget"
ALONE, ANY_WORKER = "alone", "a worker"
ALL_WORKERS = "every worker that could"
SENTENCES = {
    "dependency": "waits for task {what}",
    "dependencies": "waits for {what} tasks",
    "time": "waits for its time {what}",
    "paused": "{what} is paused",
    "given up": "{what} is being given up",
    "breaker": "the breaker of its type is {what}",
    SLOWED: "its {what} is slowed down: a service wants to be asked less often",
    LIMIT: "the limit of {what} is used up",
    BUDGET: "the budget of {what} cannot pay it",
    ALONE: "lost its worker and runs alone: waits until the hands of {what} are empty",
    "worker": "is in the hands of {what}",
    "unwritten": "its DAG {what} is still being written",
    NO_WORKER: "no live worker offers {what}",
}


@dataclass(frozen=True, slots=True)
class Hold:
    """One thing that holds a task back: a word for it, what it is, and until when, where that is a
    matter of time.
    """

    word: str
    what: str = ""
    until: datetime | None = None


def earliest(holds: Sequence[Hold], now: datetime) -> datetime | None:
    """When a task may begin at the earliest: when the last of what holds it back is over, now where
    nothing does; None where that is no matter of time.
    """
    if any(hold.until is None for hold in holds):
        return None
    return max((hold.until for hold in holds if hold.until is not None), default=now)


def told(hold: Hold) -> str:
    """A hold in a sentence's words."""
    sentence = SENTENCES.get(hold.word, hold.word + " {what}")
    return sentence.format(what=named(hold).replace("=", " ")).strip()


def named(hold: Hold) -> str:
    """What holds a task back, as people say it: limits are of a type, a key or the queue."""
    if hold.word == ALONE:
        return hold.what or ANY_WORKER
    if hold.word not in (LIMIT, SLOWED):
        return hold.what
    type, at, key = hold.what.partition("@")
    if hold.word == SLOWED:
        return f"key {key}" if at else f"type {type}"
    if at:
        return f"key {key}" if type == QUEUE else f"key {key} in {type}"
    return "the queue" if type == QUEUE else type
