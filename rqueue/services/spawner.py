"""Makes tasks of what handlers spawn, and reads how those that they waited for have ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rqueue.artifacts.results import completed
from rqueue.client.drafts import Drafter, compact
from rqueue.model.ids import new_task_ids
from rqueue.model.subtask import Subtask, Wait, Wish
from rqueue.store.spawning import Seedling

if TYPE_CHECKING:
    from rqueue.model.task import Task
    from rqueue.services.desk import Parts
    from rqueue.store.spawning import Spawned
    from rqueue.store.submits import Draft

# What makes a task the same as another: one that is spawned is known by its key instead.
IDENTITY = ("idem", "window", "unique")


class Spawner:
    """Serves the contexts of one worker. Calls are drafted as the queue drafts its own, with the
    options of their handlers and the steps of the middleware before a submit.
    """

    def __init__(self, parts: Parts) -> None:
        self.reader = parts.reader
        self.shelf = parts.shelf
        self.hooks = parts.hooks
        handlers, by = parts.registry.handlers, parts.settings.principal
        self.drafter = Drafter(parts.settings, parts.clock, handlers, by=by)

    async def drafted(self, parent: Task, wishes: Sequence[Wish]) -> list[Seedling]:
        """What is sent to the store; each has an id, which it gets if its key is new."""
        ids = new_task_ids(len(wishes), parent.id.shard)
        return [
            Seedling(wish.key, id, await self.draft(parent, wish))
            for wish, id in zip(wishes, ids, strict=True)
        ]

    async def draft(self, parent: Task, wish: Wish) -> Draft:
        """One task; raises InvalidTask, and what the middleware raises."""
        call = self.drafter.call(wish.call)
        after = [*call.options.get("depends_on", ()), *wish.after]
        # The name that a producer gave its DAG holds for all that grows in it.
        named = {} if parent.spec.dag_id is None else {"dag_id": parent.spec.dag_id}
        call = call.with_options(parent_id=parent.id, depends_on=after, **named)
        if self.hooks.middleware:
            call = await self.hooks.before_submit(call)
        draft = known_by_key(self.drafter.of_call(call))
        # Whoever holds the lease may spawn; only to name another as the creator is asked for.
        own = call.options.get("created_by") in (None, self.drafter.by)
        return draft._replace(by="" if own else self.drafter.by)

    async def told(self, spawned: Sequence[Spawned], wait: Wait) -> list[Subtask]:
        """What a handler is told: of those that it waited for, how they ended."""
        if not wait:
            return [Subtask(one.id, one.state) for one in spawned]
        read = await self.reader.read([one.id.ulid for one in spawned])
        found = [task and await completed(self.shelf, task) for task in read]
        return [
            Subtask(one.id)
            if task is None
            else Subtask(one.id, task.state, task.result, reason_of(task))
            for one, task in zip(spawned, found, strict=True)
        ]


def known_by_key(draft: Draft) -> Draft:
    """The draft without an identity of its own."""
    if not draft.more:
        return draft
    more = json.loads(draft.more)
    kept = {name: value for name, value in more.items() if name not in IDENTITY}
    return draft._replace(more=compact(kept))


def reason_of(task: Task) -> str:
    """Why a task did not complete."""
    return task.cancel_reason or task.last_error or task.failure_reason or ""
