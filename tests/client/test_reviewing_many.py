"""Deciding about many of the dead at once: those that fit, each once, and none stops another."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.client.deciding import fingerprint_of
from rqueue.errors import InvalidTask
from tests.client.test_reviewing import died, log
from tests.house import House


async def test_only_those_that_fit_are_decided_about(house: House) -> None:
    wanted = [await died(house, f"row {n} is bad") for n in range(3)]
    other = await died(house, "else")
    cluster = fingerprint_of(await house.task(wanted[0])).id
    heard: list[tuple[int, int]] = []

    found = await house.queue.resolve_many(
        "retry", cluster=cluster, note="fixed", told=lambda done, of: heard.append((done, of))
    )

    assert set(found.tasks) == set(found.done) == set(wanted)
    assert (found.refused, heard) == ({}, [(3, 3)])
    assert {(await house.task(task)).state for task in wanted} == {State.READY}
    assert (await house.task(other)).state is State.DEAD_LETTERED
    assert {(review.task, review.note) for review in await log(house)} == {
        (task, "fixed") for task in wanted
    }


@pytest.mark.parametrize(
    ("resolution", "said", "state"),
    [("wait", {"not_before": "2026-12-31T00:00:00Z"}, "PENDING"),
     ("escalate", {}, "DEAD_LETTERED"), ("cancel", {}, "CANCELLED"), ("delete", {}, "CANCELLED")],
)  # fmt: skip
async def test_each_resolution_is_for_many(
    house: House, resolution: Any, said: dict[str, Any], state: str
) -> None:
    tasks = [await died(house) for _ in range(3)]
    before = await house.dump()

    would = await house.queue.resolve_many(resolution, dry_run=True, **said)
    assert (set(would.tasks), would.done) == (set(tasks), [])
    assert await house.dump() == before
    found = await house.queue.resolve_many(resolution, **said)

    assert set(found.done) == set(tasks)
    assert {(await house.task(task)).state for task in tasks} == {State(state)}
    assert sorted(review.resolution for review in await log(house)) == [resolution] * 3


async def test_one_that_cannot_live_again_stops_no_other(house: House) -> None:
    stuck = await died(house, idempotency_key="k")
    await house.queue.enqueue("code", {}, idempotency_key="k", delay=3600)
    broken = await died(house, tags=["t"])
    free = [await died(house) for _ in range(2)]
    await house.client.hset(house.keys.task(broken.ulid), "score", "broken")

    found = await house.queue.resolve_many("retry")

    assert set(free) <= set(found.done)
    assert stuck in found.refused
    assert "idempotency key" in found.refused[stuck]
    assert {(await house.task(task)).state for task in free} == {State.READY}


async def test_a_payload_is_changed_one_by_one(house: House) -> None:
    await died(house)

    with pytest.raises(InvalidTask):
        await house.queue.resolve_many("modify_and_retry")


async def test_unknown_words_are_refused(house: House) -> None:
    with pytest.raises(TypeError):
        await house.queue.resolve_many("retry", colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        [task async for task in house.queue.dead_tasks(colour="red")]  # type: ignore[call-arg]


async def test_a_thousand_are_decided_about_in_few_calls(house: House) -> None:
    for _ in range(4):
        await house.queue.enqueue_many([{"type": "code"}] * 250)
        for lease in await house.queue.claim(worker="w1", n=250):
            await lease.fail("error", "no", permanent=True)
    calls: list[str] = []
    house.queue.shard.runner.observe = lambda name, _: calls.append(name)

    found = await house.queue.resolve_many("escalate")
    again = await house.queue.resolve_many("retry")

    assert (len(found.done), len(again.done)) == (1000, 1000)
    assert calls.count("task/escalate") == 4
    assert len(calls) < 50
    assert len(await log(house)) == 2000
