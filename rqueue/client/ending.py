"""Ends many tasks at once: those that a filter meant when somebody looked, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.model.state import State
from rqueue.store import index, resolving, tasks
from rqueue.store.resolving import Reviewed

if TYPE_CHECKING:
    from rqueue.client.deciding import Decision
    from rqueue.model.ids import TaskId
    from rqueue.model.task import Task
    from rqueue.store.shard import Shard
    from rqueue.store.tasks import Dependents

# Is told how many are done, and of how many.
Told = Callable[[int, int], object]


@dataclass(slots=True)
class Swept:
    """What a filter found and, unless it was a dry run, what was done to it."""

    found: int = 0
    done: int = 0
    tasks: list[TaskId] = field(default_factory=list)


@dataclass(slots=True)
class Chosen:
    """What a filter found: the dead in the life that was seen, and the others. Ids and reviews
    alone: all payloads may be more than memory holds.
    """

    dead: list[Reviewed] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    swept: Swept = field(default_factory=Swept)


async def chosen_of(found: AsyncIterator[Task], decision: Decision) -> Chosen:
    """What is to be ended of what a walk finds."""
    chosen = Chosen()
    async for task in found:
        chosen.swept.tasks.append(task.id)
        if task.state is State.DEAD_LETTERED:
            chosen.dead.append(Reviewed(task.id.ulid, task.life, decision.review(task)))
        else:
            chosen.live.append(task.id.ulid)
    chosen.swept.found = len(chosen.swept.tasks)
    return chosen


async def end(
    shard: Shard, chosen: Chosen, *, reason: str, told: Told | None, dependents: Dependents
) -> Swept:
    """Cancels what lives and discards what is dead; `told` hears after each step how many of how
    many are done.
    """
    swept = chosen.swept
    words: list[str] = []
    for start in range(0, swept.found, index.PAGE):
        page = slice(start, start + index.PAGE)
        if chosen.live[page]:
            ids = chosen.live[page]
            words += await tasks.cancel(shard, ids, reason=reason, dependents=dependents)
        if chosen.dead[page]:
            words += await resolving.discard(shard, chosen.dead[page], reason=reason)
        if told is not None:
            told(len(words), swept.found)
    swept.done = words.count("OK")
    return swept
