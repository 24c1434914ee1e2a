"""What was begun with DAGs is gone on with, whoever began it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rqueue import DagStatus, Plan, State
from rqueue.client.drafts import Drafter
from rqueue.client.plans import planting_of
from rqueue.errors import DagNotFound, InvalidGraph, Overloaded
from rqueue.services.keeper import STEPS, Keeper, Kept
from rqueue.store import dags, planting, ranking
from rqueue.testing.clock import ManualClock
from tests.house import House, opened
from tests.lua.dag.planted import DIAMOND, Planted, a_plant, fan, planted, run
from tests.servers import Server


def keeper_of(house: House) -> Keeper:
    return Keeper(house.queue.shard, house.queue.drafter)


async def status_of(house: House, plant: Planted) -> DagStatus:
    return (await dags.read(house.queue.shard, plant.planting.id)).status


async def test_a_commit_that_stopped_half_way_is_finished(house: House) -> None:
    plant = a_plant(house, fan(600, to_one=True))
    await plant.written()
    assert await plant.commit(limit=250) == ["OK", 1]

    assert await keeper_of(house).tick() == Kept(1, 0)

    assert await plant.counted() == {"READY": 600, "PENDING": 1}
    assert await plant.steps() == {}


async def test_one_that_nobody_writes_any_more_is_dropped_and_one_in_writing_is_not(
    house: House,
) -> None:
    left, busy = a_plant(house, fan(300)), a_plant(house, DIAMOND)
    await left.written()
    await busy.written()
    await house.client.zadd(house.keys.writing(), {left.dag: 1})

    assert await keeper_of(house).tick() == Kept(1, 0)

    assert await left.states() == {}
    assert list(await busy.states()) == list(DIAMOND)
    assert (await house.queue.counts())[State.PENDING] == 0


async def test_a_dag_that_is_given_up_is_given_up_whole(house: House) -> None:
    plant = await planted(house, {**fan(400), "other": []}, on_failure="fail_fast")
    await run(plant, other="dead")
    assert await plant.steps() == {"cancel": "0"}

    await keeper_of(house).tick()

    assert await plant.counted() == {"CANCELLED": 401, "DEAD_LETTERED": 1}
    assert await status_of(house, plant) is DagStatus.FAILED


async def test_outputs_expire_when_the_dag_has_ended_and_not_before(house: House) -> None:
    plant = await planted(house, DIAMOND)
    await run(plant, a="done")
    assert await house.client.pttl(house.keys.task(plant.ids["a"].ulid)) == -1

    await run(plant, b="done", c="done", d="done")
    await keeper_of(house).tick()

    for task in plant.ids.values():
        assert await house.client.pttl(house.keys.task(task.ulid)) > 0
    assert await house.client.pttl(house.keys.dag(plant.dag)) > 0
    assert await house.client.pttl(house.keys.members(plant.dag)) > 0


async def test_the_one_that_follows_comes_once(house: House) -> None:
    second = {"title": "second", "tasks": [{"type": "code"}, {"type": "code", "after": ["0"]}]}
    first, shard = await completed(house, on_complete=second), house.queue.shard
    following = (await dags.read(shard, first.id)).next

    # As two schedulers do, and one that died before it could say that it was done.
    await keeper_of(house).follow(first.id)
    await keeper_of(house).follow(first.id)
    await keeper_of(house).tick()

    found = [dag async for dag in dags.walk(shard)]
    assert [(dag.id, dag.spec.title) for dag in found] == [
        (following, "second"),
        (first.id, None),
    ]
    assert [dag.total for dag in found] == [2, 1]
    assert (await house.queue.counts())[State.READY] == 1


@pytest.mark.parametrize("why", ["a parent is gone", "the lanes are full"])
async def test_one_that_can_never_follow_is_told_and_given_up(
    valkey: Server, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    async with opened(valkey, max_lanes=2) as house:
        parent = await house.queue.enqueue("other")
        row = {"after": [str(parent.id)]} if why == "a parent is gone" else {"type": "third"}
        first = await completed(house, on_complete={"tasks": [{"type": "code", **row}]})
        await parent.cancel()

        kept = [await keeper_of(house).tick() for _ in range(2)]

        dag = await dags.read(house.queue.shard, first.id)
        said = "not there or was cancelled" if row.get("after") else "has 2 lanes already"
        assert [(one.failed, one.refused) for one in kept] == [(0, 1), (0, 0)]
        assert await dags.steps(house.queue.shard) == []
        assert said in (dag.next_refused or "")
        (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert first.id in line.getMessage()
        assert said in line.getMessage()
        events = [fields for _, fields in await house.client.xrange(f"{house.keys.root}events")]
        (told,) = [one for one in events if one[b"event"] == b"dag.refused"]
        assert dag.next is not None
        assert (told[b"dag"], told[b"detail"]) == (
            dag.next.ulid.encode(),
            (dag.next_refused or "").encode(),
        )
        with pytest.raises(DagNotFound):
            await dags.read(house.queue.shard, dag.next)


async def test_what_follows_waits_for_a_full_server_however_long(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await completed(house, on_complete={"tasks": [{"type": "code"}]})

    async def full(*_: Any) -> None:
        raise Overloaded("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(planting, "submit", full)
        assert (await keeper_of(house).tick()).failed == 1
    assert await house.client.pttl(house.keys.follow(first.id.ulid)) == -1
    await keeper_of(house).tick()

    dag = await dags.read(house.queue.shard, first.id)
    assert dag.next is not None
    assert (await dags.read(house.queue.shard, dag.next)).total == 1


async def completed(house: House, **options: Any) -> Plan:
    """A DAG of one task, which is completed."""
    plan = Plan.parse({"tasks": [{"type": "code"}], **options})
    await planting.submit(house.queue.shard, planting_of(plan, house.queue.drafter))
    (lease,) = await house.queue.claim(worker="w1", types=["code"])
    await lease.start()
    await lease.complete()
    return plan


async def test_the_critical_path_is_another_when_the_graph_has_changed(house: House) -> None:
    names = {"a": [], "b": ["a"], "c": ["b"], "x": []}
    rows = [{"name": name, "type": "code", "after": after} for name, after in names.items()]
    plan = Plan.parse({"tasks": rows})
    await planting.submit(house.queue.shard, planting_of(plan, house.queue.drafter))
    before = await ranks_of(house, plan)
    await house.queue.cancel(plan.tasks[1].id)

    await keeper_of(house).tick()

    # Paths are counted in tasks: alone, none gains anything.
    assert before["a"] > before["x"]
    after = await ranks_of(house, plan)
    assert (after["a"], after["x"]) == (0, 0)
    scores = await house.client.zrange(house.keys.lane(1), 0, -1, withscores=True)
    assert len({score for _, score in scores}) == 1


async def test_a_dag_that_changes_all_the_time_is_ranked_once_in_a_while(house: House) -> None:
    clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    keeper = Keeper(house.queue.shard, Drafter(house.queue.settings, clock))
    parent = await house.queue.enqueue("code")
    done = []

    for _ in range(3):
        await house.queue.enqueue("code", depends_on=[parent.id])
        done.append((await keeper.tick()).done)
    clock.ms += 10_000
    done.append((await keeper.tick()).done)

    assert done == [1, 0, 0, 1]
    assert await dags.steps(house.queue.shard) == []


async def test_only_what_has_changed_is_written(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan.parse({"tasks": [{"type": "code"}, {"type": "code", "after": ["0"]}]})
    await house.queue.submit_plan(plan)
    await house.client.hset(house.keys.unfinished(), f"rank {plan.id.ulid}", 1)
    sent: list[Any] = []
    rank = ranking.rank

    async def counted(shard: Any, dag: Any, ranks: Any, *, seen: str) -> None:
        sent.append(ranks)
        await rank(shard, dag, ranks, seen=seen)

    monkeypatch.setattr(ranking, "rank", counted)
    await keeper_of(house).tick()

    assert sent == [[]]
    assert await dags.steps(house.queue.shard) == []


async def ranks_of(house: House, plan: Plan) -> dict[str, float]:
    """What the critical path gives each task."""
    return {task.name: (await house.task(task.id)).dependency_boost for task in plan.tasks}


async def test_a_step_of_a_dag_that_is_gone_goes(house: House) -> None:
    verbs = ("commit", "cancel", "hold", "unhold", "forget", "rank", "follow")
    gone: dict[Any, Any] = {f"{verb} {'0' * 26}": 0 for verb in verbs}
    await house.client.hset(house.keys.unfinished(), mapping=gone)
    plant = a_plant(house, fan(3, to_one=True))
    await plant.written()
    await plant.commit(limit=2)

    assert await keeper_of(house).tick() == Kept(1, 0)

    assert await house.client.exists(house.keys.unfinished()) == 0
    assert await plant.counted() == {"READY": 3, "PENDING": 1}


async def test_one_dag_that_cannot_be_gone_on_with_holds_no_other(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = a_plant(house, DIAMOND), a_plant(house, DIAMOND)
    for plant in (bad, good):
        await plant.written()
        await plant.commit(limit=1)
    commit = planting.commit

    async def broken(shard: Any, dag: Any, **options: Any) -> None:
        if dag == bad.planting.id:
            raise KeyError("something of ours")
        await commit(shard, dag, **options)

    monkeypatch.setitem(STEPS, "commit", broken)

    assert await keeper_of(house).tick() == Kept(1, 1)

    assert await good.counted() == {"READY": 1, "PENDING": 3}


async def test_a_plan_under_the_id_of_another_is_refused_and_changes_nothing(house: House) -> None:
    first = Plan.parse({"tasks": [{"type": "code"}]})
    await house.queue.submit_plan(first)
    before = await house.dump()

    with pytest.raises(InvalidGraph, match="another DAG of this id"):
        await house.queue.submit_plan({"id": first.id, "tasks": [{"type": "code"}]})

    assert await house.dump() == before


async def test_a_pause_is_not_undone_by_a_resume_that_goes_on(house: House) -> None:
    plant = await planted(house, {str(at): [] for at in range(4)})
    await plant.hold()
    assert await plant.unhold(limit=2) == ["OK", 1]
    await plant.hold()

    assert await plant.unhold(begin=0, limit=2) == ["OK", 0]
    await keeper_of(house).tick()

    assert await plant.field("paused") == "1"
    assert await house.queue.claim(worker="w1", n=4) == []


async def test_a_tag_of_any_name_is_no_trigger(house: House) -> None:
    plan = {
        "tasks": [
            {"name": "a", "type": "code"},
            {"name": "b", "type": "code", "after": ["a"], "tags": ["trigger"]},
        ]
    }
    await house.queue.submit_plan(plan)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()

    assert len(await house.queue.claim(worker="w1")) == 1


async def test_a_revival_that_would_close_a_circle_is_refused(house: House) -> None:
    parent = await house.running("parent")
    child = await house.queue.enqueue("code", depends_on=[parent.id])
    # The child dies while it waits, and by now its parent waits for it.
    await house.client.hset(
        house.keys.task(child.id.ulid),
        mapping={"state": "DEAD_LETTERED", "parents": parent.id.ulid},
    )
    await house.client.delete(house.keys.waits(child.id.ulid))
    await house.client.zadd(house.keys.dead(), {child.id.ulid: 1})
    await house.client.hset(house.keys.task(parent.id.ulid), "state", "PENDING")
    await house.client.sadd(house.keys.waits(parent.id.ulid), child.id.ulid)
    await house.client.zadd(house.keys.dependents(child.id.ulid), {parent.id.ulid: 0})
    before = await house.dump()

    with pytest.raises(InvalidGraph, match="discard one of them"):
        await house.queue.revive(child.id)

    assert await house.dump() == before
