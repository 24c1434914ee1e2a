"""Gives a claimed task what its attempt is to have: a model, outputs of others, what failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue.client.inputs import filled
from rqueue.errors import InvalidTask, StoreUnavailable
from rqueue.model.attempt import Failed, Reason
from rqueue.policy.models import model_for
from rqueue.policy.previous import given
from rqueue.policy.verdict import refused

if TYPE_CHECKING:
    from rqueue.artifacts.shelf import Shelf
    from rqueue.context import Context
    from rqueue.store.shard import Shard

T = TypeVar("T")

ASK_AGAIN_SEC = 0.5


async def outfitted(
    ctx: Context, shard: Shard, shelf: Shelf, models: Collection[str]
) -> Failed | None:
    """How a task with options fails that must not be tried; None when it has all it needs."""
    task = ctx.task
    bad = refused(task)
    if bad is not None:
        return bad
    model = model_for(task.spec, task.attempts, models)
    if isinstance(model, Failed):
        return model
    ctx.scribe.model = model
    try:
        ctx.task = await in_the_end(lambda: filled(shard, shelf, task))
    except InvalidTask as error:
        # No attempt could do better: what it needs does not come back.
        return Failed(Reason.ERROR, str(error), permanent=True)
    return None


async def reminded(ctx: Context, payload: Any) -> Any:
    """The payload of a task with how its earlier attempts failed; the task has it, too."""
    history = (await in_the_end(ctx.scribe.current)).failure_history
    whole = given(payload, history)
    spec = ctx.task.spec.model_copy(update={"payload": whole})
    ctx.task = ctx.task.model_copy(update={"spec": spec})
    return whole


async def in_the_end(asking: Callable[[], Awaitable[T]]) -> T:
    """What the server answers, however long it is away: the attempt's own time is the limit."""
    while True:
        try:
            return await asking()
        except StoreUnavailable:
            await asyncio.sleep(ASK_AGAIN_SEC)
