"""Goes on with what was begun with DAGs: commits, cancels, pauses, expiry, ranks, followers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rqueue.client.plans import is_taken, planting_of
from rqueue.errors import Overloaded, RQueueError, StoreUnavailable
from rqueue.model.lane import micro
from rqueue.policy.path import ranks
from rqueue.store import dags, planting, ranking
from rqueue.store.resolving import Revival, revive

if TYPE_CHECKING:
    from rqueue.client.drafts import Drafter
    from rqueue.model.ids import DagId
    from rqueue.store.dags import Step
    from rqueue.store.shard import Shard

log = logging.getLogger("rqueue.scheduler")

# What needs nothing but the script's own knowledge of how far it is; all but a revival is about a
# DAG.
STEPS: dict[str, Callable[[Shard, DagId], Awaitable[object]]] = {
    "commit": planting.commit,
    "drop": partial(planting.drop, idle_ms=dags.WRITING_MS),
    "cancel": dags.cancel,
    "hold": partial(dags.pause, begin=False),
    "unhold": partial(dags.resume, begin=False),
    "forget": dags.forget,
    "revive": lambda shard, task: revive(shard, Revival(task.ulid)),
}

# What is kept of a refusal: it may name every task of a circle.
REASON_LENGTH = 500


@dataclass(slots=True)
class Kept:
    """How many steps one tick has taken, how many it could not, and how many of the DAGs that were
    to follow others were refused for good.
    """

    done: int = 0
    failed: int = 0
    refused: int = 0


class Keeper:
    """Finishes what a crash, or a call that may do only so much, has left. Any number may run: each
    step is a script that knows how far it is.
    """

    name = "keeper"
    interval_sec = 1.0

    def __init__(self, shard: Shard, drafter: Drafter) -> None:
        self.shard = shard
        self.drafter = drafter
        self.ranked: dict[DagId, float] = {}

    async def tick(self) -> Kept:
        """Goes on with everything that is named."""
        kept = Kept()
        for step in await dags.steps(self.shard):
            if step.verb == "rank" and self.was_ranked(step.dag):
                continue
            try:
                kept.refused += not await self.go_on(step)
                kept.done += 1
            except StoreUnavailable:
                raise
            except Exception as error:
                # Whatever is wrong with one DAG must not hold the others.
                kept.failed += 1
                log.warning("cannot %s %s: %s", step.verb, step.dag, error)
        return kept

    async def go_on(self, step: Step) -> bool:
        """Takes one step to its end; False where that was a refusal."""
        if step.verb == "follow":
            return await self.follow(step.dag)
        if step.verb == "rank":
            await self.rank(step.dag, step.position)
        else:
            await STEPS[step.verb](self.shard, step.dag)
        return True

    def was_ranked(self, dag: DagId) -> bool:
        """Whether it is too soon to rank it anew: one that grows all the time is never done."""
        now, interval = self.drafter.clock.monotonic(), self.drafter.settings.rank_interval_sec
        self.ranked = {one: at for one, at in self.ranked.items() if now - at < interval}
        return dag in self.ranked

    async def rank(self, dag: DagId, seen: str) -> None:
        """Writes the boosts of the critical path anew, after the graph has changed."""
        self.ranked[dag] = self.drafter.clock.monotonic()
        live = await ranking.edges(self.shard, dag)
        found = ranks({one.task: one.parents for one in live})
        rows = [(one.task, micro(found[one.task])) for one in live]
        moved = [row for row, one in zip(rows, live, strict=True) if row[1] != one.rank]
        await ranking.rank(self.shard, dag, moved, seen=seen)

    async def follow(self, dag: DagId) -> bool:
        """Submits the DAG that follows one that has completed: its ids were made with it, so that
        it comes once, however often this is done. False where it was refused: it was checked when
        it was given, so nobody tries again, and a person is told.
        """
        text = await dags.follower(self.shard, dag)
        refused = ""
        try:
            if text:
                # Whether it may be created was asked with the DAG that it follows.
                following = planting_of(text, self.drafter)._replace(by=())
                await planting.submit(self.shard, following)
        except (StoreUnavailable, Overloaded):
            raise
        except (RQueueError, ValueError, RecursionError) as error:
            next_dag = (await dags.read(self.shard, dag)).next
            # Another keeper may have been luckier in the same moment.
            if next_dag is None or not await is_taken(self.shard, next_dag):
                refused = str(error)[:REASON_LENGTH]
                log.error("what follows %s cannot be submitted: %s", dag, refused)
        await dags.followed(self.shard, dag, refused=refused)
        return not refused
