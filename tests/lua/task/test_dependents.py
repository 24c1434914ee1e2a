"""dependents: who waits for a task, however that is kept; it changes nothing."""

from __future__ import annotations

from rqueue.store.resolving import dependents
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import ask
from tests.lua.task.test_discard import dead


async def test_who_waits_for_a_completion_or_for_any_end_is_told(house: House) -> None:
    task = (await house.queue.enqueue("code")).id
    ids = [(await house.queue.enqueue("code", depends_on=[task])).id for _ in range(2)]
    ids.append((await house.queue.enqueue("code", depends_on=[task], trigger="all_done")).id)
    before = await house.dump()

    number, found = await dependents(house.queue.shard, task.ulid, limit=10)

    assert (number, set(found)) == (3, set(ids))
    assert await house.dump() == before


async def test_the_one_that_a_task_of_a_dag_names_itself_is_told(house: House) -> None:
    async with house.queue.dag() as dag:
        first = dag.add({"type": "code", "payload": {}})
        dag.add({"type": "code", "payload": {}}, after=[first])
    one, two = (await house.queue.dag_desk.graph(dag.id)).tasks

    assert await dependents(house.queue.shard, one[-26:], limit=10) == (1, [two])


async def test_only_some_of_many_are_named(house: House) -> None:
    task = await dead(house)
    for _ in range(5):
        await house.queue.enqueue("code", depends_on=[task])

    number, found = await dependents(house.queue.shard, task.ulid, limit=2)

    assert (number, len(found)) == (5, 2)


async def test_nobody_waits_for_what_is_not_there(house: House) -> None:
    args: dict[str, Argument] = {"task": "0" * 26, "limit": 5}

    assert await ask(house, "task/dependents", args) == ["OK", 0]
