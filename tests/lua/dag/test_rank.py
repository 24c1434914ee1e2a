"""rank: the score of a task moves by the change of its part for the critical path."""

from __future__ import annotations

import pytest

from tests.harness import Harness
from tests.lua.dag.dags import StoredDag, committed_dag, run, settled
from tests.lua.rows import BASE
from tests.lua.task.keyspace import run_move

PAIR = {"a": [], "b": ["a"]}


async def ranked(dag: StoredDag, seen: str = "", **ranks: int) -> list[object]:
    rows = [(dag.ids[name].ulid, rank) for name, rank in ranks.items()]
    return await run_move(dag.harness, "dag/rank", {"dag": dag.ulid, "seen": seen}, rows)


async def place(dag: StoredDag, name: str) -> tuple[str | None, ...]:
    """The rank and the score of a task."""
    key = dag.harness.keys.task(dag.ids[name].ulid)
    found = await dag.harness.client.hmget(key, "rank", "score")
    return tuple(None if one is None else one.decode() for one in found)


async def test_a_task_moves_in_its_lane(harness: Harness) -> None:
    dag = await committed_dag(harness, PAIR)

    assert await ranked(dag, a=7, b=3) == ["OK"]

    assert await place(dag, "a") == ("7", str(BASE - 7))
    assert await place(dag, "b") == ("3", str(BASE - 3))
    assert await harness.client.zscore(harness.keys.lane(1), dag.ids["a"].ulid) == BASE - 7
    assert await harness.client.zcard(harness.keys.lane(1)) == 1


async def test_only_the_difference_counts(harness: Harness) -> None:
    dag = await committed_dag(harness, PAIR)
    await ranked(dag, a=7)

    await ranked(dag, a=2)

    assert await place(dag, "a") == ("2", str(BASE - 2))


async def test_a_priority_set_meanwhile_still_counts(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    await ranked(dag, a=7)
    await harness.queue.set_priority(dag.ids["a"], 10)

    await ranked(dag, a=2)

    assert (await place(dag, "a"))[1] == str(10_000_000 - 2)


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    dag = await committed_dag(harness, PAIR)
    await ranked(dag, a=7)
    before = await harness.dump()

    assert await ranked(dag, a=7) == ["OK"]
    assert await harness.dump() == before


async def test_ended_and_held_tasks_enter_no_lane(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": []})
    await run(dag, a="done")
    await dag.pause()

    await ranked(dag, a=7, b=7)

    assert (await place(dag, "a"))[1] == str(BASE)
    assert (await place(dag, "b"))[1] == str(BASE - 7)
    assert "lane:1" not in await dag.after()


@pytest.mark.parametrize(("seen", "left"), [("1", False), ("2", True), ("", True)])
async def test_a_change_since_the_read_is_left_to_the_next_call(
    harness: Harness, seen: str, left: bool
) -> None:
    dag = await committed_dag(harness, PAIR)
    await harness.client.hset(harness.keys.unfinished(), f"rank {dag.ulid}", 1)

    await ranked(dag, seen, a=7)

    assert ("unfinished" in await dag.after()) is left


async def test_the_services_rank_a_dag_that_has_grown(harness: Harness) -> None:
    parent = (await harness.queue.enqueue("code")).id
    alone = (await harness.queue.enqueue("code")).id
    await harness.queue.enqueue("code", {}, depends_on=[parent])

    await settled(harness)

    first = await harness.client.zrange(harness.keys.lane(1), 0, -1)
    assert [task.decode() for task in first] == [parent.ulid, alone.ulid]
    assert int(await harness.client.hget(harness.keys.task(parent.ulid), "rank")) > 0
    assert not await harness.client.exists(harness.keys.unfinished())
