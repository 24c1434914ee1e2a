"""The artifacts that tasks have put, and those that anything of a shard names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from rqueue.errors import ArtifactRefused, InvalidTask, LeaseLost
from rqueue.model.artifact import written
from rqueue.model.ids import ArtifactId, TaskId
from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from rqueue.model.artifact import Artifact
    from rqueue.store.leases import Held
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

START = "0"
# Keys a page: each is read whole, and a definition or a result may be large.
PAGE = 50
# The prefix, the underscore and the ULID.
LENGTH = 30


async def attach(shard: Shard, held: Held, artifact: Artifact) -> None:
    """Notes an artifact with the task that put it. Raises LeaseLost where the lease is not held,
    ArtifactRefused where the task has too many.
    """
    most = shard.terms.max_artifacts
    args: dict[str, Argument] = {
        "task": held.task,
        "token": held.token,
        "artifact": artifact.id,
        "facts": written(artifact),
        "most": most,
    }
    reply = await shard.run("task/attach", args)
    match text(reply[0]):
        case "LOST":
            raise LeaseLost(TaskId.from_ulid(held.task), held.token)
        case "FULL":
            rule = f"is one more than the {most} that a task may put (max_artifacts)"
            raise ArtifactRefused(artifact.reference, rule)
        case _:
            ok("task/attach", held.task, reply)


async def mentioned(shard: Shard) -> AsyncIterator[ArtifactId]:
    """Every artifact that something of the shard names while this goes through it."""
    cursor = START
    while True:
        args: dict[str, Argument] = {"cursor": cursor, "limit": PAGE}
        following, *found = ok("queue/mentions", "", await shard.run("queue/mentions", args))
        for word in found:
            try:
                # Whatever letters follow it: what looks like an id is kept.
                yield ArtifactId.parse(text(word)[:LENGTH])
            except InvalidTask:
                continue
        cursor = text(following)
        if cursor == START:
            return
