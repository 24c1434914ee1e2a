"""Interrupted operations on DAGs are continued by any process."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rqueue import DagStatus, Plan, State
from rqueue.dags import store as dag_store
from rqueue.dags import submit as dag_submit
from rqueue.dags.plan import dag_draft_of
from rqueue.dags.resumer import STEPS, ResumedSteps, Resumer
from rqueue.errors import DagNotFound, InvalidGraph, Overloaded
from rqueue.producer.drafts import Drafter
from rqueue.testing.timeline import ManualClock
from tests.harness import Harness, opened
from tests.lua.dag.dags import DIAMOND, StoredDag, committed_dag, fan, run, unsent_dag
from tests.servers import Server


def resumer_of(harness: Harness) -> Resumer:
    return Resumer(harness.queue._internals.shard, harness.queue._internals.drafter)


async def status_of(harness: Harness, plant: StoredDag) -> DagStatus:
    return (await dag_store.read(harness.queue._internals.shard, plant.draft.id)).status


async def test_an_interrupted_commit_is_finished(harness: Harness) -> None:
    plant = unsent_dag(harness, fan(600, to_one=True))
    await plant.written()
    assert await plant.commit(limit=250) == ["OK", 1]

    assert await resumer_of(harness).tick() == ResumedSteps(1, 0)

    assert await plant.counted() == {"READY": 600, "PENDING": 1}
    assert await plant.steps() == {}


async def test_an_abandoned_submission_is_dropped_and_an_active_one_is_not(
    harness: Harness,
) -> None:
    left, busy = unsent_dag(harness, fan(300)), unsent_dag(harness, DIAMOND)
    await left.written()
    await busy.written()
    await harness.client.zadd(harness.keys.writing(), {left.ulid: 1})

    assert await resumer_of(harness).tick() == ResumedSteps(1, 0)

    assert await left.states() == {}
    assert list(await busy.states()) == list(DIAMOND)
    assert (await harness.queue.counts())[State.PENDING] == 0


async def test_an_interrupted_cancellation_cancels_the_whole_dag(harness: Harness) -> None:
    plant = await committed_dag(harness, {**fan(400), "other": []}, on_failure="fail_fast")
    await run(plant, other="dead")
    assert await plant.steps() == {"cancel": "0"}

    await resumer_of(harness).tick()

    assert await plant.counted() == {"CANCELLED": 401, "DEAD_LETTERED": 1}
    assert await status_of(harness, plant) is DagStatus.FAILED


async def test_outputs_expire_only_after_the_dag_has_ended(harness: Harness) -> None:
    plant = await committed_dag(harness, DIAMOND)
    await run(plant, a="done")
    assert await harness.client.pttl(harness.keys.task(plant.ids["a"].ulid)) == -1

    await run(plant, b="done", c="done", d="done")
    await resumer_of(harness).tick()

    for task in plant.ids.values():
        assert await harness.client.pttl(harness.keys.task(task.ulid)) > 0
    assert await harness.client.pttl(harness.keys.dag(plant.ulid)) > 0
    assert await harness.client.pttl(harness.keys.members(plant.ulid)) > 0


async def test_a_follow_up_dag_is_submitted_once(harness: Harness) -> None:
    second = {"title": "second", "tasks": [{"type": "code"}, {"type": "code", "after": ["0"]}]}
    first, shard = await completed(harness, on_complete=second), harness.queue._internals.shard
    following = (await dag_store.read(shard, first.id)).next

    # As with two schedulers, and one that died before it recorded the end of its step.
    await resumer_of(harness).follow(first.id)
    await resumer_of(harness).follow(first.id)
    await resumer_of(harness).tick()

    found = [dag async for dag in dag_store.walk(shard)]
    assert [(dag.id, dag.spec.title) for dag in found] == [
        (following, "second"),
        (first.id, None),
    ]
    assert [dag.total for dag in found] == [2, 1]
    assert (await harness.queue.counts())[State.READY] == 1


@pytest.mark.parametrize("why", ["a parent is gone", "the lanes are full"])
async def test_a_follow_up_that_is_refused_permanently_is_reported_and_not_retried(
    valkey: Server, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    async with opened(valkey, max_lanes=2) as harness:
        parent = await harness.queue.enqueue("other")
        row = {"after": [str(parent.id)]} if why == "a parent is gone" else {"type": "third"}
        first = await completed(harness, on_complete={"tasks": [{"type": "code", **row}]})
        await parent.cancel()

        kept = [await resumer_of(harness).tick() for _ in range(2)]

        dag = await dag_store.read(harness.queue._internals.shard, first.id)
        reason = "does not exist or was cancelled" if row.get("after") else "already has 2 lanes"
        assert [(one.failed, one.refused) for one in kept] == [(0, 1), (0, 0)]
        assert await dag_store.steps(harness.queue._internals.shard) == []
        assert reason in (dag.next_refused or "")
        (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert first.id in line.getMessage()
        assert reason in line.getMessage()
        events = [fields for _, fields in await harness.client.xrange(f"{harness.keys.root}events")]
        (refused,) = [one for one in events if one[b"event"] == b"dag.refused"]
        assert dag.next is not None
        assert (refused[b"dag"], refused[b"detail"]) == (
            dag.next.ulid.encode(),
            (dag.next_refused or "").encode(),
        )
        with pytest.raises(DagNotFound):
            await dag_store.read(harness.queue._internals.shard, dag.next)


async def test_a_follow_up_is_retried_while_the_server_is_full(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await completed(harness, on_complete={"tasks": [{"type": "code"}]})

    async def full(*_: Any) -> None:
        raise Overloaded("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(dag_submit, "submit", full)
        assert (await resumer_of(harness).tick()).failed == 1
    assert await harness.client.pttl(harness.keys.follow(first.id.ulid)) == -1
    await resumer_of(harness).tick()

    dag = await dag_store.read(harness.queue._internals.shard, first.id)
    assert dag.next is not None
    assert (await dag_store.read(harness.queue._internals.shard, dag.next)).total == 1


async def completed(harness: Harness, **options: Any) -> Plan:
    """Submits and completes a DAG of one task."""
    plan = Plan.parse({"tasks": [{"type": "code"}], **options})
    await dag_submit.submit(
        harness.queue._internals.shard, dag_draft_of(plan, harness.queue._internals.drafter)
    )
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    await lease.start()
    await lease.complete()
    return plan


async def test_the_critical_path_is_recomputed_when_the_graph_changes(harness: Harness) -> None:
    names = {"a": [], "b": ["a"], "c": ["b"], "x": []}
    rows = [{"name": name, "type": "code", "after": after} for name, after in names.items()]
    plan = Plan.parse({"tasks": rows})
    await dag_submit.submit(
        harness.queue._internals.shard, dag_draft_of(plan, harness.queue._internals.drafter)
    )
    before = await ranks_of(harness, plan)
    await harness.queue.cancel(plan.tasks[1].id)

    await resumer_of(harness).tick()

    # Paths are counted in tasks: a single task gets no boost.
    assert before["a"] > before["x"]
    after = await ranks_of(harness, plan)
    assert (after["a"], after["x"]) == (0, 0)
    scores = await harness.client.zrange(harness.keys.lane(1), 0, -1, withscores=True)
    assert len({score for _, score in scores}) == 1


async def test_a_dag_that_changes_continuously_is_ranked_once_per_interval(
    harness: Harness,
) -> None:
    clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    resumer = Resumer(harness.queue._internals.shard, Drafter(harness.queue.settings, clock))
    parent = await harness.queue.enqueue("code")
    done = []

    for _ in range(3):
        await harness.queue.enqueue("code", depends_on=[parent.id])
        done.append((await resumer.tick()).done)
    clock.ms += 10_000
    done.append((await resumer.tick()).done)

    assert done == [1, 0, 0, 1]
    assert await dag_store.steps(harness.queue._internals.shard) == []


async def test_only_changed_ranks_are_written(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan.parse({"tasks": [{"type": "code"}, {"type": "code", "after": ["0"]}]})
    await harness.queue.dags.submit(plan)
    await harness.client.hset(harness.keys.unfinished(), f"rank {plan.id.ulid}", 1)
    sent: list[Any] = []
    rank = dag_store.rank

    async def counted(shard: Any, dag: Any, ranks: Any, *, seen: str) -> None:
        sent.append(ranks)
        await rank(shard, dag, ranks, seen=seen)

    monkeypatch.setattr(dag_store, "rank", counted)
    await resumer_of(harness).tick()

    assert sent == [[]]
    assert await dag_store.steps(harness.queue._internals.shard) == []


async def ranks_of(harness: Harness, plan: Plan) -> dict[str, float]:
    """Returns the critical-path boost of each task."""
    return {task.name: (await harness.task(task.id)).dependency_boost for task in plan.tasks}


async def test_a_step_of_an_expired_dag_is_removed(harness: Harness) -> None:
    verbs = ("commit", "cancel", "hold", "unhold", "forget", "rank", "follow")
    gone: dict[Any, Any] = {f"{verb} {'0' * 26}": 0 for verb in verbs}
    await harness.client.hset(harness.keys.unfinished(), mapping=gone)
    plant = unsent_dag(harness, fan(3, to_one=True))
    await plant.written()
    await plant.commit(limit=2)

    assert await resumer_of(harness).tick() == ResumedSteps(1, 0)

    assert await harness.client.exists(harness.keys.unfinished()) == 0
    assert await plant.counted() == {"READY": 3, "PENDING": 1}


async def test_a_dag_that_cannot_be_continued_does_not_block_others(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = unsent_dag(harness, DIAMOND), unsent_dag(harness, DIAMOND)
    for plant in (bad, good):
        await plant.written()
        await plant.commit(limit=1)
    commit = dag_submit.commit

    async def broken(shard: Any, dag: Any, **options: Any) -> None:
        if dag == bad.draft.id:
            raise KeyError("something of ours")
        await commit(shard, dag, **options)

    monkeypatch.setitem(STEPS, "commit", broken)

    assert await resumer_of(harness).tick() == ResumedSteps(1, 1)

    assert await good.counted() == {"READY": 1, "PENDING": 3}


async def test_a_plan_with_the_id_of_another_dag_is_refused_and_changes_nothing(
    harness: Harness,
) -> None:
    first = Plan.parse({"tasks": [{"type": "code"}]})
    await harness.queue.dags.submit(first)
    before = await harness.dump()

    with pytest.raises(InvalidGraph, match="another DAG with this id is committed"):
        await harness.queue.dags.submit({"id": first.id, "tasks": [{"type": "code"}]})

    assert await harness.dump() == before


async def test_a_continued_resume_does_not_undo_a_later_pause(harness: Harness) -> None:
    plant = await committed_dag(harness, {str(at): [] for at in range(4)})
    await plant.pause()
    assert await plant.resume(limit=2) == ["OK", 1]
    await plant.pause()

    assert await plant.resume(begin=0, limit=2) == ["OK", 0]
    await resumer_of(harness).tick()

    assert await plant.field("paused") == "1"
    assert await harness.queue.claim(worker="w1", n=4) == []


async def test_a_tag_named_like_a_trigger_is_not_a_trigger(harness: Harness) -> None:
    plan = {
        "tasks": [
            {"name": "a", "type": "code"},
            {"name": "b", "type": "code", "after": ["a"], "tags": ["trigger"]},
        ]
    }
    await harness.queue.dags.submit(plan)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()

    assert len(await harness.queue.claim(worker="w1")) == 1


async def test_a_retry_that_would_create_a_cycle_is_refused(harness: Harness) -> None:
    parent = await harness.running("parent")
    child = await harness.queue.enqueue("code", depends_on=[parent.id])
    # The child dies while it waits, and by now its parent waits for it.
    await harness.client.hset(
        harness.keys.task(child.id.ulid),
        mapping={"state": "DEAD_LETTERED", "parents": parent.id.ulid},
    )
    await harness.client.delete(harness.keys.waits(child.id.ulid))
    await harness.client.zadd(harness.keys.dead(), {child.id.ulid: 1})
    await harness.client.hset(harness.keys.task(parent.id.ulid), "state", "PENDING")
    await harness.client.sadd(harness.keys.waits(parent.id.ulid), child.id.ulid)
    await harness.client.zadd(harness.keys.dependents(child.id.ulid), {parent.id.ulid: 0})
    before = await harness.dump()

    with pytest.raises(InvalidGraph, match="discard one of them"):
        await harness.queue.dead.retry(child.id)

    assert await harness.dump() == before
