"""Drafts the tasks that handlers spawn, and reads the outcomes they wait for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rqueue.core.spawn import SpawnDraft
from rqueue.errors import InvalidTask, SubtaskFailed
from rqueue.producer.drafts import Drafter, compact
from rqueue.task.ids import new_task_ids
from rqueue.task.state import State
from rqueue.worker.context.inputs import completed

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.core.spawn import Spawned
    from rqueue.core.submit import Draft
    from rqueue.task.ids import TaskId
    from rqueue.task.spec import Call
    from rqueue.task.task import Task
    from rqueue.worker.executor import Parts


# Options that identify a task among others; a spawned task is identified by its key instead.
IDENTITY = ("idem", "window", "unique")


class Spawner:
    """Drafts spawned tasks for one worker, with the options of their handlers and the middleware,
    as the queue does for submitted tasks.
    """

    def __init__(self, parts: Parts) -> None:
        self.reader = parts.reader
        self.shelf = parts.shelf
        self.hooks = parts.hooks
        handlers, by = parts.registry.handlers, parts.settings.principal
        self.drafter = Drafter(parts.settings, parts.clock, handlers, by=by)

    async def drafted(self, parent: Task, requests: Sequence[SpawnRequest]) -> list[SpawnDraft]:
        """The drafts with a new id each, which is used if the key is new."""
        ids = new_task_ids(len(requests), parent.id.shard)
        return [
            SpawnDraft(request.key, id, await self.draft(parent, request))
            for request, id in zip(requests, ids, strict=True)
        ]

    async def draft(self, parent: Task, request: SpawnRequest) -> Draft:
        """One draft; raises InvalidTask, and what the middleware raises."""
        call = self.drafter.call(request.call)
        after = [*call.options.get("depends_on", ()), *request.after]
        # The producer's name of the DAG applies to the tasks spawned in it.
        named = {} if parent.spec.dag_id is None else {"dag_id": parent.spec.dag_id}
        call = call.with_options(parent_id=parent.id, depends_on=after, **named)
        if self.hooks.middleware:
            call = await self.hooks.before_submit(call)
        draft = known_by_key(self.drafter.of_call(call))
        # The holder of the lease may spawn; naming another creator requires the permission for it.
        own = call.options.get("created_by") in (None, self.drafter.by)
        return draft._replace(by="" if own else self.drafter.by)

    async def subtasks(self, spawned: Sequence[Spawned], wait: Wait) -> list[Subtask]:
        """The spawned tasks for the handler, with their outcomes if it has waited for them."""
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
    """The draft without the options that identify it."""
    if not draft.more:
        return draft
    more = json.loads(draft.more)
    kept = {name: value for name, value in more.items() if name not in IDENTITY}
    return draft._replace(more=compact(kept))


def reason_of(task: Task) -> str:
    """Why a task did not complete."""
    return task.cancel_reason or task.last_error or task.failure_reason or ""


# What a task waits for: nothing, the success of the tasks it spawned, or their end.
Wait = Literal["", "success", "done"]


class SpawnRequest(NamedTuple):
    """A task to be spawned: its key, its call, and the keys or ids it runs after."""

    key: str
    call: Call | Mapping[str, Any]
    after: Sequence[str] = ()


class Subtask(NamedTuple):
    """A spawned task. `state` is None if its keys have expired. It has an output if it is
    completed, else a reason.
    """

    id: TaskId
    state: State | None = None
    output: JsonValue = None
    reason: str = ""


def named(key: str) -> str:
    """Validates a key that a handler gave; numbers are the default keys."""
    if not isinstance(key, str) or not key or key.isdigit():
        raise InvalidTask(
            "key", "is a string that is not a number: numbers are assigned automatically"
        )
    return key


def output_of(found: Subtask) -> JsonValue:
    """The output of a spawned task; raises SubtaskFailed if it has none."""
    failure = failure_of(found)
    if failure is not None:
        raise failure
    return found.output


def failure_of(found: Subtask) -> SubtaskFailed | None:
    """Why a spawned task has no output; None if it is completed."""
    if found.state is State.COMPLETED:
        return None
    return SubtaskFailed(found.id, state=str(found.state or "gone"), reason=found.reason)
