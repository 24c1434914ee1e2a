"""What is decided about dead tasks: revive, discard, escalate; each leaves a review behind."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rqueue.errors import AlreadyDecided, RQueueError, ScriptFault, StoreUnavailable
from rqueue.model.ids import TaskId
from rqueue.model.state import State
from rqueue.store import reviews
from rqueue.store.replies import lease_fault, ok, text
from rqueue.store.shard import EDGES, PARENTS, TRIES, ending

if TYPE_CHECKING:
    from rqueue.store.runner import Reply
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Asked, Shard

# What the script says while a revived task has parents to tell.
TELLING = 2
# What the scripts say where another decision came first.
DECIDED = "DECIDED"
# Revivals that are sent one behind the other, before the first answer is waited for.
BEHIND = 50


@dataclass(frozen=True, slots=True)
class Revival:
    """A new life for a dead task, of which this one was seen; `review` is why, as JSON. Without a
    life, what was begun is gone on with. `request` names the decision, for all its copies.
    """

    task: str
    life: int | None = None
    review: str = ""
    definition: bytes = b""
    delay_ms: int = 0
    request: str = field(default_factory=partial(secrets.token_hex, 8))


class Reviewed(NamedTuple):
    """A dead task, the life of it that was seen, None where nobody can read it, and what was
    decided, as JSON.
    """

    task: str
    life: int | None
    review: str = ""


async def revive(shard: Shard, revival: Revival) -> State:
    """Gives a dead task a new life; the state it begins in. Raises where it is not dead."""
    found = await revived(shard, revival)
    if isinstance(found, RQueueError):
        await tell_first(shard, [found])
        raise found
    return found


async def revive_all(shard: Shard, revivals: Sequence[Revival]) -> list[State | RQueueError]:
    """Gives dead tasks new lives; for each the state it begins in, or why it cannot."""
    found: list[State | RQueueError] = []
    for start in range(0, len(revivals), BEHIND):
        page = revivals[start : start + BEHIND]
        try:
            replies = await shard.run_all("task/revive", [partial(call, shard, r) for r in page])
        except ScriptFault:
            # One of them is broken: by itself it stands in no other's way.
            found += [await revived(shard, revival) for revival in page]
        else:
            for revival, reply in zip(page, replies, strict=True):
                found.append(await answered(shard, revival, reply))
    await tell_first(shard, found)
    return found


async def revived(shard: Shard, revival: Revival) -> State | RQueueError:
    """One revival, or why it cannot be; that the server is away is raised."""
    return await answered(shard, revival, await asked(shard, revival))


async def asked(shard: Shard, revival: Revival) -> Reply | RQueueError:
    """The reply to one call, or what went wrong with it; that the server is away is raised."""
    try:
        return await shard.run("task/revive", revival_args(shard, revival))
    except StoreUnavailable:
        raise
    except RQueueError as error:
        return error


async def answered(
    shard: Shard, revival: Revival, reply: Reply | RQueueError
) -> State | RQueueError:
    """What a reply to a revival means; its parents are told where they were many."""
    # What begins has a name, and one answer; what is left is found by whoever goes on.
    found, rest = heard(revival, reply), replace(revival, life=None)
    while isinstance(found, tuple) and found[0] == TELLING:
        found = heard(revival, await asked(shard, rest))
    return found[1] if isinstance(found, tuple) else found


def heard(revival: Revival, reply: Reply | RQueueError) -> tuple[int, State] | RQueueError:
    """What is left to do for a revival and the state it began in, or why it cannot be."""
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


def call(shard: Shard, revival: Revival) -> Asked:
    """A revival as `run_all` takes it."""
    return revival_args(shard, revival), ()


def revival_args(shard: Shard, revival: Revival) -> dict[str, Argument]:
    """A revival as the script reads it."""
    return {
        "task": revival.task,
        "life": "" if revival.life is None else revival.life,
        "def": revival.definition,
        "delay": revival.delay_ms,
        "tries": TRIES,
        "terms": ending(shard.terms),
        "steps": EDGES,
        "page": PARENTS,
        "review": revival.review,
        "request": revival.request,
        "memo_ms": shard.terms.memo_ms,
    }


async def dependents(shard: Shard, task: str, *, limit: int) -> tuple[int, list[TaskId]]:
    """How many tasks wait for one, and some of them."""
    args: dict[str, Argument] = {"task": task, "limit": limit}
    number, *found = ok("task/dependents", task, await shard.run("task/dependents", args))
    return int(number), [TaskId.from_ulid(text(one)) for one in found]


async def discard(shard: Shard, rows: Sequence[Reviewed], *, reason: str) -> list[str]:
    """Gives dead tasks up: OK, GONE, STATE:<found> or DECIDED:<found> for each."""
    args = {"reason": reason, "how": ending(shard.terms), **shard.by_hand()}
    return await decided(shard, "task/discard", args, rows)


async def escalate(shard: Shard, rows: Sequence[Reviewed]) -> list[str]:
    """Marks dead tasks for whoever may decide about them; the words are those of `discard`."""
    args = {"how": ending(shard.terms), **shard.by_hand()}
    return await decided(shard, "task/escalate", args, rows)


async def decided(
    shard: Shard, script: str, args: dict[str, Argument], rows: Sequence[Reviewed]
) -> list[str]:
    """A decision about many tasks in one call; a word for each."""
    each = [(row.task, "" if row.life is None else row.life, row.review) for row in rows]
    return [text(word) for word in ok(script, "", await shard.run(script, args, each))]


async def faults(
    shard: Shard, script: str, rows: Sequence[Reviewed], words: Sequence[str]
) -> list[RQueueError | None]:
    """What the words about tasks mean: nothing for OK."""
    found = [fault_of(script, row, word) for row, word in zip(rows, words, strict=True)]
    await tell_first(shard, found)
    return found


def fault_of(script: str, row: Reviewed, word: str) -> RQueueError | None:
    """What a word about a decision means; nothing for OK."""
    task, (kind, _, found) = TaskId.from_ulid(row.task), word.partition(":")
    if kind == DECIDED:
        return AlreadyDecided(task, found=found, life=row.life or 0)
    return lease_fault(script, task, "", word)


async def tell_first(shard: Shard, found: Iterable[object]) -> None:
    """Adds to the errors of decisions that came too late who was first, and how that was decided,
    where the newest reviews say so: about one life, only one decision is final.
    """
    late = {(one.task, one.life): one for one in found if isinstance(one, AlreadyDecided)}
    if not late:
        return
    # Without it they say what counts; nothing else is lost when the server is away by now.
    with suppress(StoreUnavailable):
        for review in await reviews.newest(shard):
            error = late.get((review.task, review.life))
            if error is not None and review.resolution != "escalate":
                error.by, error.resolution = review.by, review.resolution
