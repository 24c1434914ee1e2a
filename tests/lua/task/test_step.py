"""step: what a step of a running task gave, kept once while its lease is held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rqueue.errors import InvalidTask, LeaseLost
from rqueue.store.leases import Held, Settled, complete
from rqueue.store.steps import step
from tests.house import House
from tests.lua.rows import everything, held, pttl


def limited(house: House, **terms: Any) -> None:
    house.queue.shard.terms = replace(house.queue.shard.terms, **terms)


async def test_a_step_is_kept_beside_the_task(house: House) -> None:
    lease = await held(house)
    before = await everything(house)

    assert await step(house.queue.shard, lease, "fetch", b"[1]") == b"[1]"

    found = await everything(house)
    assert found.pop(f"steps:{lease.task}") == {"fetch": "[1]"}
    before[f"task:{lease.task}"]["flags"] = "k"
    assert found == before


async def test_a_step_sent_again_changes_nothing_and_tells_the_first(house: House) -> None:
    lease = await held(house)
    await step(house.queue.shard, lease, "fetch", b"1")
    before = await house.dump()

    assert await step(house.queue.shard, lease, "fetch", b"1") == b"1"
    assert await step(house.queue.shard, lease, "fetch", b"2") == b"1"

    assert await house.dump() == before


async def test_to_ask_writes_nothing(house: House) -> None:
    lease = await held(house)
    before = await house.dump()

    assert await step(house.queue.shard, lease, "fetch") == b""

    assert await house.dump() == before


async def test_a_stale_token_keeps_and_learns_nothing(house: House) -> None:
    lease = await held(house)
    await step(house.queue.shard, lease, "fetch", b"1")
    before = await house.dump()

    for stranger in (Held(lease.task, "9:other"), Held("NOBODY", lease.token)):
        for result in (b"", b"2"):
            with pytest.raises(LeaseLost):
                await step(house.queue.shard, stranger, "fetch", result)

    assert await house.dump() == before


async def test_one_step_too_many_is_refused_and_those_that_are_kept_are_told(house: House) -> None:
    limited(house, max_steps=2)
    lease = await held(house)
    await step(house.queue.shard, lease, "a", b"1")
    await step(house.queue.shard, lease, "b", b"2")
    before = await house.dump()

    with pytest.raises(InvalidTask, match="max_steps"):
        await step(house.queue.shard, lease, "c", b"3")

    assert await step(house.queue.shard, lease, "b", b"2") == b"2"
    assert await house.dump() == before


async def test_a_result_that_is_too_large_is_refused(house: House) -> None:
    limited(house, max_result_bytes=10)
    lease = await held(house)
    before = await house.dump()

    with pytest.raises(InvalidTask, match="max_result_bytes"):
        await step(house.queue.shard, lease, "fetch", b"x" * 11)

    assert await house.dump() == before


async def test_steps_expire_with_their_task(house: House) -> None:
    lease = await held(house)
    await step(house.queue.shard, lease, "fetch", b"1")

    await complete(house.queue.shard, [Settled(lease.task, lease.token, b"")])

    assert 0 < await pttl(house, f"steps:{lease.task}") <= house.queue.shard.terms.result_ttl_ms


async def test_steps_outlive_a_death_and_go_with_a_discard(house: House) -> None:
    lease = await house.running()
    await step(house.queue.shard, Held(lease.id.ulid, lease.token), "fetch", b"1")
    await lease.fail("error", "broken", permanent=True)

    assert await pttl(house, f"steps:{lease.id.ulid}") == -1
    assert (await house.queue.get(lease.id)).steps == ("fetch",)

    await house.queue.discard(lease.id)
    assert await pttl(house, f"steps:{lease.id.ulid}") > 0


async def test_steps_are_kept_over_a_revive(house: House) -> None:
    first = await house.running()
    await step(house.queue.shard, Held(first.id.ulid, first.token), "fetch", b"1")
    await first.fail("error", "broken", permanent=True)
    await house.queue.revive(first.id)

    (second,) = await house.queue.claim(worker="w2")

    assert await step(house.queue.shard, Held(second.id.ulid, second.token), "fetch") == b"1"
