"""list: the DAGs of the queue, the newest first."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, committed_dag, unsent_dag
from tests.lua.task.keyspace import run_move


async def listed(harness: Harness, start: int = 0, limit: int = 10) -> tuple[int, list[str]]:
    """How many were checked, and the existing ones."""
    _, looked, *rows = await run_move(harness, "dag/list", {"from": start, "limit": limit})
    return looked, rows[::2]


async def aged(harness: Harness, *dags: str) -> None:
    """Sets commit times of DAGs one after the other."""
    await harness.client.zadd(harness.keys.dags(), {dag: at for at, dag in enumerate(dags, 1)})


async def test_the_newest_dag_comes_first(harness: Harness) -> None:
    one, two, three = [(await committed_dag(harness, DIAMOND, title=name)).ulid for name in "abc"]
    await aged(harness, one, two, three)

    assert await listed(harness) == (3, [three, two, one])
    assert await listed(harness, 1, 1) == (1, [two])
    reply = await run_move(harness, "dag/list", {"from": 0, "limit": 1})
    assert reply[3][reply[3].index("title") + 1] == "c"


async def test_an_uncommitted_dag_is_not_listed(harness: Harness) -> None:
    await unsent_dag(harness, DIAMOND).written()

    assert await listed(harness) == (0, [])


async def test_a_single_task_is_not_listed_until_another_joins_it(harness: Harness) -> None:
    parent = (await harness.queue.enqueue("code")).id
    assert await listed(harness) == (0, [])

    await harness.queue.enqueue("code", {}, depends_on=[parent])

    assert await listed(harness) == (1, [parent.ulid])


async def test_expired_dags_leave_the_list(harness: Harness) -> None:
    one, two = [(await committed_dag(harness, DIAMOND)).ulid for _ in range(2)]
    await aged(harness, one, two)
    await harness.client.delete(harness.keys.dag(two))

    assert await listed(harness) == (2, [one])
    assert await listed(harness) == (1, [one])
