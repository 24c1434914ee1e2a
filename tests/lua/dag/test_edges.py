"""edges: the dependencies of the unfinished tasks of a DAG, in pages."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.dags import store as dag_store
from rqueue.errors import DagNotFound
from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, StoredDag, committed_dag, fan, run, unsent_dag
from tests.lua.task.keyspace import run_move


async def edges(dag: StoredDag, start: int = 0, limit: int = 100) -> list[Any]:
    """The reply, tasks by their names."""
    args: dict[str, Any] = {"dag": dag.ulid, "from": start, "limit": limit}
    names = {task.ulid: name for name, task in dag.ids.items()}
    reply = await run_move(dag.harness, "dag/edges", args)
    return [
        " ".join(sorted(names.get(part, part) for part in str(word).split()))
        if isinstance(word, str)
        else word
        for word in reply
    ]


async def test_each_task_has_its_rank_and_dependencies(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    before = await harness.dump()

    assert await edges(dag) == ["OK", "", "a", "0", "", "b", "0", "a", "c", "0", "a",
        "d", "0", "b c"]  # fmt: skip
    assert await harness.dump() == before


async def test_ended_tasks_are_skipped(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    await run(dag, a="done", b="dead")

    assert await edges(dag) == ["OK", "", "c", "0", "", "d", "0", "b c"]


async def test_a_page_ends_at_its_limit(harness: Harness) -> None:
    dag = await committed_dag(harness, fan(3, to_one=True))

    pages = [(await edges(dag, start, 3))[1:3] for start in (0, 3)]

    assert pages == [[3, "0"], ["", "end"]]
    found = await dag_store.edges(harness.queue._internals.shard, dag.draft.id)
    assert [len(one.dependencies) for one in found] == [0, 0, 0, 3]


async def test_all_pages_are_read(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    dag = await committed_dag(harness, DIAMOND)
    monkeypatch.setattr(dag_store, "CHUNK", 1)

    found = await dag_store.edges(harness.queue._internals.shard, dag.draft.id)

    assert [one.task for one in found] == [task.ulid for task in dag.ids.values()]


async def test_an_uncommitted_dag_is_gone(harness: Harness) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()

    assert await edges(dag) == ["GONE"]
    with pytest.raises(DagNotFound):
        await dag_store.edges(harness.queue._internals.shard, dag.draft.id)
