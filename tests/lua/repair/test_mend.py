"""mend: a task that is missing in an index is put back; a healthy one is not changed."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.maintenance.sweeper import mend, sweep
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS, ending
from tests.harness import Harness
from tests.lua.repair.broken import entry_of, one_of_each, pending, repaired, stream
from tests.lua.task.keyspace import run_move


async def mended(harness: Harness, *tasks: str) -> int:
    return await mend(harness.queue._internals.shard, list(tasks))


async def now_ms(harness: Harness) -> int:
    seconds, micros = await harness.client.time()
    return int(seconds * 1000 + micros // 1000)


async def test_healthy_tasks_are_not_changed(harness: Harness) -> None:
    tasks = await one_of_each(harness)
    before = await harness.dump()

    assert await mended(harness, *tasks.values()) == 0
    assert await harness.dump() == before


async def test_an_unknown_id_is_not_repaired(harness: Harness) -> None:
    assert await mended(harness, "NONE") == 0
    assert await harness.dump() == {}


async def test_a_ready_task_is_put_back_into_its_lane(harness: Harness) -> None:
    task = (await one_of_each(harness))["ready"]
    before = await harness.dump()
    lane = int(await harness.client.hget(harness.keys.task(task), "lane"))
    await harness.client.zrem(harness.keys.lane(lane), task)

    assert await mended(harness, task) == 1

    assert await repaired(harness) == 1
    await harness.client.hdel(harness.keys.stats(), "repaired")
    assert await harness.dump() == before


async def test_a_ready_task_in_no_index_at_all_gets_an_entry_too(harness: Harness) -> None:
    task = (await one_of_each(harness))["ready"]
    old = await entry_of(harness, task)
    created = (await harness.task(task)).created_at
    lane = int(await harness.client.hget(harness.keys.task(task), "lane"))
    await harness.client.xdel(harness.keys.ready(), old)
    await harness.client.zrem(harness.keys.lane(lane), task)

    assert await mended(harness, task) == 1

    assert (await stream(harness)).count(task) == 1
    assert await entry_of(harness, task) > old
    assert (await harness.task(task)).created_at == created
    assert await mended(harness, task) == 0
    (lease,) = await harness.queue.claim(worker="w9", types=["eight"])
    assert lease.id.ulid == task
    await lease.start()
    await lease.complete()


async def test_a_task_that_a_claim_found_without_its_entry_is_claimed_the_next_time(
    harness: Harness,
) -> None:
    task = (await harness.queue.enqueue("code")).id.ulid
    await harness.client.xdel(harness.keys.ready(), await entry_of(harness, task))
    assert await harness.queue.claim(worker="w1", types=["code"]) == []
    assert await harness.client.smembers(harness.keys.orphans()) == {task.encode()}

    assert await mended(harness, task) == 1

    assert await harness.client.exists(harness.keys.orphans()) == 0
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    assert lease.id.ulid == task


@pytest.mark.parametrize("entry", ["nan", "", "-1", "9" * 400, "FORCE", b"\xff\xfe", "5-5", None])
@pytest.mark.parametrize("broken", [0, 1, 2])
async def test_a_task_with_a_damaged_entry_does_not_stop_the_others(
    harness: Harness, broken: int, entry: str | bytes | None
) -> None:
    tasks = [(await harness.queue.enqueue("code")).id.ulid for _ in range(3)]
    key = harness.keys.task(tasks[broken])
    if entry is None:
        await harness.client.hdel(key, "entry")
    else:
        await harness.client.hset(key, "entry", entry)

    leases = await harness.queue.claim(n=3, worker="w1", types=["code"])

    assert [lease.id.ulid for lease in leases] == tasks[:broken] + tasks[broken + 1 :]
    assert await harness.client.smembers(harness.keys.orphans()) == {tasks[broken].encode()}
    assert await mended(harness, tasks[broken]) == 1
    (lease,) = await harness.queue.claim(n=3, worker="w1", types=["code"])
    assert lease.id.ulid == tasks[broken]
    await lease.start()
    await lease.complete()
    assert (await harness.task(lease.id)).state is State.COMPLETED


@pytest.mark.parametrize("name", ["claimed", "running", "validating"])
async def test_a_leased_task_is_put_back_into_the_pending_list_of_its_holder(
    harness: Harness, name: str
) -> None:
    task = (await one_of_each(harness))[name]
    before = await harness.dump()
    entry = await entry_of(harness, task)
    await harness.client.xack(harness.keys.ready(), "workers", entry)

    assert await mended(harness, task) == 1

    assert (await pending(harness))[entry] == "w1"
    await harness.client.hdel(harness.keys.stats(), "repaired")
    assert await harness.dump() == before


async def test_a_missing_lease_of_a_dead_worker_is_reaped(harness: Harness) -> None:
    lease = await harness.running(max_attempts=3)
    await harness.client.xgroup_destroy(harness.keys.ready(), "workers")
    await harness.client.zrem(harness.keys.workers(), "w1")

    assert await mended(harness, lease.id.ulid) == 1
    assert await harness.client.zscore(harness.keys.workers(), "w1") is not None
    await harness.age(lease, 60)
    await harness.reaper.tick()

    assert (await harness.task(lease.id)).state is State.RETRYING


async def test_a_leased_task_without_its_entry_still_belongs_to_its_holder(
    harness: Harness,
) -> None:
    lease = await harness.running()
    await harness.client.xdel(harness.keys.ready(), await entry_of(harness, lease.id.ulid))
    assert (await sweep(harness.queue._internals.shard)).number == 1

    assert await mended(harness, lease.id.ulid) == 1

    assert (await pending(harness))[await entry_of(harness, lease.id.ulid)] == "w1"
    await lease.renew()
    await lease.complete("done")
    assert await stream(harness) == []


@pytest.mark.parametrize(
    ("name", "index"),
    [("retrying", "delayed"), ("delayed", "delayed"), ("blocked", "blocked"), ("dead", "dead")],
)
async def test_a_waiting_or_dead_task_is_put_back_into_its_index(
    harness: Harness, name: str, index: str
) -> None:
    task = (await one_of_each(harness))[name]
    key = getattr(harness.keys, index)()
    score = await harness.client.zscore(key, task)
    await harness.client.zrem(key, task)
    before = await now_ms(harness)

    assert await mended(harness, task) == 1

    found = await harness.client.zscore(key, task)
    assert found == score if index != "blocked" else before <= found <= await now_ms(harness)
    assert await repaired(harness) == 1
    assert await mended(harness, task) == 0


async def test_a_task_that_waits_for_nothing_is_promoted(harness: Harness) -> None:
    task = (await one_of_each(harness))["blocked"]
    await harness.client.delete(harness.keys.waits(task))

    assert await mended(harness, task) == 1
    await harness.promoter.tick()

    assert (await harness.task(task)).state is State.READY


async def test_a_dependency_that_lost_its_dependent_resolves_it(harness: Harness) -> None:
    dependency = await harness.running()
    dependent = (await harness.queue.enqueue("code", {}, depends_on=[dependency.id])).id
    await harness.client.delete(harness.keys.dependents(dependency.id.ulid))

    assert await mended(harness, dependent.ulid) == 1
    await dependency.complete()

    assert (await harness.task(dependent)).state is State.READY


@pytest.mark.parametrize(("move", "state"), [("complete", "READY"), ("cancel", "CANCELLED")])
async def test_a_dependent_that_missed_the_end_of_its_dependency_is_resolved(
    harness: Harness, move: str, state: str
) -> None:
    dependency = await harness.running()
    dependent = (await harness.queue.enqueue("code", {}, depends_on=[dependency.id])).id
    await harness.client.delete(harness.keys.dependents(dependency.id.ulid))
    await (dependency.complete() if move == "complete" else harness.queue.cancel(dependency.id))
    await harness.promoter.tick()
    assert (await harness.task(dependent)).state is State.PENDING

    assert await mended(harness, dependent.ulid) == 1
    await harness.promoter.tick()

    assert (await harness.task(dependent)).state == state


@pytest.mark.parametrize("move", ["complete", "unblock", "cascade"])
async def test_dependents_that_a_long_fan_out_has_still_to_resolve_are_not_changed(
    harness: Harness, move: str
) -> None:
    dependency = await harness.running()
    call = harness.queue.call("code", {}, depends_on=[dependency.id])
    dependents = [handle.id.ulid for handle in await harness.queue.enqueue_many([call] * 3)]
    how = ending(harness.queue._internals.shard.terms)
    args: dict[str, Argument]
    if move == "complete":
        args = {"archive": "0", "ttl": 60_000, "limit": 1, "tries": 0, "events": 9}
        await run_move(harness, "task/complete", args, [(dependency.id.ulid, dependency.token, "")])
    else:
        args = {
            "reason": "",
            "dependents": move,
            "limit": 1,
            "how": how,
            **ANSWER_LIMITS,
            "request": "r",
        }
        await run_move(harness, "task/cancel", args, [(dependency.id.ulid,)])
    before = await harness.dump()
    assert (await harness.queue.counts())[State.PENDING] >= 2

    assert await mended(harness, dependency.id.ulid, *dependents) == 0
    assert await harness.dump() == before


async def test_a_task_without_a_state_is_deleted_and_its_key_is_released(harness: Harness) -> None:
    options: dict[str, Any] = {
        "idempotency_key": "k",
        "external_id": "own",
        "tags": ["t"],
        "delay": 60,
    }
    before = await harness.queue.enqueue("code", {"x": "y" * 600}, **options)
    await harness.client.hdel(harness.keys.task(before.id.ulid), "state")
    await harness.client.zrem(harness.keys.delayed(), before.id.ulid)

    assert await mended(harness, before.id.ulid) == 1

    for key in (harness.keys.task, harness.keys.definition):
        assert await harness.client.exists(key(before.id.ulid)) == 0
    assert await harness.client.exists(harness.keys.tag_list("t")) == 0
    again = await harness.queue.enqueue("code", {}, **options)
    assert again.created
    assert (await harness.queue.get("own")).id == again.id
