"""mend: a task that an index misses is put back; one in normal life is not touched."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.store.scripts import Argument
from rqueue.store.shard import FREED, ending
from rqueue.store.sweeping import mend, sweep
from tests.house import House
from tests.lua.queue.broken import entry_of, one_of_each, pending, repaired, stream
from tests.lua.task.afterwards import ask


async def mended(house: House, *tasks: str) -> int:
    return await mend(house.queue.shard, list(tasks))


async def test_tasks_in_normal_life_are_not_touched(house: House) -> None:
    tasks = await one_of_each(house)
    before = await house.dump()

    assert await mended(house, *tasks.values()) == 0
    assert await house.dump() == before


async def test_what_is_no_task_is_nothing(house: House) -> None:
    assert await mended(house, "NONE") == 0
    assert await house.dump() == {}


async def test_a_ready_task_comes_back_to_its_lane(house: House) -> None:
    task = (await one_of_each(house))["ready"]
    before = await house.dump()
    lane = int(await house.client.hget(house.keys.task(task), "lane"))
    await house.client.zrem(house.keys.lane(lane), task)

    assert await mended(house, task) == 1

    assert await repaired(house) == 1
    await house.client.hdel(house.keys.stats(), "repaired")
    assert await house.dump() == before


async def test_a_ready_task_in_no_index_at_all_gets_an_entry_too(house: House) -> None:
    task = (await one_of_each(house))["ready"]
    old = await entry_of(house, task)
    created = (await house.task(task)).created_at
    lane = int(await house.client.hget(house.keys.task(task), "lane"))
    await house.client.xdel(house.keys.ready(), old)
    await house.client.zrem(house.keys.lane(lane), task)

    assert await mended(house, task) == 1

    assert (await stream(house)).count(task) == 1
    assert await entry_of(house, task) > old
    assert (await house.task(task)).created_at == created
    assert await mended(house, task) == 0
    (lease,) = await house.queue.claim(worker="w9", types=["eight"])
    assert lease.id.ulid == task
    await lease.start()
    await lease.complete()


async def test_a_task_that_a_claim_found_without_its_entry_is_claimed_the_next_time(
    house: House,
) -> None:
    task = (await house.queue.enqueue("code")).id.ulid
    await house.client.xdel(house.keys.ready(), await entry_of(house, task))
    assert await house.queue.claim(worker="w1", types=["code"]) == []
    assert await house.client.smembers(house.keys.orphans()) == {task.encode()}

    assert await mended(house, task) == 1

    assert await house.client.exists(house.keys.orphans()) == 0
    (lease,) = await house.queue.claim(worker="w1", types=["code"])
    assert lease.id.ulid == task


@pytest.mark.parametrize("entry", ["nan", "", "-1", "9" * 400, "FORCE", b"\xff\xfe", "5-5", None])
@pytest.mark.parametrize("broken", [0, 1, 2])
async def test_a_task_whose_entry_is_damaged_keeps_no_neighbour(
    house: House, broken: int, entry: str | bytes | None
) -> None:
    tasks = [(await house.queue.enqueue("code")).id.ulid for _ in range(3)]
    key = house.keys.task(tasks[broken])
    if entry is None:
        await house.client.hdel(key, "entry")
    else:
        await house.client.hset(key, "entry", entry)

    leases = await house.queue.claim(n=3, worker="w1", types=["code"])

    assert [lease.id.ulid for lease in leases] == tasks[:broken] + tasks[broken + 1 :]
    assert await house.client.smembers(house.keys.orphans()) == {tasks[broken].encode()}
    assert await mended(house, tasks[broken]) == 1
    (lease,) = await house.queue.claim(n=3, worker="w1", types=["code"])
    assert lease.id.ulid == tasks[broken]
    await lease.start()
    await lease.complete()
    assert (await house.task(lease.id)).state is State.COMPLETED


@pytest.mark.parametrize("name", ["claimed", "running", "validating"])
async def test_a_task_in_hand_comes_back_to_its_holders_list(house: House, name: str) -> None:
    task = (await one_of_each(house))[name]
    before = await house.dump()
    entry = await entry_of(house, task)
    await house.client.xack(house.keys.ready(), "workers", entry)

    assert await mended(house, task) == 1

    assert (await pending(house))[entry] == "w1"
    await house.client.hdel(house.keys.stats(), "repaired")
    assert await house.dump() == before


async def test_a_lost_lease_of_a_dead_worker_is_reaped_after_all(house: House) -> None:
    lease = await house.running(max_attempts=3)
    await house.client.xgroup_destroy(house.keys.ready(), "workers")
    await house.client.zrem(house.keys.workers(), "w1")

    assert await mended(house, lease.id.ulid) == 1
    assert await house.client.zscore(house.keys.workers(), "w1") is not None
    await house.age(lease, 60)
    await house.reaper.tick()

    assert (await house.task(lease.id)).state is State.RETRYING


async def test_a_task_in_hand_without_its_entry_is_still_its_holders(house: House) -> None:
    lease = await house.running()
    await house.client.xdel(house.keys.ready(), await entry_of(house, lease.id.ulid))
    assert (await sweep(house.queue.shard)).number == 1

    assert await mended(house, lease.id.ulid) == 1

    assert (await pending(house))[await entry_of(house, lease.id.ulid)] == "w1"
    await lease.renew()
    await lease.complete("done")
    assert await stream(house) == []


@pytest.mark.parametrize(
    ("name", "index"),
    [("retrying", "delayed"), ("delayed", "delayed"), ("blocked", "blocked"), ("dead", "dead")],
)
async def test_a_waiting_or_dead_task_comes_back_to_its_list(
    house: House, name: str, index: str
) -> None:
    task = (await one_of_each(house))[name]
    key = getattr(house.keys, index)()
    score = await house.client.zscore(key, task)
    await house.client.zrem(key, task)

    assert await mended(house, task) == 1

    found = await house.client.zscore(key, task)
    assert found == score if index != "blocked" else found > score
    assert await repaired(house) == 1
    assert await mended(house, task) == 0


async def test_a_task_that_waits_for_nothing_is_promoted(house: House) -> None:
    task = (await one_of_each(house))["blocked"]
    await house.client.delete(house.keys.waits(task))

    assert await mended(house, task) == 1
    await house.promoter.tick()

    assert (await house.task(task)).state is State.READY


async def test_a_parent_that_forgot_its_child_tells_it(house: House) -> None:
    parent = await house.running()
    child = (await house.queue.enqueue("code", {}, depends_on=[parent.id])).id
    await house.client.delete(house.keys.dependents(parent.id.ulid))

    assert await mended(house, child.ulid) == 1
    await parent.complete()

    assert (await house.task(child)).state is State.READY


@pytest.mark.parametrize(("move", "state"), [("complete", "READY"), ("cancel", "CANCELLED")])
async def test_a_child_that_was_not_told_of_its_parents_end_is_told(
    house: House, move: str, state: str
) -> None:
    parent = await house.running()
    child = (await house.queue.enqueue("code", {}, depends_on=[parent.id])).id
    await house.client.delete(house.keys.dependents(parent.id.ulid))
    await (parent.complete() if move == "complete" else house.queue.cancel(parent.id))
    await house.promoter.tick()
    assert (await house.task(child)).state is State.PENDING

    assert await mended(house, child.ulid) == 1
    await house.promoter.tick()

    assert (await house.task(child)).state == state


@pytest.mark.parametrize("move", ["complete", "unblock", "cascade"])
async def test_children_that_a_long_fan_out_has_still_to_tell_are_not_touched(
    house: House, move: str
) -> None:
    parent = await house.running()
    call = house.queue.call("code", {}, depends_on=[parent.id])
    children = [handle.id.ulid for handle in await house.queue.enqueue_many([call] * 3)]
    how = ending(house.queue.shard.terms)
    args: dict[str, Argument]
    if move == "complete":
        args = {"archive": "0", "ttl": 60_000, "limit": 1, "tries": 0, "events": 9}
        await ask(house, "task/complete", args, [(parent.id.ulid, parent.token, "")])
    else:
        args = {
            "reason": "",
            "dependents": move,
            "limit": 1,
            "how": how,
            **FREED,
            "request": "r",
        }
        await ask(house, "task/cancel", args, [(parent.id.ulid,)])
    before = await house.dump()
    assert (await house.queue.counts())[State.PENDING] >= 2

    assert await mended(house, parent.id.ulid, *children) == 0
    assert await house.dump() == before


async def test_a_task_without_a_state_goes_and_its_key_is_free(house: House) -> None:
    options: dict[str, Any] = {
        "idempotency_key": "k",
        "external_id": "own",
        "tags": ["t"],
        "delay": 60,
    }
    before = await house.queue.enqueue("code", {"x": "y" * 600}, **options)
    await house.client.hdel(house.keys.task(before.id.ulid), "state")
    await house.client.zrem(house.keys.delayed(), before.id.ulid)

    assert await mended(house, before.id.ulid) == 1

    for key in (house.keys.task, house.keys.definition):
        assert await house.client.exists(key(before.id.ulid)) == 0
    assert await house.client.exists(house.keys.tag_list("t")) == 0
    again = await house.queue.enqueue("code", {}, **options)
    assert again.created
    assert (await house.queue.get("own")).id == again.id
