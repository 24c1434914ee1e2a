"""read: all that is known of tasks, at one moment."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.store.leases import Settled, complete
from rqueue.store.reaping import read_seen
from tests.house import House
from tests.lua.rows import DEFINITION, everything, held, submitted, words


async def read(house: House, *tasks: str, limit: int = 100_000) -> tuple[int, list[Any]]:
    """The server's time, and a row of text for each task: hash, definition and so on."""
    before = await house.dump()
    word, now, *rows = words(
        await house.queue.shard.run("task/read", {"limit": limit}, [(task,) for task in tasks])
    )
    assert word == "OK"
    assert await house.dump() == before
    for row in rows:
        row[0] = dict(zip(row[0][::2], row[0][1::2], strict=True))
    return int(now), rows


async def test_a_ready_task_is_its_hash_and_definition(house: House) -> None:
    task = await submitted(house)
    before, _ = await read_seen(house.queue.shard)

    now, rows = await read(house, task)

    assert before <= now <= (await read_seen(house.queue.shard))[0]
    fields = (await everything(house))[f"task:{task}"]
    assert rows == [[fields, DEFINITION, "", [], [], "", [], [], [], []]]


async def test_a_definition_is_found_wherever_it_stands(house: House) -> None:
    bodies = ["a" * 64, "b" * 65, "c" * 200, "d" * 512, "e" * 513]
    tasks = [await submitted(house, definition=body) for body in bodies]

    _, rows = await read(house, *tasks)

    assert [row[1] for row in rows] == bodies


async def test_a_held_task_tells_how_long_its_holder_was_silent(house: House) -> None:
    lease = await held(house)
    (entry,) = (await everything(house))["ready"][0]
    await house.client.xclaim(
        house.keys.ready(), "workers", "w1", 0, [entry], idle=50_000, justid=True
    )

    _, (row,) = await read(house, lease.task)

    assert row[0]["state"] == "RUNNING"
    assert 50_000 <= row[5] < 110_000


async def test_a_held_task_can_be_read_without_its_group(house: House) -> None:
    lease = await held(house)
    await house.client.xgroup_destroy(house.keys.ready(), "workers")

    _, (row,) = await read(house, lease.task)

    assert (row[0]["state"], row[5]) == ("RUNNING", "")


async def test_a_pending_task_tells_what_it_waits_for(house: House) -> None:
    parent = await submitted(house)
    child = await submitted(house, ask={"parents": [parent], "delay": 60_000})

    _, (row,) = await read(house, child)

    assert set(row[4]) == {parent, "@time"}


async def test_an_ended_task_tells_its_result_and_failures(house: House) -> None:
    lease = await held(house)
    await house.client.rpush(house.keys.failures(lease.task), "one", "two")
    await complete(house.queue.shard, [Settled(*lease, b'"done"')])

    _, (row,) = await read(house, lease.task)

    assert (row[2], row[3], row[5]) == ('"done"', ["one", "two"], "")


async def test_an_unknown_task_has_an_empty_hash_beside_the_others(house: House) -> None:
    task = await submitted(house)

    _, rows = await read(house, "NOBODY", task)

    assert rows[0] == [{}, "", "", [], [], "", [], [], [], []]
    assert rows[1][0]["state"] == "READY"


async def test_nothing_asked_is_nothing_told(house: House) -> None:
    _, rows = await read(house)

    assert rows == []
    assert await house.dump() == {}


async def test_it_reads_until_it_is_too_much_and_at_least_one(house: House) -> None:
    tasks = [await submitted(house, definition=letter * 1000) for letter in "abc"]

    found = [len((await read(house, *tasks, limit=limit))[1]) for limit in (1, 1500, 9000)]

    assert found == [1, 2, 3]


async def test_all_are_read_in_the_end(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqueue.store.reader.BYTES", 1)
    tasks = [await submitted(house) for _ in range(3)]
    await house.client.set(house.keys.failures(tasks[1]), "no list")

    found = await house.queue.desk.reader.read([*tasks, "NOBODY"])

    seen = [None if task is None else task.id.ulid for task in found]
    assert seen == [tasks[0], None, tasks[2], None]
