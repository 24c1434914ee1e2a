"""steps: unfinished operations on DAGs are listed, whichever client began them."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, committed_dag, fan, unsent_dag
from tests.lua.task.keyspace import run_move


async def steps(harness: Harness, limit: int = 100, idle_ms: int = 60_000) -> dict[str, str]:
    reply = await run_move(harness, "dag/steps", {"limit": limit, "idle_ms": idle_ms})
    assert reply[0] == "OK"
    return dict(zip(reply[1::2], reply[2::2], strict=True))


async def test_without_unfinished_operations_the_list_is_empty(harness: Harness) -> None:
    await committed_dag(harness, DIAMOND)

    assert await steps(harness) == {}


async def test_every_operation_is_listed_with_its_dag_and_position(harness: Harness) -> None:
    one, two = [await unsent_dag(harness, fan(5, to_one=True)).written() for _ in range(2)]
    await one.commit(limit=2)
    await two.commit()
    await two.pause(limit=3)

    assert await steps(harness) == {f"commit {one.ulid}": "2", f"hold {two.ulid}": "3"}
    assert len(await steps(harness, limit=1)) == 1


async def test_an_uncommitted_dag_of_a_silent_producer_is_listed_as_a_drop(
    harness: Harness,
) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()
    assert await steps(harness) == {}

    await harness.client.zadd(harness.keys.writing(), {dag.ulid: 1})

    assert await steps(harness) == {f"drop {dag.ulid}": "0"}


async def test_a_read_changes_nothing(harness: Harness) -> None:
    dag = await unsent_dag(harness, fan(5)).written()
    await dag.commit(limit=2)
    before = await harness.dump()

    await steps(harness)

    assert await harness.dump() == before
