"""The outputs of tasks, for those that are given them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rqueue.model.state import State
from rqueue.policy.inputs import Returned
from rqueue.store.replies import ok, text
from rqueue.store.shard import BYTES

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

# Tasks a call; their results may be too much for it before that.
PAGE = 100
GONE = "GONE"


async def outputs(shard: Shard, tasks: Sequence[str]) -> list[Returned]:
    """How far each task is and what it has returned, by their ULIDs, in this order."""
    found: list[Returned] = []
    while len(found) < len(tasks):
        rows = [(task,) for task in tasks[len(found) : len(found) + PAGE]]
        words = ok("task/outputs", "", await shard.run("task/outputs", {"limit": BYTES}, rows))
        for word, result in zip(words[::2], words[1::2], strict=True):
            state = text(word)
            found.append(Returned(None if state == GONE else State(state), bytes(result)))
    return found
