"""recount: the counter of the outbox is set to its content, if neither changed since."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.outbox import Entry, archived, measure
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keyspace import run_move


async def drifted(harness: Harness, by: int = 3) -> dict[str, Any]:
    """Two tasks in two entries, a wrong counter, and the result of a walk."""
    for _ in range(2):
        await (await harness.running()).complete()
    counter = await harness.client.hincrby(harness.keys.stats(), "outbox", by)
    seen = await measure(harness.queue._internals.shard)
    return {"entries": seen.entries, "last": seen.last, "counter": counter, "counted": seen.tasks}


@pytest.mark.parametrize("drift", [3, -3])
async def test_the_counter_is_set_to_the_content(archived_harness: Harness, drift: int) -> None:
    harness = archived_harness
    args = await drifted(harness, drift)
    before = await everything(harness)

    assert await run_move(harness, "archive/recount", args) == ["OK"]

    before["stats"]["outbox"] = "2"
    assert await everything(harness) == before
    assert await run_move(harness, "archive/recount", args) == ["OK"]
    assert await everything(harness) == before


async def test_an_empty_outbox_is_counted_too(harness: Harness) -> None:
    await harness.client.hset(harness.keys.stats(), "outbox", 5)
    args: dict[str, Any] = {"entries": 0, "last": "", "counter": 5, "counted": 0}

    assert await run_move(harness, "archive/recount", args) == ["OK"]

    assert (await everything(harness))["stats"] == {"outbox": "0"}


async def test_a_task_that_ended_meanwhile_leaves_the_counter_unchanged(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    args = await drifted(harness)
    await (await harness.running()).complete()
    before = await everything(harness)

    assert await run_move(harness, "archive/recount", args) == ["STATE", "6"]

    assert await everything(harness) == before


async def test_a_task_that_was_archived_meanwhile_leaves_the_counter_unchanged(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    args = await drifted(harness)
    ((first, _), _) = await harness.client.xrange(harness.keys.outbox())
    await archived(harness.queue._internals.shard, [Entry(first.decode(), [])])

    assert await run_move(harness, "archive/recount", args) == ["STATE", "4"]


async def test_a_counter_that_another_call_has_repaired_is_unchanged(
    archived_harness: Harness,
) -> None:
    args = await drifted(archived_harness)
    await archived_harness.client.hset(archived_harness.keys.stats(), "outbox", 9)

    assert await run_move(archived_harness, "archive/recount", args) == ["STATE", "9"]
