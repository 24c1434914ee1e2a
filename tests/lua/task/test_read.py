"""read: all that is stored of tasks, at one moment."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.leases import Settled, complete
from rqueue.core.timers import read_last_check
from tests.harness import Harness
from tests.lua.rows import DEFINITION, everything, held, submitted, words


async def read(harness: Harness, *tasks: str, limit: int = 100_000) -> tuple[int, list[Any]]:
    """The server's time, and a row of text for each task: hash, definition and so on."""
    before = await harness.dump()
    word, now, *rows = words(
        await harness.queue._internals.shard.run(
            "task/read", {"limit": limit}, [(task,) for task in tasks]
        )
    )
    assert word == "OK"
    assert await harness.dump() == before
    for row in rows:
        row[0] = dict(zip(row[0][::2], row[0][1::2], strict=True))
    return int(now), rows


async def test_a_ready_task_is_its_hash_and_definition(harness: Harness) -> None:
    task = await submitted(harness)
    before, _ = await read_last_check(harness.queue._internals.shard)

    now, rows = await read(harness, task)

    assert before <= now <= (await read_last_check(harness.queue._internals.shard))[0]
    fields = (await everything(harness))[f"task:{task}"]
    assert rows == [[fields, DEFINITION, "", [], [], "", [], [], [], []]]


async def test_a_definition_is_found_wherever_it_is_stored(harness: Harness) -> None:
    bodies = ["a" * 64, "b" * 65, "c" * 200, "d" * 512, "e" * 513]
    tasks = [await submitted(harness, definition=body) for body in bodies]

    _, rows = await read(harness, *tasks)

    assert [row[1] for row in rows] == bodies


async def test_a_leased_task_has_the_idle_time_of_its_holder(harness: Harness) -> None:
    lease = await held(harness)
    (entry,) = (await everything(harness))["ready"][0]
    await harness.client.xclaim(
        harness.keys.ready(), "workers", "w1", 0, [entry], idle=50_000, justid=True
    )

    _, (row,) = await read(harness, lease.task)

    assert row[0]["state"] == "RUNNING"
    assert 50_000 <= row[5] < 110_000


async def test_a_leased_task_can_be_read_without_its_group(harness: Harness) -> None:
    lease = await held(harness)
    await harness.client.xgroup_destroy(harness.keys.ready(), "workers")

    _, (row,) = await read(harness, lease.task)

    assert (row[0]["state"], row[5]) == ("RUNNING", "")


async def test_a_pending_task_has_its_dependencies(harness: Harness) -> None:
    dependency = await submitted(harness)
    dependent = await submitted(harness, options={"parents": [dependency], "delay": 60_000})

    _, (row,) = await read(harness, dependent)

    assert set(row[4]) == {dependency, "@time"}


async def test_an_ended_task_has_its_result_and_failures(harness: Harness) -> None:
    lease = await held(harness)
    await harness.client.rpush(harness.keys.failures(lease.task), "one", "two")
    await complete(harness.queue._internals.shard, [Settled(*lease, b'"done"')])

    _, (row,) = await read(harness, lease.task)

    assert (row[2], row[3], row[5]) == ('"done"', ["one", "two"], "")


async def test_an_unknown_task_has_an_empty_hash_beside_the_others(harness: Harness) -> None:
    task = await submitted(harness)

    _, rows = await read(harness, "NOBODY", task)

    assert rows[0] == [{}, "", "", [], [], "", [], [], [], []]
    assert rows[1][0]["state"] == "READY"


async def test_a_call_without_tasks_returns_nothing(harness: Harness) -> None:
    _, rows = await read(harness)

    assert rows == []
    assert await harness.dump() == {}


async def test_a_call_reads_up_to_its_limit_and_at_least_one_task(harness: Harness) -> None:
    tasks = [await submitted(harness, definition=letter * 1000) for letter in "abc"]

    found = [len((await read(harness, *tasks, limit=limit))[1]) for limit in (1, 1500, 9000)]

    assert found == [1, 2, 3]


async def test_the_client_reads_all_tasks(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqueue.core.reader.BYTES", 1)
    tasks = [await submitted(harness) for _ in range(3)]
    await harness.client.set(harness.keys.failures(tasks[1]), "no list")

    found = await harness.queue._internals.operations.reader.read([*tasks, "NOBODY"])

    seen = [None if task is None else task.id.ulid for task in found]
    assert seen == [tasks[0], None, tasks[2], None]
