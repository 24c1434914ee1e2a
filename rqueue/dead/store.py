"""Redis access of decisions on dead tasks: revive, discard, escalate; each stores a review."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rqueue.dead import reviews
from rqueue.errors import AlreadyDecided, RQueueError, ScriptFault, StoreUnavailable
from rqueue.store.replies import lease_fault, ok, text
from rqueue.store.shard import DEPENDENCY_LIMIT, EDGE_LIMIT, TRIES, ending
from rqueue.task.ids import TaskId
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.runner import Reply
    from rqueue.store.shard import CallArguments, Shard

# The move's reply while some dependencies of a revived task are not updated yet.
UNFINISHED = 2
# The reply of the moves if another decision came first.
DECIDED = "DECIDED"
# Revivals per pipeline.
PIPELINE = 50


@dataclass(frozen=True, slots=True)
class Revival:
    """A request to revive a dead task. `life` is the expected life; None continues an unfinished
    revival. `review` is the decision as JSON. `request` identifies the request if it is sent again.
    """

    task: str
    life: int | None = None
    review: str = ""
    definition: bytes = b""
    delay_ms: int = 0
    request: str = field(default_factory=partial(secrets.token_hex, 8))


class Reviewed(NamedTuple):
    """A dead task, its expected life (None if the task cannot be decoded), and the decision as
    JSON.
    """

    task: str
    life: int | None
    review: str = ""


async def revive(shard: Shard, revival: Revival) -> State:
    """Revives a dead task. Returns its new state. Raises WrongState if it is not dead."""
    found = await revived(shard, revival)
    if isinstance(found, RQueueError):
        await add_first_decision(shard, [found])
        raise found
    return found


async def revive_all(shard: Shard, revivals: Sequence[Revival]) -> list[State | RQueueError]:
    """Revives dead tasks. Returns the new state or the error of each."""
    found: list[State | RQueueError] = []
    for start in range(0, len(revivals), PIPELINE):
        page = revivals[start : start + PIPELINE]
        try:
            replies = await shard.run_all("task/revive", [partial(call, shard, r) for r in page])
        except ScriptFault:
            # One of the tasks is damaged. Revived one by one, it does not affect the others.
            found += [await revived(shard, revival) for revival in page]
        else:
            for revival, reply in zip(page, replies, strict=True):
                found.append(await finished(shard, revival, reply))
    await add_first_decision(shard, found)
    return found


async def revived(shard: Shard, revival: Revival) -> State | RQueueError:
    """Revives one task. Returns its state or its error. Raises StoreUnavailable."""
    return await finished(shard, revival, await sent(shard, revival))


async def sent(shard: Shard, revival: Revival) -> Reply | RQueueError:
    """Returns the reply to one call, or its error. Raises StoreUnavailable."""
    try:
        return await shard.run("task/revive", revival_args(shard, revival))
    except StoreUnavailable:
        raise
    except RQueueError as error:
        return error


async def finished(
    shard: Shard, revival: Revival, reply: Reply | RQueueError
) -> State | RQueueError:
    """Returns the result of a revival. If the task has many dependencies, repeats the call until
    all of them are updated.
    """
    # Repeated calls have no life: the move itself finds the dependencies that are left.
    found, rest = parsed(revival, reply), replace(revival, life=None)
    while isinstance(found, tuple) and found[0] == UNFINISHED:
        found = parsed(revival, await sent(shard, rest))
    return found[1] if isinstance(found, tuple) else found


def parsed(revival: Revival, reply: Reply | RQueueError) -> tuple[int, State] | RQueueError:
    """Returns how much of a revival is left and the task's new state, or the error of the reply."""
    if isinstance(reply, RQueueError):
        return reply
    task = TaskId.from_ulid(revival.task)
    if text(reply[0]) == DECIDED:
        return AlreadyDecided(task, found=text(reply[1]), life=revival.life or 0)
    try:
        more, state = ok("task/revive", task, reply)
    except RQueueError as error:
        return error
    return int(more), State(text(state))


def call(shard: Shard, revival: Revival) -> CallArguments:
    """Returns the call of a revival, for `run_all`."""
    return revival_args(shard, revival), ()


def revival_args(shard: Shard, revival: Revival) -> dict[str, Argument]:
    """Returns the arguments of a revival."""
    return {
        "task": revival.task,
        "life": "" if revival.life is None else revival.life,
        "def": revival.definition,
        "delay": revival.delay_ms,
        "tries": TRIES,
        "terms": ending(shard.terms),
        "steps": EDGE_LIMIT,
        "page": DEPENDENCY_LIMIT,
        "review": revival.review,
        "request": revival.request,
        "memo_ms": shard.terms.memo_ms,
    }


async def dependents(shard: Shard, task: str, *, limit: int) -> tuple[int, list[TaskId]]:
    """Returns the number of a task's dependents, and some of them."""
    args: dict[str, Argument] = {"task": task, "limit": limit}
    number, *found = ok("task/dependents", task, await shard.run("task/dependents", args))
    return int(number), [TaskId.from_ulid(text(one)) for one in found]


async def discard(shard: Shard, rows: Sequence[Reviewed], *, reason: str) -> list[str]:
    """Discards dead tasks. Returns OK, GONE, STATE:<found> or DECIDED:<found> for each."""
    args = {"reason": reason, "how": ending(shard.terms), **shard.request_args()}
    return await decided(shard, "task/discard", args, rows)


async def escalate(shard: Shard, rows: Sequence[Reviewed]) -> list[str]:
    """Marks dead tasks as escalated. Returns the same words as `discard`."""
    args = {"how": ending(shard.terms), **shard.request_args()}
    return await decided(shard, "task/escalate", args, rows)


async def decided(
    shard: Shard, move: str, args: dict[str, Argument], rows: Sequence[Reviewed]
) -> list[str]:
    """Carries out a decision on many tasks in one call. Returns a reply word for each."""
    each = [(row.task, "" if row.life is None else row.life, row.review) for row in rows]
    return [text(word) for word in ok(move, "", await shard.run(move, args, each))]


async def faults(
    shard: Shard, move: str, rows: Sequence[Reviewed], words: Sequence[str]
) -> list[RQueueError | None]:
    """Returns the error for each word of a reply; None for OK."""
    found = [fault_of(move, row, word) for row, word in zip(rows, words, strict=True)]
    await add_first_decision(shard, found)
    return found


def fault_of(move: str, row: Reviewed, word: str) -> RQueueError | None:
    """Returns the error for one word of a reply; None for OK."""
    task, (kind, _, found) = TaskId.from_ulid(row.task), word.partition(":")
    if kind == DECIDED:
        return AlreadyDecided(task, found=found, life=row.life or 0)
    return lease_fault(move, task, "", word)


async def add_first_decision(shard: Shard, found: Iterable[object]) -> None:
    """Adds the author and the resolution of the earlier decision to AlreadyDecided errors, if that
    decision is among the latest reviews. Only one decision on a life is final.
    """
    unnamed = {(one.task, one.life): one for one in found if isinstance(one, AlreadyDecided)}
    if not unnamed:
        return
    # The errors are valid without these details, so an unavailable server is ignored.
    with suppress(StoreUnavailable):
        for review in await reviews.newest(shard):
            error = unnamed.get((review.task, review.life))
            if error is not None and review.resolution != "escalate":
                error.by, error.resolution = review.by, review.resolution
