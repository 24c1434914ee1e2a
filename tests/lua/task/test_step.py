"""step: the result of a step of a running task, stored once while its lease is held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rqueue.core.leases import HeldLease, Settled, complete
from rqueue.core.notes import step
from rqueue.errors import InvalidTask, LeaseLost
from tests.harness import Harness
from tests.lua.rows import everything, held, pttl


def limited(harness: Harness, **terms: Any) -> None:
    harness.queue._internals.shard.terms = replace(harness.queue._internals.shard.terms, **terms)


async def test_a_step_is_stored_with_the_task(harness: Harness) -> None:
    lease = await held(harness)
    before = await everything(harness)

    assert await step(harness.queue._internals.shard, lease, "fetch", b"[1]") == b"[1]"

    found = await everything(harness)
    assert found.pop(f"steps:{lease.task}") == {"fetch": "[1]"}
    before[f"task:{lease.task}"]["flags"] = "k"
    assert found == before


async def test_a_repeated_step_changes_nothing_and_returns_the_first_result(
    harness: Harness,
) -> None:
    lease = await held(harness)
    await step(harness.queue._internals.shard, lease, "fetch", b"1")
    before = await harness.dump()

    assert await step(harness.queue._internals.shard, lease, "fetch", b"1") == b"1"
    assert await step(harness.queue._internals.shard, lease, "fetch", b"2") == b"1"

    assert await harness.dump() == before


async def test_a_read_writes_nothing(harness: Harness) -> None:
    lease = await held(harness)
    before = await harness.dump()

    assert await step(harness.queue._internals.shard, lease, "fetch") == b""

    assert await harness.dump() == before


async def test_a_stale_token_stores_and_reads_nothing(harness: Harness) -> None:
    lease = await held(harness)
    await step(harness.queue._internals.shard, lease, "fetch", b"1")
    before = await harness.dump()

    for unknown in (HeldLease(lease.task, "9:other"), HeldLease("NOBODY", lease.token)):
        for result in (b"", b"2"):
            with pytest.raises(LeaseLost):
                await step(harness.queue._internals.shard, unknown, "fetch", result)

    assert await harness.dump() == before


async def test_a_step_above_the_limit_is_refused_and_stored_ones_are_returned(
    harness: Harness,
) -> None:
    limited(harness, max_steps=2)
    lease = await held(harness)
    await step(harness.queue._internals.shard, lease, "a", b"1")
    await step(harness.queue._internals.shard, lease, "b", b"2")
    before = await harness.dump()

    with pytest.raises(InvalidTask, match="max_steps"):
        await step(harness.queue._internals.shard, lease, "c", b"3")

    assert await step(harness.queue._internals.shard, lease, "b", b"2") == b"2"
    assert await harness.dump() == before


async def test_a_result_that_is_too_large_is_refused(harness: Harness) -> None:
    limited(harness, max_result_bytes=10)
    lease = await held(harness)
    before = await harness.dump()

    with pytest.raises(InvalidTask, match="max_result_bytes"):
        await step(harness.queue._internals.shard, lease, "fetch", b"x" * 11)

    assert await harness.dump() == before


async def test_steps_expire_with_their_task(harness: Harness) -> None:
    lease = await held(harness)
    await step(harness.queue._internals.shard, lease, "fetch", b"1")

    await complete(harness.queue._internals.shard, [Settled(lease.task, lease.token, b"")])

    assert (
        0
        < await pttl(harness, f"steps:{lease.task}")
        <= harness.queue._internals.shard.terms.result_ttl_ms
    )


async def test_steps_outlive_a_dead_task_and_expire_with_a_discard(harness: Harness) -> None:
    lease = await harness.running()
    await step(harness.queue._internals.shard, HeldLease(lease.id.ulid, lease.token), "fetch", b"1")
    await lease.fail("error", "broken", permanent=True)

    assert await pttl(harness, f"steps:{lease.id.ulid}") == -1
    assert (await harness.queue.get(lease.id)).steps == ("fetch",)

    await harness.queue.dead.discard(lease.id)
    assert await pttl(harness, f"steps:{lease.id.ulid}") > 0


async def test_steps_are_kept_in_a_new_life(harness: Harness) -> None:
    first = await harness.running()
    await step(harness.queue._internals.shard, HeldLease(first.id.ulid, first.token), "fetch", b"1")
    await first.fail("error", "broken", permanent=True)
    await harness.queue.dead.retry(first.id)

    (second,) = await harness.queue.claim(worker="w2")

    assert (
        await step(harness.queue._internals.shard, HeldLease(second.id.ulid, second.token), "fetch")
        == b"1"
    )
