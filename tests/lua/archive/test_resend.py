"""resend: ended tasks that are in neither outbox nor archive are added again, no others."""

from __future__ import annotations

import json
from typing import Any

from rqueue import TaskId
from tests.harness import Harness
from tests.lua.task.keyspace import run_move


async def lost(harness: Harness) -> None:
    """Empties the outbox, as a server does that loses it."""
    await harness.client.delete(harness.keys.outbox())
    await harness.client.hdel(harness.keys.stats(), "outbox")


async def lines(harness: Harness) -> list[dict[str, str]]:
    found = await harness.client.xrange(harness.keys.outbox())
    return [{name.decode(): value.decode() for name, value in fields.items()}
            for _, fields in found]  # fmt: skip


async def sent(harness: Harness, *lives: tuple[TaskId, int]) -> Any:
    return await run_move(
        harness, "archive/resend", {}, [(task.ulid, life) for task, life in lives]
    )


async def counter(harness: Harness) -> int:
    return int(await harness.client.hget(harness.keys.stats(), "outbox") or 0)


async def test_a_completed_task_is_sent_without_a_snapshot(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.running()
    await lease.complete("done")
    before = await harness.dump()
    await lost(harness)

    assert await sent(harness, (lease.id, 1)) == ["OK", 1]

    assert await lines(harness) == [{lease.id.ulid: "1 COMPLETED"}]
    assert await counter(harness) == 1
    root = harness.keys.root
    for key, value in (await harness.dump()).items():
        if key != f"{root}outbox":
            assert value == before[key]


async def test_a_dead_task_is_sent_with_its_current_snapshot(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.running()
    await lease.fail(permanent=True)
    (before,) = await lines(harness)
    await lost(harness)

    assert await sent(harness, (lease.id, 1)) == ["OK", 1]

    (line,) = await lines(harness)
    word, state, copy = line[lease.id.ulid].split(" ", 2)
    assert (word, state) == ("1", "DEAD_LETTERED")
    assert json.loads(copy) == json.loads(before[lease.id.ulid].split(" ", 2)[2])


async def test_live_and_retried_tasks_are_skipped(archived_harness: Harness) -> None:
    harness = archived_harness
    running = await harness.running("a")
    dead = await harness.running("b")
    await dead.fail(permanent=True)
    await harness.queue.dead.retry(dead.id)
    (again,) = await harness.queue.claim(worker="w1", types=["b"])
    await again.start()
    await again.complete()
    gone = TaskId.from_ulid("01JZ0000007000800000000000")
    await lost(harness)

    assert await sent(harness, (running.id, 1), (dead.id, 1), (gone, 1)) == ["OK", 0]
    assert (await lines(harness), await counter(harness)) == ([], 0)

    assert await sent(harness, (dead.id, 2)) == ["OK", 1]
    assert await lines(harness) == [{dead.id.ulid: "2 COMPLETED"}]


async def test_a_key_of_another_type_does_not_stop_the_others(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.running()
    await lease.complete()
    broken = TaskId.from_ulid("01JZ0000007000800000000000")
    await harness.client.set(harness.keys.task(broken.ulid), "no hash")
    await lost(harness)

    assert await sent(harness, (broken, 1), (lease.id, 1)) == ["OK", 1]
    assert await counter(harness) == 1


async def test_a_repeated_call_adds_a_second_entry_and_counts_it(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.running()
    await lease.complete()
    await lost(harness)

    for number in (1, 2):
        assert await sent(harness, (lease.id, 1)) == ["OK", 1]
        assert (len(await lines(harness)), await counter(harness)) == (number, number)
