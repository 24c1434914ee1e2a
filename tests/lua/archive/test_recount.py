"""recount: the counter of the outbox is set to what is in it, if both stood still."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.outbox import Entry, archived, measure
from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keys_after import ask


async def drifted(harness: Harness, by: int = 3) -> dict[str, Any]:
    """Two tasks in two entries, a counter that is wrong, and what a walk has seen."""
    for _ in range(2):
        await (await harness.running()).complete()
    counter = await harness.client.hincrby(harness.keys.stats(), "outbox", by)
    seen = await measure(harness.queue._internals.shard)
    return {"entries": seen.entries, "last": seen.last, "counter": counter, "counted": seen.tasks}


@pytest.mark.parametrize("drift", [3, -3])
async def test_the_counter_is_what_is_there(archived_harness: Harness, drift: int) -> None:
    harness = archived_harness
    args = await drifted(harness, drift)
    before = await everything(harness)

    assert await ask(harness, "archive/recount", args) == ["OK"]

    before["stats"]["outbox"] = "2"
    assert await everything(harness) == before
    assert await ask(harness, "archive/recount", args) == ["OK"]
    assert await everything(harness) == before


async def test_an_empty_outbox_is_counted_too(harness: Harness) -> None:
    await harness.client.hset(harness.keys.stats(), "outbox", 5)
    args: dict[str, Any] = {"entries": 0, "last": "", "counter": 5, "counted": 0}

    assert await ask(harness, "archive/recount", args) == ["OK"]

    assert (await everything(harness))["stats"] == {"outbox": "0"}


async def test_what_ended_meanwhile_leaves_it_alone(archived_harness: Harness) -> None:
    harness = archived_harness
    args = await drifted(harness)
    await (await harness.running()).complete()
    before = await everything(harness)

    assert await ask(harness, "archive/recount", args) == ["STATE", "6"]

    assert await everything(harness) == before


async def test_what_was_archived_meanwhile_leaves_it_alone(archived_harness: Harness) -> None:
    harness = archived_harness
    args = await drifted(harness)
    ((first, _), _) = await harness.client.xrange(harness.keys.outbox())
    await archived(harness.queue._internals.shard, [Entry(first.decode(), [])])

    assert await ask(harness, "archive/recount", args) == ["STATE", "4"]


async def test_a_counter_that_another_has_mended_is_left_alone(archived_harness: Harness) -> None:
    args = await drifted(archived_harness)
    await archived_harness.client.hset(archived_harness.keys.stats(), "outbox", 9)

    assert await ask(archived_harness, "archive/recount", args) == ["STATE", "9"]
