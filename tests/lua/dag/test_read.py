"""read: a DAG at one moment, and its tasks page by page."""

from __future__ import annotations

from typing import Any

from rqueue.dags import store as dag_store
from rqueue.task.dag import DagStatus
from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, StoredDag, committed_dag, run, unsent_dag


async def read(dag: StoredDag, start: int = 0, limit: int = 10) -> list[Any]:
    args: dict[str, Any] = {"dag": dag.ulid, "from": start, "limit": limit}
    reply = await dag.harness.queue._internals.shard.run("dag/read", args)
    return list(reply)


async def test_the_hash_and_the_tasks_are_returned(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND, title="T", threshold="0.5", budget=5_000_000)
    await run(dag, a="done", b="dead")

    word, _, page = await read(dag, 1, 2)

    assert word == b"OK"
    assert [task.decode() for task in page] == [dag.ids[name].ulid for name in "bc"]
    view = await dag_store.read(harness.queue._internals.shard, dag.draft.id)
    assert (view.status, view.total, view.open, view.dead, view.completed, view.edges) == (
        DagStatus.FAILED, 4, 2, 1, 1, 4,
    )  # fmt: skip
    assert (view.spec.title, view.spec.failure_threshold, view.spec.budget_usd) == (
        "T",
        0.5,
        5.0,
    )


async def test_tasks_are_returned_in_the_order_they_were_written(harness: Harness) -> None:
    dag = await committed_dag(harness, {str(at): [] for at in range(501)})

    found = await dag_store.members(harness.queue._internals.shard, dag.draft.id)

    assert found == [task.ulid for task in dag.ids.values()]


async def test_an_uncommitted_dag_is_gone(harness: Harness) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()

    assert await read(dag) == [b"GONE"]
    assert await read(unsent_dag(harness, DIAMOND)) == [b"GONE"]


async def test_a_read_changes_nothing(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    before = await harness.dump()

    await read(dag)

    assert await harness.dump() == before
