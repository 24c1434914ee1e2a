"""mend: what a crash removed from a DAG's indexes is put back; a healthy DAG is not changed."""

from __future__ import annotations

import pytest

from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.dag.dags import StoredDag, committed_dag, fan, run, running, settled, unsent_dag
from tests.lua.task.keyspace import run_move

TRIGGERED = {"a": [], "x": ["a"]}


async def mended(dag: StoredDag) -> int:
    """How many repairs the sweep makes in a DAG."""
    rows = [(task.ulid,) for task in dag.ids.values()]
    reply = await run_move(dag.harness, "repair/mend", {"parents": 100}, rows)
    found: int = reply[1]
    return found


async def test_a_healthy_dag_is_not_changed_at_any_moment(harness: Harness) -> None:
    edges = {"a": [], "b": ["a"], "x": ["a", "b"], "y": ["a"], "z": ["b"]}
    more = {"x": {"trigger": "all_done"}, "y": {"trigger": "one_failed"}}
    dag = await unsent_dag(harness, edges, more=more, options={"z": {"delay": 60_000}}).written()
    found = [await mended(dag)]
    await dag.commit(limit=2)
    found.append(await mended(dag))
    await dag.commit(total="")
    await dag.pause()
    found.append(await mended(dag))
    await dag.resume()
    (lease,) = await running(harness)
    found.append(await mended(dag))
    await lease.fail(permanent=True)
    found.append(await mended(dag))
    await harness.promoter.tick()
    found.append(await mended(dag))
    await harness.queue.dead.retry(dag.ids["a"])
    await run(dag, a="done")
    found.append(await mended(dag))
    await dag.cancel("no need", limit=2)
    found.append(await mended(dag))
    await settled(harness)
    found.append(await mended(dag))

    assert found == [0] * 9
    assert await harness.client.hget(harness.keys.stats(), "repaired") is None


@pytest.mark.parametrize("step", [1, 2])
async def test_an_unfinished_cascade_is_not_changed(harness: Harness, step: int) -> None:
    dag = await committed_dag(harness, fan(5))
    how = '{"archive":"0","ttl":9,"events":9}'
    args: dict[str, Argument] = {
        "reason": "", "dependents": "cascade", "limit": 2, "how": how, "request": "r",
        **ANSWER_LIMITS,
    }  # fmt: skip
    await run_move(harness, "task/cancel", args, [(dag.ids["a"].ulid,)])
    for _ in range(step):
        await run_move(harness, "task/cancel", args)
    before = await harness.dump()

    assert await mended(dag) == 0
    assert await harness.dump() == before


async def test_a_one_failed_task_without_a_failure_is_left_to_its_cancellation(
    harness: Harness,
) -> None:
    dag = await committed_dag(harness, TRIGGERED, more={"x": {"trigger": "one_failed"}})
    await run(dag, a="done")
    assert "x" in (await dag.after())["cancelling"]
    before = await harness.dump()

    assert await mended(dag) == 0
    assert await harness.dump() == before


async def test_a_lost_triggered_dependent_is_registered_again(harness: Harness) -> None:
    dag = await committed_dag(harness, TRIGGERED, more={"x": {"trigger": "all_done"}})
    await harness.client.delete(harness.keys.triggered(dag.ids["a"].ulid))

    assert await mended(dag) == 1

    assert (await dag.after())["heirs:a"] == {"x": "all_done"}
    await run(dag, a="done")
    assert (await dag.states())["x"] == "READY"


async def test_an_unresolved_end_is_resolved(harness: Harness) -> None:
    dag = await committed_dag(harness, TRIGGERED, more={"x": {"trigger": "all_done"}})
    await run(dag, a="dead")
    await harness.client.delete(harness.keys.telling())

    assert await mended(dag) == 1
    await harness.promoter.tick()

    assert (await dag.states())["x"] == "READY"
    assert await mended(dag) == 0


async def test_a_skipped_task_that_was_lost_is_cancelled(harness: Harness) -> None:
    dag = await committed_dag(harness, TRIGGERED, more={"x": {"trigger": "one_failed"}})
    await run(dag, a="done")
    await harness.client.delete(harness.keys.cancelling())

    assert await mended(dag) == 1
    await harness.promoter.tick()

    assert (await dag.states())["x"] == "CANCELLED"


async def test_a_lost_commit_is_continued(harness: Harness) -> None:
    dag = await unsent_dag(harness, fan(5, to_one=True)).written()
    await dag.commit(limit=1)
    await harness.client.delete(harness.keys.unfinished(), harness.keys.fresh(dag.ulid))

    for _ in range(4):
        assert await mended(dag) == 1
        await settled(harness)

    assert await dag.counted() == {"READY": 5, "PENDING": 1}


@pytest.mark.parametrize("torn", ["writing", "dag", "members"])
async def test_a_partly_written_dag_that_lost_its_index_is_dropped(
    harness: Harness, torn: str
) -> None:
    dag = await unsent_dag(harness, fan(5)).written()
    lost = {
        "writing": [harness.keys.writing()],
        "dag": [harness.keys.dag(dag.ulid)],
        "members": [harness.keys.dag(dag.ulid), harness.keys.members(dag.ulid)],
    }[torn]
    await harness.client.delete(*lost)

    assert await mended(dag) > 0
    await harness.client.zadd(harness.keys.writing(), {dag.ulid: 1})
    await settled(harness)

    assert set(await dag.after()) == {"lanes", "stats"}


async def test_a_task_neither_held_nor_in_its_lane_is_repaired(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    await dag.pause()
    await harness.client.delete(harness.keys.held(dag.ulid))

    assert await mended(dag) == 1

    assert (await dag.after())["lane:1"] == ["a"]
    assert await harness.queue.claim(worker="w1") == []
    await dag.resume()
    assert len(await harness.queue.claim(worker="w1")) == 1


@pytest.mark.parametrize("held", [False, True])
async def test_a_lost_cancellation_is_continued(harness: Harness, held: bool) -> None:
    dag = await committed_dag(harness, {"a": [], "b": ["a"], "c": [], "d": []})
    await dag.cancel("no need", limit=1)
    if held:
        assert await harness.queue.claim(worker="w1", n=9) == []
    await harness.client.delete(harness.keys.unfinished(), harness.keys.cancelling())

    assert await mended(dag) == 2
    await settled(harness)

    assert await dag.counted() == {"CANCELLED": 4}
    assert await dag.facts() == ("cancelled", "0", "0", "4")
