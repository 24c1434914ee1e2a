"""Calls about DAGs whose replies are lost: the state before, and the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rqueue import Lease
from rqueue.core import spawn as spawn_moves
from rqueue.core.spawn import SpawnDraft
from rqueue.dags import store as dag_store
from rqueue.dags import submit as dag_submit
from rqueue.dags.plan import Plan, dag_draft_of
from rqueue.dags.submit import DagDraft
from rqueue.store.shard import CANCEL_LIMIT
from rqueue.task.ids import DagId, new_task_ids
from rqueue.worker.context.spawn import Wait
from tests.harness import Harness

Row = tuple[Callable[[Harness], Awaitable[Any]], Callable[[Harness, Any], Awaitable[Any]]]


def a_planting(harness: Harness) -> DagDraft:
    """A root, two dependents, one with trigger one_failed, and a DAG that follows."""
    plan = Plan.parse(
        {
            "tasks": [
                {"type": "code", "name": "root"},
                {"type": "code", "name": "left", "after": ["root"]},
                {"type": "code", "name": "right", "after": ["root"]},
                {"type": "code", "name": "alarm", "after": ["root"], "trigger": "one_failed"},
            ],
            "on_complete": {"tasks": [{"type": "code"}]},
        }
    )
    return dag_draft_of(plan, harness.queue._internals.drafter)


async def nothing(harness: Harness) -> None: ...


async def submitted(harness: Harness, _: Any = None) -> DagId:
    found = a_planting(harness)
    await dag_submit.submit(harness.queue._internals.shard, found)
    return found.id


async def submit(harness: Harness, _: Any) -> None:
    await submitted(harness)


async def half_written(harness: Harness) -> DagId:
    found, shard = a_planting(harness), harness.queue._internals.shard
    lanes = (found.nodes[0].draft.lane,)
    rows = [row for _, row in dag_submit.numbered(found.nodes[:2], lanes)]
    args, rows_of_part = dag_submit.part_call(shard, found, lanes, rows)
    await shard.run("dag/submit", args, rows_of_part)
    return found.id


async def paused(harness: Harness) -> DagId:
    dag = await submitted(harness)
    await dag_store.pause(harness.queue._internals.shard, dag)
    return dag


async def given_up(harness: Harness) -> DagId:
    dag = await submitted(harness)
    await dag_store.cancel(harness.queue._internals.shard, dag, "why")
    return dag


async def wide(harness: Harness) -> DagId:
    """More tasks than one call cancels."""
    plan = Plan.parse({"tasks": [{"type": "code"}] * (CANCEL_LIMIT + 50)})
    await dag_submit.submit(
        harness.queue._internals.shard, dag_draft_of(plan, harness.queue._internals.drafter)
    )
    return plan.id


async def failed_fast(harness: Harness) -> DagId:
    """A task is dead, and the rest is not cancelled yet."""
    plan = Plan.parse({"tasks": [{"type": "code"}] * 3, "on_failure": "fail_fast"})
    await dag_submit.submit(
        harness.queue._internals.shard, dag_draft_of(plan, harness.queue._internals.drafter)
    )
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.fail(permanent=True)
    return plan.id


async def cancel(harness: Harness, dag: DagId) -> int:
    return await dag_store.cancel(harness.queue._internals.shard, dag, "why")


async def ended(harness: Harness) -> DagId:
    dag = await submitted(harness)
    await harness.client.hset(harness.keys.unfinished(), f"follow {dag.ulid}", "0")
    return dag


async def gone(harness: Harness) -> None:
    dag = await submitted(harness)
    await harness.client.delete(harness.keys.dag(dag.ulid))


async def listed(harness: Harness, _: Any) -> int:
    return len([dag async for dag in dag_store.walk(harness.queue._internals.shard)])


async def ranked(harness: Harness, dag: DagId) -> None:
    tasks = await dag_store.members(harness.queue._internals.shard, dag)
    await dag_store.rank(
        harness.queue._internals.shard, dag, [(task, 7) for task in tasks], seen="1"
    )


async def running(harness: Harness) -> Lease:
    return await harness.running()


async def spawn(harness: Harness, lease: Lease, wait: Wait, number: int = 2) -> bool:
    draft, ids = harness.queue._internals.drafter.draft({"type": "code"}), new_task_ids(number)
    seeds = [SpawnDraft(f"k{at}", id, draft) for at, id in enumerate(ids)]
    grown = await spawn_moves.spawn(harness.queue._internals.shard, lease.held, seeds, wait=wait)
    return grown.suspended


CASES: dict[str, list[Row]] = {
    "dag/submit": [(nothing, submit)],
    "dag/commit": [(nothing, submit)],
    "dag/drop": [
        (half_written, lambda harness, dag: dag_submit.drop(harness.queue._internals.shard, dag))
    ],
    "dag/cancel": [(given, cancel) for given in (submitted, paused, wide, failed_fast)],
    "dag/pause": [
        (submitted, lambda harness, dag: dag_store.pause(harness.queue._internals.shard, dag))
    ],
    "dag/resume": [
        (paused, lambda harness, dag: dag_store.resume(harness.queue._internals.shard, dag))
    ],
    "dag/forget": [
        (given_up, lambda harness, dag: dag_store.forget(harness.queue._internals.shard, dag))
    ],
    "dag/rank": [(submitted, ranked)],
    "dag/follow": [
        (submitted, lambda harness, dag: dag_store.followed(harness.queue._internals.shard, dag)),
        (
            ended,
            lambda harness, dag: dag_store.followed(
                harness.queue._internals.shard, dag, refused="why"
            ),
        ),
    ],
    "dag/budget": [
        (
            submitted,
            lambda harness, dag: dag_store.set_budget(harness.queue._internals.shard, dag, 2.5),
        )
    ],
    "dag/list": [(gone, listed)],
    "dag/spawn": [
        (running, lambda harness, lease: spawn(harness, lease, "")),
        (running, lambda harness, lease: spawn(harness, lease, "success")),
        (running, lambda harness, lease: spawn(harness, lease, "done")),
        (running, lambda harness, lease: spawn(harness, lease, "success", 2 * spawn_moves.PAGE)),
    ],
}
READS = {"dag/read", "dag/edges", "dag/steps"}
