"""acknowledge: the keys of a task expire only after its row is committed; dead tasks stay."""

from __future__ import annotations

from typing import Any

from rqueue import State, TaskId
from rqueue.core.outbox import GROUP, Entry, archived
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import LANES, W1, all_keys, expiring_keys, run_move

TERMS: dict[str, Argument] = {"group": GROUP, "ttl": 60_000, "dags": ""}


async def completed(harness: Harness, **options: Any) -> TaskId:
    lease = await harness.running(**options)
    await lease.complete("done")
    return lease.id


async def entries(harness: Harness) -> list[str]:
    """The ids of the outbox's entries."""
    return [entry.decode() for entry, _ in await harness.client.xrange(harness.keys.outbox())]


def named(rows: list[str]) -> list[Entry]:
    return [Entry(row, []) for row in rows]


async def test_a_completed_task_expires_after_its_row_is_committed(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    task = await completed(harness, tags=["t"], external_id="mine")
    assert await expiring_keys(harness, a=task) == set()
    (entry,) = await entries(harness)

    reply = await run_move(harness, "archive/acknowledge", TERMS, [(entry,)])

    assert reply == ["OK", 1]
    assert await all_keys(harness, a=task) == LANES | W1 | {
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
    assert await expiring_keys(harness, a=task) == {"task:a", "result:a", "ext:*"}


async def test_the_own_ttl_of_a_task_counts(archived_harness: Harness) -> None:
    task = await completed(archived_harness, result_ttl_sec=3600)

    await run_move(
        archived_harness, "archive/acknowledge", TERMS, [(await entries(archived_harness))]
    )

    ttl = await archived_harness.client.pttl(archived_harness.keys.task(task.ulid))
    assert 60_000 < ttl <= 3_600_000


async def test_a_large_definition_and_the_failures_expire_too(archived_harness: Harness) -> None:
    harness = archived_harness
    await harness.queue.enqueue("code", {"x": "x" * 600})
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    await lease.fail()
    await harness.queue.run_now(lease.id)
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    await lease.start()
    await lease.complete()

    await run_move(harness, "archive/acknowledge", TERMS, [(await entries(harness))])

    assert await expiring_keys(harness, a=lease.id) == {"task:a", "def:a", "failures:a"}


async def test_a_cancelled_task_expires_too(archived_harness: Harness) -> None:
    harness = archived_harness
    task = (await harness.queue.enqueue("code", {}, tags=["t"])).id
    await harness.queue.cancel(task)

    reply = await run_move(harness, "archive/acknowledge", TERMS, [(await entries(harness))])

    found = await all_keys(harness, a=task)
    assert reply == ["OK", 1]
    assert await expiring_keys(harness, a=task) == {"task:a"}
    assert ("tag:t" in found, found["outbox"], found["stats"].get("outbox")) == (False, [], None)


async def test_dead_tasks_do_not_expire(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.running(tags=["t"])
    await lease.fail(permanent=True)

    reply = await run_move(harness, "archive/acknowledge", TERMS, [(await entries(harness))])

    found = await all_keys(harness, a=lease.id)
    assert reply == ["OK", 1]
    assert (found["outbox"], found["dead"], found["tag:t"]) == ([], ["a"], ["a"])
    assert await expiring_keys(harness, a=lease.id) == set()


async def test_a_row_of_an_earlier_life_does_not_expire_the_task(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.running()
    await lease.fail(permanent=True)
    await harness.queue.dead.retry(lease.id)
    (again,) = await harness.queue.claim(worker="w1", types=["code"])
    await again.start()
    await again.complete()
    first, second = await entries(harness)

    await run_move(harness, "archive/acknowledge", TERMS, [(first,)])
    assert await expiring_keys(harness, a=lease.id) == set()

    await run_move(harness, "archive/acknowledge", TERMS, [(second,)])
    assert await expiring_keys(harness, a=lease.id) == {"task:a", "failures:a"}


async def test_a_retried_task_does_not_expire(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.running()
    await lease.fail(permanent=True)
    await harness.queue.dead.retry(lease.id)

    await run_move(harness, "archive/acknowledge", TERMS, [(await entries(harness))])

    assert await expiring_keys(harness, a=lease.id) == set()
    assert (await harness.task(lease.id)).state is State.READY


async def test_many_tasks_of_one_entry_and_many_entries_of_one_call_expire(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    handles = await harness.queue.enqueue_many([harness.queue.call("code")] * 3)
    await harness.queue.purge(states=None)
    task = await completed(harness)
    rows = await entries(harness)

    counted = await archived(harness.queue._internals.shard, named(rows))

    assert (len(rows), counted) == (2, 4)
    names = {f"t{at}": handle.id for at, handle in enumerate(handles)}
    assert await expiring_keys(harness, a=task, **names) == {
        "task:a", "result:a", "task:t0", "task:t1", "task:t2",
    }  # fmt: skip


async def test_entries_held_by_the_archive_group_are_acknowledged(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    await completed(harness)
    key = harness.keys.outbox()
    await harness.client.xgroup_create(key, GROUP, "0")
    await harness.client.xreadgroup(GROUP, "a1", {key: ">"})

    await archived(harness.queue._internals.shard, named(await entries(harness)))

    assert (await harness.client.xpending(key, GROUP))["pending"] == 0


async def test_a_repeated_call_changes_nothing(archived_harness: Harness) -> None:
    harness = archived_harness
    await completed(harness)
    rows = await entries(harness)
    await archived(harness.queue._internals.shard, named(rows))
    before = await harness.dump()

    assert await run_move(harness, "archive/acknowledge", TERMS, [(rows[0],)]) == ["OK", 0]
    assert await harness.dump() == before
