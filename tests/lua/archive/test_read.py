"""read: all that is stored of an ended task; nothing is changed."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_core import from_json

from rqueue import TaskId
from rqueue.core.ended import EndedTask, pairs, read_whole
from tests.harness import Harness
from tests.lua.task.keyspace import run_move


async def completed(harness: Harness, result: Any = "done", **options: Any) -> TaskId:
    lease = await harness.running(**options)
    await lease.complete(result)
    return lease.id


async def kept(harness: Harness, task: TaskId) -> EndedTask:
    (found,) = await read_whole(harness.queue._internals.shard, [task.ulid])
    return found.unpacked()


async def test_a_plain_task_is_its_hash_definition_and_result(archived_harness: Harness) -> None:
    task = await completed(archived_harness)

    found = await kept(archived_harness, task)

    fields = dict(pairs(found.flat))
    assert fields[b"state"] == b"COMPLETED"
    assert (found.definition, found.result) == (b'{"t":"code"}', b'"done"')
    beside = (found.failures, found.notes, found.logs, found.parents, found.steps)
    assert [list(each) for each in beside] == [[], [], [], [], []]


async def test_the_keys_beside_the_hash_are_returned(archived_harness: Harness) -> None:
    lease = await archived_harness.running(max_attempts=3)
    await lease.fail("error", "once")
    await archived_harness.make_due(lease.id)
    await archived_harness.promoter.tick()
    (again,) = await archived_harness.queue.claim(worker="w1")
    await again.start()
    await again.spend(0.5, tokens_in=3)
    await again.complete()

    found = await kept(archived_harness, lease.id)

    assert b'"error":"once"' in found.failures[0]
    assert dict(pairs(found.notes))[b"micro_usd"] == b"500000"


async def test_an_unknown_task_has_an_empty_hash(archived_harness: Harness) -> None:
    args = {"limit": 1000, "joined": 1}

    assert await run_move(archived_harness, "archive/read", args, [("gone",)]) == [
        "OK",
        ["", 0, "", ""],
    ]
    assert await read_whole(archived_harness.queue._internals.shard, ["gone"]) == [
        EndedTask((), b"", b"")
    ]


async def test_large_tasks_end_a_call_and_at_least_one_is_returned(
    archived_harness: Harness,
) -> None:
    tasks = [await completed(archived_harness, "x" * 1000) for _ in range(3)]
    rows = [(task.ulid,) for task in tasks]
    before = await archived_harness.dump()

    one = await run_move(archived_harness, "archive/read", {"limit": 1, "joined": 1}, rows)
    two = await run_move(archived_harness, "archive/read", {"limit": 1500, "joined": 1}, rows)

    assert (len(one), len(two)) == (1 + 1, 1 + 2)
    assert await archived_harness.dump() == before


async def test_a_task_with_a_key_of_another_type_does_not_stop_the_others(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    tasks = [await completed(harness) for _ in range(3)]
    await harness.client.delete(harness.keys.result(tasks[1].ulid))
    await harness.client.rpush(harness.keys.result(tasks[1].ulid), "odd")

    found: list[EndedTask] = []
    ulids = [task.ulid for task in tasks]
    while len(found) < len(ulids):
        page = await read_whole(harness.queue._internals.shard, ulids[len(found) :])
        found += [each.unpacked() for each in page]

    assert [bool(each.flat) for each in found] == [True, False, True]


async def test_words_that_contain_nuls_are_unchanged(archived_harness: Harness) -> None:
    harness = archived_harness
    tasks = [await completed(harness) for _ in range(3)]
    await harness.client.hset(harness.keys.task(tasks[1].ulid), "holder", b"1 2 a\0b")

    page = await read_whole(harness.queue._internals.shard, [task.ulid for task in tasks])

    found = [each.unpacked() for each in page]
    assert dict(pairs(found[1].flat))[b"holder"] == b"1 2 a\0b"
    assert [each.definition for each in found] == [b'{"t":"code"}'] * 3
    assert [each.result for each in found] == [b'"done"'] * 3


@pytest.mark.parametrize("size", [0, 40, 100, 300, 480, 5000])
@pytest.mark.parametrize("tags", [(), ("a",)])
async def test_a_definition_is_complete_wherever_it_is_stored(
    archived_harness: Harness, size: int, tags: tuple[str, ...]
) -> None:
    handle = await archived_harness.queue.enqueue("code", "x" * size, tags=tags)
    (lease,) = await archived_harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()

    found = await kept(archived_harness, handle.id)

    assert from_json(found.definition)["p"] == "x" * size
