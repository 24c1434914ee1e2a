"""budget: what all tasks of a DAG together may cost."""

from __future__ import annotations

from rqueue.dags import store as dag_store
from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, StoredDag, committed_dag, unsent_dag
from tests.lua.task.keyspace import run_move


async def budget(dag: StoredDag, micro_usd: int | str) -> list[object]:
    args = {"dag": dag.ulid, "micro_usd": micro_usd, "limit": 9, "tries": 9}
    return await run_move(dag.harness, "dag/budget", args)


async def test_the_budget_of_a_dag_is_stored_and_removed(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    before = await dag.after()

    assert await budget(dag, 1_500_000) == ["OK", 0]
    after = await dag.after()
    assert after == before | {"dag:D": before["dag:D"] | {"budget": "1500000"}}
    assert (
        await dag_store.read(harness.queue._internals.shard, dag.draft.id)
    ).spec.budget_usd == 1.5

    assert await budget(dag, "") == ["OK", 0]
    assert await dag.after() == before


async def test_an_uncommitted_dag_is_gone(harness: Harness) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()
    before = await harness.dump()

    assert await budget(dag, 1) == ["GONE"]
    assert await budget(unsent_dag(harness, DIAMOND), 1) == ["GONE"]
    assert await harness.dump() == before
