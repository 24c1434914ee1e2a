"""drop: of a DAG that was never committed nothing is left, wherever its writing stopped."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.dags import store as dag_store
from rqueue.dags import submit as dag_submit
from rqueue.errors import InvalidGraph
from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, StoredDag, committed_dag, fan, running, settled, unsent_dag
from tests.lua.rows import submitted

MORE = {"ext": "own", "tags": ["t"], "deadline": 99}


async def keys(harness: Harness) -> set[str]:
    return set(await harness.dump())


async def dropped(dag: StoredDag, *, limit: int = 250) -> None:
    """Calls it until the reply has no more."""
    while (await dag.drop(limit=limit))[1]:
        pass


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
async def test_a_crash_after_any_part_leaves_no_key(harness: Harness, parts: int) -> None:
    outside = await submitted(harness)
    dag = unsent_dag(
        harness, fan(450, to_one=True), more={"0": MORE}, outside={"1": [outside]}, follow="{}"
    )
    assert len(dag.parts()) >= 4
    before = await keys(harness)
    for rows in dag.parts()[:parts]:
        await dag.write(rows)

    await dropped(dag)

    assert await keys(harness) == before
    assert (await dag.after())["stats"] == {"submitted": 1}


async def test_an_outside_dependency_loses_its_dropped_dependent(harness: Harness) -> None:
    parent = await submitted(harness)
    more = {"b": {"trigger": "all_done"}}
    dag = unsent_dag(harness, {"a": [], "b": []}, more=more, outside={"a": [parent], "b": [parent]})
    await dag.written()
    assert {f"dependents:{parent}", f"heirs:{parent}"} <= set(await dag.after())

    await dropped(dag)

    assert not {f"dependents:{parent}", f"heirs:{parent}"} & set(await dag.after())


@pytest.mark.parametrize("state", ["dead", "cancelled", "gone"])
async def test_an_external_id_is_restored(harness: Harness, state: str) -> None:
    task = await submitted(harness, more={"ext": "own"})
    (lease,) = await running(harness)
    await (lease.fail(permanent=True) if state == "dead" else harness.queue.cancel(lease.id))
    name = harness.keys.external("own")
    before = await harness.client.pttl(name)
    dag = await unsent_dag(harness, {"a": []}, more={"a": {"ext": "own"}}).written()
    if state == "gone":
        await harness.client.delete(harness.keys.task(task))

    await dropped(dag)

    found = await harness.client.get(name)
    assert found == (None if state == "gone" else task.encode())
    if state != "gone":
        left = await harness.client.pttl(name)
        assert (left == -1) if state == "dead" else 0 < left <= before


async def test_a_refused_dag_restores_an_external_id_to_the_dead_task_that_had_it(
    harness: Harness,
) -> None:
    dead = await harness.queue.enqueue("code", external_id="mine")
    (lease,) = await running(harness)
    await lease.fail(permanent=True)
    await harness.queue.enqueue("code", external_id="other")
    rows: list[dict[str, str]] = [{"type": "code"} for _ in range(400)]
    rows[0]["external_id"], rows[-1]["external_id"] = "mine", "other"
    before = await keys(harness)

    with pytest.raises(InvalidGraph):
        await harness.queue.dags.submit({"tasks": rows})

    assert await keys(harness) == before
    assert (await harness.queue.get("mine")).id == dead.id


async def test_a_committed_task_does_not_store_the_earlier_holder_of_its_external_id(
    harness: Harness,
) -> None:
    await submitted(harness, more={"ext": "own"})
    (lease,) = await running(harness)
    await lease.fail(permanent=True)

    dag = await committed_dag(harness, {"a": []}, more={"a": {"ext": "own"}})

    found = await dag.after()
    assert "namesake" not in found["task:a"]
    assert found["ext:own"] == "a"


async def test_a_drop_takes_bounded_steps(harness: Harness) -> None:
    dag = await unsent_dag(harness, fan(5)).written()

    reply = [await dag.drop(limit=4) for _ in range(4)]

    # One and its edge are two.
    assert reply == [["OK", 1], ["OK", 1], ["OK", 0], ["OK", 0]]

    assert set(await dag.after()) == {"lanes", "stats"}


async def test_a_dag_that_is_submitted_again_during_its_drop_is_complete(harness: Harness) -> None:
    dag = await unsent_dag(harness, fan(5)).written()
    await dag.drop(limit=2)
    assert await dag.write(dag.parts()[0]) == ["STATE", "dropping"]

    await dag_submit.submit(harness.queue._internals.shard, dag.draft)

    assert await dag.counted() == {"READY": 1, "PENDING": 5}
    assert [await dag.field(name) for name in ("total", "open", "edges")] == ["6", "6", "5"]
    assert len((await dag.after())["dependents:a"]) == 5


async def test_a_wide_dag_that_is_submitted_again_during_its_drop_has_all_edges(
    harness: Harness,
) -> None:
    outside = [await submitted(harness) for _ in range(3)]
    dag = await unsent_dag(harness, {"a": [], "b": ["a"]}, outside={"b": outside}).written()
    assert [await dag.drop(limit=2) for _ in range(2)] == [["OK", 1], ["OK", 1]]

    await dag_submit.submit(harness.queue._internals.shard, dag.draft)

    assert sorted((await dag.after())["waits:b"]) == sorted(["a", *outside])
    assert await dag.field("edges") == "4"


async def test_a_refused_wide_dag_leaves_no_key(harness: Harness) -> None:
    await harness.queue.enqueue("code", external_id="mine")
    before = await keys(harness)
    names = [str(at) for at in range(2500)]
    rows: list[dict[str, Any]] = [{"type": "code", "name": name} for name in names]
    rows[0]["external_id"] = "mine"

    with pytest.raises(InvalidGraph, match="its external_id is that"):
        await harness.queue.dags.submit({"tasks": [*rows, {"type": "code", "after": names}]})

    assert await keys(harness) == before


async def test_a_committed_dag_is_not_dropped(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    before = await harness.dump()

    assert await dag.drop() == ["STATE", "pending"]
    assert await harness.dump() == before


async def test_a_dag_that_was_written_recently_is_not_dropped_by_the_services(
    harness: Harness,
) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()
    before = await harness.dump()

    assert await dag.drop(idle_ms=60_000) == ["OK", 0]
    assert await harness.dump() == before


async def test_the_services_drop_an_abandoned_dag(harness: Harness) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()
    await settled(harness)
    assert (await harness.queue.counts())[State.PENDING] == 0
    assert await dag.counted() == {"CREATED": 1, "PENDING": 3}

    await harness.client.zadd(harness.keys.writing(), {dag.ulid: 1})
    await settled(harness)

    assert set(await dag.after()) == {"lanes", "stats"}


async def test_dropping_an_unknown_dag_succeeds(harness: Harness) -> None:
    dag = unsent_dag(harness, DIAMOND)

    assert await dag.drop() == ["OK", 0]
    assert await harness.dump() == {}
    assert await dag_store.steps(harness.queue._internals.shard) == []
