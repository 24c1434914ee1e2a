"""The critical path of a DAG: what it is found by, and the boosts that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rqueue.store.dags import STEP, run
from rqueue.store.replies import text
from rqueue.store.shard import CHUNK

if TYPE_CHECKING:
    from rqueue.model.ids import DagId
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard


class Ranked(NamedTuple):
    """A task that has not ended: its boost in millionths of a point, and what it waits for."""

    task: str
    rank: int
    parents: Sequence[str]


async def edges(shard: Shard, dag: DagId) -> list[Ranked]:
    """The tasks of a DAG that have not ended; each page one moment. Raises DagNotFound."""
    found: list[Ranked] = []
    at = "0"
    while at:
        args: dict[str, Argument] = {"from": at, "limit": CHUNK}
        at, *words = [text(word) for word in await run(shard, "dag/edges", dag, args)]
        for task, rank, parents in zip(words[::3], words[1::3], words[2::3], strict=True):
            found.append(Ranked(task, int(rank), parents.split()))
    return found


async def rank(shard: Shard, dag: DagId, ranks: Sequence[tuple[str, int]], *, seen: str) -> None:
    """Gives tasks their part for the critical path anew; `seen` is the position of its step."""
    for start in range(0, max(len(ranks), 1), STEP):
        page = ranks[start : start + STEP]
        last = start + STEP >= len(ranks)
        await run(shard, "dag/rank", dag, {"seen": seen if last else ""}, rows=page)
