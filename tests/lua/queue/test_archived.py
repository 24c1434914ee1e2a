"""archived: only what has its row begins to expire; the dead stay."""

from __future__ import annotations

from typing import Any

from rqueue import State, TaskId
from rqueue.store.outbox import GROUP, Entry, archived
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import LANES, W1, afterwards, ask, expiring

TERMS: dict[str, Argument] = {"group": GROUP, "ttl": 60_000, "dags": ""}


async def completed(house: House, **options: Any) -> TaskId:
    lease = await house.running(**options)
    await lease.complete("done")
    return lease.id


async def entries(house: House) -> list[str]:
    """The ids of the outbox's entries."""
    return [entry.decode() for entry, _ in await house.client.xrange(house.keys.outbox())]


def named(rows: list[str]) -> list[Entry]:
    return [Entry(row, []) for row in rows]


async def test_a_completed_task_expires_once_its_row_is_there(archived_house: House) -> None:
    house = archived_house
    task = await completed(house, tags=["t"], external_id="mine")
    assert await expiring(house, a=task) == set()
    (entry,) = await entries(house)

    said = await ask(house, "queue/archived", TERMS, [(entry,)])

    assert said == ["OK", 1]
    assert await afterwards(house, a=task) == LANES | W1 | {
        "task:a": {
            "def0": "*", "entry": "*", "finished": "*", "flags": "m", "holder": "* * w1",
            "lane": "1", "more": "*", "score": "*", "state": "COMPLETED", "token": "1:*",
        },
        "result:a": '"done"',
        "ext:*": "a",
        "ready": ([], {}),
        "outbox": [],
        "stats": {"1:COMPLETED": 1, "submitted": 1},
    }  # fmt: skip
    assert await expiring(house, a=task) == {"task:a", "result:a", "ext:*"}


async def test_a_task_keeps_its_own_time(archived_house: House) -> None:
    task = await completed(archived_house, result_ttl_sec=3600)

    await ask(archived_house, "queue/archived", TERMS, [(await entries(archived_house))])

    ttl = await archived_house.client.pttl(archived_house.keys.task(task.ulid))
    assert 60_000 < ttl <= 3_600_000


async def test_a_large_definition_and_the_failures_expire_too(archived_house: House) -> None:
    house = archived_house
    await house.queue.enqueue("code", {"x": "x" * 600})
    (lease,) = await house.queue.claim(worker="w1", types=["code"])
    await lease.fail()
    await house.queue.run_now(lease.id)
    (lease,) = await house.queue.claim(worker="w1", types=["code"])
    await lease.start()
    await lease.complete()

    await ask(house, "queue/archived", TERMS, [(await entries(house))])

    assert await expiring(house, a=lease.id) == {"task:a", "def:a", "failures:a"}


async def test_a_cancelled_task_expires_too(archived_house: House) -> None:
    house = archived_house
    task = (await house.queue.enqueue("code", {}, tags=["t"])).id
    await house.queue.cancel(task)

    said = await ask(house, "queue/archived", TERMS, [(await entries(house))])

    found = await afterwards(house, a=task)
    assert said == ["OK", 1]
    assert await expiring(house, a=task) == {"task:a"}
    assert ("tag:t" in found, found["outbox"], found["stats"].get("outbox")) == (False, [], None)


async def test_the_dead_stay(archived_house: House) -> None:
    house = archived_house
    lease = await house.running(tags=["t"])
    await lease.fail(permanent=True)

    said = await ask(house, "queue/archived", TERMS, [(await entries(house))])

    found = await afterwards(house, a=lease.id)
    assert said == ["OK", 1]
    assert (found["outbox"], found["dead"], found["tag:t"]) == ([], ["a"], ["a"])
    assert await expiring(house, a=lease.id) == set()


async def test_a_row_of_an_earlier_life_says_nothing_of_this_one(archived_house: House) -> None:
    house = archived_house
    lease = await house.running()
    await lease.fail(permanent=True)
    await house.queue.revive(lease.id)
    (again,) = await house.queue.claim(worker="w1", types=["code"])
    await again.start()
    await again.complete()
    first, second = await entries(house)

    await ask(house, "queue/archived", TERMS, [(first,)])
    assert await expiring(house, a=lease.id) == set()

    await ask(house, "queue/archived", TERMS, [(second,)])
    assert await expiring(house, a=lease.id) == {"task:a", "failures:a"}


async def test_one_that_lives_again_does_not_expire(archived_house: House) -> None:
    house = archived_house
    lease = await house.running()
    await lease.fail(permanent=True)
    await house.queue.revive(lease.id)

    await ask(house, "queue/archived", TERMS, [(await entries(house))])

    assert await expiring(house, a=lease.id) == set()
    assert (await house.task(lease.id)).state is State.READY


async def test_many_ended_in_one_entry_and_many_entries_in_one_call(archived_house: House) -> None:
    house = archived_house
    handles = await house.queue.enqueue_many([house.queue.call("code")] * 3)
    await house.queue.cancel_many()
    task = await completed(house)
    rows = await entries(house)

    counted = await archived(house.queue.shard, named(rows))

    assert (len(rows), counted) == (2, 4)
    names = {f"t{at}": handle.id for at, handle in enumerate(handles)}
    assert await expiring(house, a=task, **names) == {
        "task:a", "result:a", "task:t0", "task:t1", "task:t2",
    }  # fmt: skip


async def test_what_the_archive_group_holds_is_let_go(archived_house: House) -> None:
    house = archived_house
    await completed(house)
    key = house.keys.outbox()
    await house.client.xgroup_create(key, GROUP, "0")
    await house.client.xreadgroup(GROUP, "a1", {key: ">"})

    await archived(house.queue.shard, named(await entries(house)))

    assert (await house.client.xpending(key, GROUP))["pending"] == 0


async def test_sent_again_it_changes_nothing(archived_house: House) -> None:
    house = archived_house
    await completed(house)
    rows = await entries(house)
    await archived(house.queue.shard, named(rows))
    before = await house.dump()

    assert await ask(house, "queue/archived", TERMS, [(rows[0],)]) == ["OK", 0]
    assert await house.dump() == before
