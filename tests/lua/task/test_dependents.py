"""dependents: the tasks that wait for a task, however they are stored; nothing is changed."""

from __future__ import annotations

from rqueue.dead.store import dependents
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import run_move
from tests.lua.task.test_discard import dead


async def test_plain_and_triggered_dependents_are_listed(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id
    ids = [(await harness.queue.enqueue("code", depends_on=[task])).id for _ in range(2)]
    ids.append((await harness.queue.enqueue("code", depends_on=[task], trigger="all_done")).id)
    before = await harness.dump()

    number, found = await dependents(harness.queue._internals.shard, task.ulid, limit=10)

    assert (number, set(found)) == (3, set(ids))
    assert await harness.dump() == before


async def test_an_only_dependent_in_the_hash_is_listed(harness: Harness) -> None:
    async with harness.queue.dag() as dag:
        first = dag.add({"type": "code", "payload": {}})
        dag.add({"type": "code", "payload": {}}, after=[first])
    one, two = (await harness.queue.dags.show(dag.id)).tasks

    assert await dependents(harness.queue._internals.shard, one[-26:], limit=10) == (1, [two])


async def test_only_a_limited_number_is_listed(harness: Harness) -> None:
    task = await dead(harness)
    for _ in range(5):
        await harness.queue.enqueue("code", depends_on=[task])

    number, found = await dependents(harness.queue._internals.shard, task.ulid, limit=2)

    assert (number, len(found)) == (5, 2)


async def test_an_unknown_task_has_no_dependents(harness: Harness) -> None:
    args: dict[str, Argument] = {"task": "0" * 26, "limit": 5}

    assert await run_move(harness, "task/dependents", args) == ["OK", 0]
