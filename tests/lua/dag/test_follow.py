"""follow: the DAG that comes after one that has completed, until it is committed."""

from __future__ import annotations

import pytest

from rqueue.dags import submit as dag_submit
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.dag.dags import StoredDag, committed_dag, run, unsent_dag
from tests.lua.task.keyspace import expiring_keys, run_move

FOLLOWER = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def follow(dag: StoredDag, done: int = 0, refused: str = "") -> list[object]:
    args: dict[str, Argument] = {"dag": dag.ulid, "done": done, "refused": refused, "events": 100}
    return await run_move(dag.harness, "dag/follow", args)


async def followed(harness: Harness, on_failure: str = "hold") -> StoredDag:
    """A DAG of two tasks that another follows."""
    dag = unsent_dag(harness, {"a": [], "b": []}, follow='{"x":1}', on_failure=on_failure)
    facts = [*dag.draft.facts, "follow", FOLLOWER]
    dag = StoredDag(harness, dag.draft._replace(facts=facts), dag.ids)
    await dag_submit.submit(harness.queue._internals.shard, dag.draft)
    return dag


async def test_a_completion_schedules_the_step_and_keeps_the_document(harness: Harness) -> None:
    dag = await followed(harness)
    assert "follow" not in await dag.steps()

    await run(dag, a="done", b="done")

    assert await dag.steps() == {"forget": "0", "follow": "0"}
    assert await follow(dag) == ["OK", '{"x":1}']


async def test_a_done_step_is_removed(harness: Harness) -> None:
    dag = await followed(harness)
    await run(dag, a="done", b="done")

    assert await follow(dag, 1) == ["OK", ""]
    assert await follow(dag, 1) == ["OK", ""]

    assert await dag.steps() == {"forget": "0"}


async def test_a_refusal_is_stored_and_emitted_once(harness: Harness) -> None:
    dag = await followed(harness)
    await run(dag, a="done", b="done")
    before = await dag.after()

    assert await follow(dag, 1, "no room") == ["OK", ""]
    once = await dag.after()
    assert await follow(dag, 1, "no room") == ["OK", ""]

    assert await dag.after() == once
    assert await dag.steps() == {"forget": "0"}
    assert await dag.field("refused") == "no room"
    refusal = {"event": "dag.refused", "dag": FOLLOWER, "detail": "no room"}
    assert once["events"] == [*before["events"], refusal]
    changed = {name for name in before if once.get(name) != before[name]}
    assert changed == {"dag:D", "events", "unfinished"}


async def test_a_committed_follow_up_is_not_refused_by_another_client(harness: Harness) -> None:
    dag = await followed(harness)
    await run(dag, a="done", b="done")
    await follow(dag, 1)
    before = await harness.dump()

    await follow(dag, 1, "too late")

    assert await harness.dump() == before


async def test_nothing_expires_before_the_following_dag_is_committed(harness: Harness) -> None:
    dag = await followed(harness)
    await run(dag, a="done", b="done")

    assert await dag.forget() == ["OK", 0]
    assert await dag.steps() == {"forget": "0", "follow": "0"}
    assert await expiring_keys(harness, **dag.names) == set()
    await follow(dag, 1)
    await dag.forget()

    assert await dag.steps() == {}
    assert {"dag:D", "follow:D"} < await expiring_keys(harness, **dag.names)


@pytest.mark.parametrize("end", ["cancelled", "discarded"])
async def test_a_dag_that_did_not_complete_has_no_follow_up(harness: Harness, end: str) -> None:
    dag = await followed(harness, on_failure="fail_fast")
    if end == "cancelled":
        await dag.cancel("no need")
    else:
        await run(dag, a="dead")
        await dag.cancel()
        await harness.queue.dead.discard(dag.ids["a"])

    assert await dag.field("finished") is not None
    assert "follow" not in await dag.steps()


async def test_a_dag_without_a_follow_up_has_no_document(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    before = await harness.dump()

    assert await follow(dag) == ["OK", ""]
    assert await harness.dump() == before
