"""list: the DAGs of the queue, the newest first."""

from __future__ import annotations

from tests.house import House
from tests.lua.dag.planted import DIAMOND, a_plant, planted
from tests.lua.task.afterwards import ask


async def listed(house: House, start: int = 0, limit: int = 10) -> tuple[int, list[str]]:
    """How many were looked at, and those that were there."""
    _, looked, *rows = await ask(house, "dag/list", {"from": start, "limit": limit})
    return looked, rows[::2]


async def aged(house: House, *dags: str) -> None:
    """Lets DAGs look as if they had been committed one after the other."""
    await house.client.zadd(house.keys.dags(), {dag: at for at, dag in enumerate(dags, 1)})


async def test_the_newest_comes_first(house: House) -> None:
    one, two, three = [(await planted(house, DIAMOND, title=name)).dag for name in "abc"]
    await aged(house, one, two, three)

    assert await listed(house) == (3, [three, two, one])
    assert await listed(house, 1, 1) == (1, [two])
    reply = await ask(house, "dag/list", {"from": 0, "limit": 1})
    assert reply[3][reply[3].index("title") + 1] == "c"


async def test_what_is_still_written_is_not_listed(house: House) -> None:
    await a_plant(house, DIAMOND).written()

    assert await listed(house) == (0, [])


async def test_a_task_alone_is_not_listed_until_another_joins_it(house: House) -> None:
    parent = (await house.queue.enqueue("code")).id
    assert await listed(house) == (0, [])

    await house.queue.enqueue("code", {}, depends_on=[parent])

    assert await listed(house) == (1, [parent.ulid])


async def test_those_that_are_gone_leave_the_list(house: House) -> None:
    one, two = [(await planted(house, DIAMOND)).dag for _ in range(2)]
    await aged(house, one, two)
    await house.client.delete(house.keys.dag(two))

    assert await listed(house) == (2, [one])
    assert await listed(house) == (1, [one])
