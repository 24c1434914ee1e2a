"""The service that continues unfinished DAG operations: commit, cancel, pause, expiry, ranks and
the submission of follow-up DAGs.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rqueue.dags import store as dag_store
from rqueue.dags import submit as dag_submit
from rqueue.dags.graph import ranks
from rqueue.dags.plan import dag_draft_of, is_taken
from rqueue.dead.store import Revival, revive
from rqueue.errors import Overloaded, RQueueError, StoreUnavailable
from rqueue.task.lane import micro

if TYPE_CHECKING:
    from rqueue.dags.store import Step
    from rqueue.producer.drafts import Drafter
    from rqueue.store.shard import Shard
    from rqueue.task.ids import DagId

log = logging.getLogger("rqueue.scheduler")

# Operations whose move stores its own progress. They take a DAG; `revive` takes a task.
STEPS: dict[str, Callable[[Shard, DagId], Awaitable[object]]] = {
    "commit": dag_submit.commit,
    "drop": partial(dag_submit.drop, idle_ms=dag_store.WRITING_MS),
    "cancel": dag_store.cancel,
    "hold": partial(dag_store.pause, begin=False),
    "unhold": partial(dag_store.resume, begin=False),
    "forget": dag_store.forget,
    "revive": lambda shard, task: revive(shard, Revival(task.ulid)),
}

# Length limit of a stored refusal. Without it, the text could name every task of a long cycle.
REASON_LENGTH = 500


@dataclass(slots=True)
class ResumedSteps:
    """The number of steps that one tick has finished, of steps that have failed and are tried
    again, and of follow-up DAGs that were refused permanently.
    """

    done: int = 0
    failed: int = 0
    refused: int = 0


class Resumer:
    """Finishes DAG operations that a crash or the size limit of one call has left unfinished. Any
    number of instances may run, because each step is a move that stores its own progress.
    """

    name = "resumer"
    interval_sec = 1.0

    def __init__(self, shard: Shard, drafter: Drafter) -> None:
        self.shard = shard
        self.drafter = drafter
        self.ranked: dict[DagId, float] = {}

    async def tick(self) -> ResumedSteps:
        """Continues every unfinished operation."""
        steps = ResumedSteps()
        for step in await dag_store.steps(self.shard):
            if step.verb == "rank" and self.was_ranked(step.dag):
                continue
            try:
                steps.refused += not await self.finish(step)
                steps.done += 1
            except StoreUnavailable:
                raise
            except Exception as error:
                # An error in one DAG must not stop the others.
                steps.failed += 1
                log.warning(
                    "cannot finish step %s of %s, it is retried: %s", step.verb, step.dag, error
                )
        return steps

    async def finish(self, step: Step) -> bool:
        """Finishes one operation. Returns False if a follow-up DAG was refused."""
        if step.verb == "follow":
            return await self.follow(step.dag)
        if step.verb == "rank":
            await self.rank(step.dag, step.position)
        else:
            await STEPS[step.verb](self.shard, step.dag)
        return True

    def was_ranked(self, dag: DagId) -> bool:
        """Returns whether the DAG was ranked within `rank_interval_sec`. The interval limits the
        work for a DAG that grows continuously.
        """
        now, interval = self.drafter.clock.monotonic(), self.drafter.settings.rank_interval_sec
        self.ranked = {one: at for one, at in self.ranked.items() if now - at < interval}
        return dag in self.ranked

    async def rank(self, dag: DagId, seen: str) -> None:
        """Recomputes the critical-path boosts after the graph has changed."""
        self.ranked[dag] = self.drafter.clock.monotonic()
        live = await dag_store.edges(self.shard, dag)
        found = ranks({one.task: one.dependencies for one in live})
        rows = [(one.task, micro(found[one.task])) for one in live]
        moved = [row for row, one in zip(rows, live, strict=True) if row[1] != one.rank]
        await dag_store.rank(self.shard, dag, moved, seen=seen)

    async def follow(self, dag: DagId) -> bool:
        """Submits the follow-up of a completed DAG. The stored plan contains its ids, so that a
        repeated call creates no second DAG. Returns False if the follow-up was refused. It was
        valid when it was given, so it is not tried again; the refusal is logged and stored.
        """
        text = await dag_store.follower(self.shard, dag)
        refused = ""
        try:
            if text:
                # Permission was checked when the preceding DAG was submitted.
                following = dag_draft_of(text, self.drafter)._replace(by=())
                await dag_submit.submit(self.shard, following)
        except (StoreUnavailable, Overloaded):
            raise
        except (RQueueError, ValueError, RecursionError) as error:
            next_dag = (await dag_store.read(self.shard, dag)).next
            # Another instance may have submitted it at the same time.
            if next_dag is None or not await is_taken(self.shard, next_dag):
                refused = str(error)[:REASON_LENGTH]
                log.error("follow-up of %s refused: %s", dag, refused)
        await dag_store.followed(self.shard, dag, refused=refused)
        return not refused
