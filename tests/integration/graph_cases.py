"""The calls of DAGs whose replies may be lost: what is there before, and the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rqueue import Lease
from rqueue.client.plans import planting_of
from rqueue.model.ids import DagId, new_task_ids
from rqueue.model.plan import Plan
from rqueue.model.subtask import Wait
from rqueue.store import dags, planting, ranking, spawning
from rqueue.store.planting import Planting
from rqueue.store.shard import GIVEN_UP
from rqueue.store.spawning import Seedling
from tests.house import House

Row = tuple[Callable[[House], Awaitable[Any]], Callable[[House, Any], Awaitable[Any]]]


def a_planting(house: House) -> Planting:
    """A root, two tasks after it, one that waits for a failure, and a DAG that follows."""
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
    return planting_of(plan, house.queue.drafter)


async def nothing(house: House) -> None: ...


async def submitted(house: House, _: Any = None) -> DagId:
    found = a_planting(house)
    await planting.submit(house.queue.shard, found)
    return found.id


async def submit(house: House, _: Any) -> None:
    await submitted(house)


async def half_written(house: House) -> DagId:
    found, shard = a_planting(house), house.queue.shard
    lanes = (found.nodes[0].draft.lane,)
    rows = [row for _, row in planting.numbered(found.nodes[:2], lanes)]
    args, rows_of_part = planting.asked(shard, found, lanes, rows)
    await shard.run("dag/submit", args, rows_of_part)
    return found.id


async def paused(house: House) -> DagId:
    dag = await submitted(house)
    await dags.pause(house.queue.shard, dag)
    return dag


async def given_up(house: House) -> DagId:
    dag = await submitted(house)
    await dags.cancel(house.queue.shard, dag, "why")
    return dag


async def wide(house: House) -> DagId:
    """More tasks than one call gives up."""
    plan = Plan.parse({"tasks": [{"type": "code"}] * (GIVEN_UP + 50)})
    await planting.submit(house.queue.shard, planting_of(plan, house.queue.drafter))
    return plan.id


async def failed_fast(house: House) -> DagId:
    """A task is dead, and nothing of the rest is given up yet."""
    plan = Plan.parse({"tasks": [{"type": "code"}] * 3, "on_failure": "fail_fast"})
    await planting.submit(house.queue.shard, planting_of(plan, house.queue.drafter))
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.fail(permanent=True)
    return plan.id


async def cancel(house: House, dag: DagId) -> int:
    return await dags.cancel(house.queue.shard, dag, "why")


async def ended(house: House) -> DagId:
    dag = await submitted(house)
    await house.client.hset(house.keys.unfinished(), f"follow {dag.ulid}", "0")
    return dag


async def gone(house: House) -> None:
    dag = await submitted(house)
    await house.client.delete(house.keys.dag(dag.ulid))


async def listed(house: House, _: Any) -> int:
    return len([dag async for dag in dags.walk(house.queue.shard)])


async def ranked(house: House, dag: DagId) -> None:
    tasks = await dags.members(house.queue.shard, dag)
    await ranking.rank(house.queue.shard, dag, [(task, 7) for task in tasks], seen="1")


async def running(house: House) -> Lease:
    return await house.running()


async def spawn(house: House, lease: Lease, wait: Wait, number: int = 2) -> bool:
    draft, ids = house.queue.drafter.draft({"type": "code"}), new_task_ids(number)
    seeds = [Seedling(f"k{at}", id, draft) for at, id in enumerate(ids)]
    grown = await spawning.spawn(house.queue.shard, lease.held, seeds, wait=wait)
    return grown.suspended


CASES: dict[str, list[Row]] = {
    "dag/submit": [(nothing, submit)],
    "dag/commit": [(nothing, submit)],
    "dag/drop": [(half_written, lambda house, dag: planting.drop(house.queue.shard, dag))],
    "dag/cancel": [(given, cancel) for given in (submitted, paused, wide, failed_fast)],
    "dag/hold": [(submitted, lambda house, dag: dags.pause(house.queue.shard, dag))],
    "dag/unhold": [(paused, lambda house, dag: dags.resume(house.queue.shard, dag))],
    "dag/forget": [(given_up, lambda house, dag: dags.forget(house.queue.shard, dag))],
    "dag/rank": [(submitted, ranked)],
    "dag/follow": [
        (submitted, lambda house, dag: dags.followed(house.queue.shard, dag)),
        (ended, lambda house, dag: dags.followed(house.queue.shard, dag, refused="why")),
    ],
    "dag/budget": [(submitted, lambda house, dag: dags.set_budget(house.queue.shard, dag, 2.5))],
    "dag/list": [(gone, listed)],
    "dag/spawn": [
        (running, lambda house, lease: spawn(house, lease, "")),
        (running, lambda house, lease: spawn(house, lease, "success")),
        (running, lambda house, lease: spawn(house, lease, "done")),
        (running, lambda house, lease: spawn(house, lease, "success", 2 * spawning.PAGE)),
    ],
}
READS = {"dag/read", "dag/edges", "dag/steps"}
