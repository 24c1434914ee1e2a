"""Bulk decisions on dead tasks: each matching task once, and no refusal stops the others."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.dead.decide import fingerprint_of
from rqueue.errors import InvalidTask
from tests.dead.test_admin import died, log
from tests.harness import Harness


async def test_only_matching_tasks_are_decided_on(harness: Harness) -> None:
    wanted = [await died(harness, f"row {n} is bad") for n in range(3)]
    other = await died(harness, "else")
    cluster = fingerprint_of(await harness.task(wanted[0])).id
    progress: list[tuple[int, int]] = []

    found = await harness.queue.dead.decide_many(
        "retry",
        cluster=cluster,
        note="fixed",
        progress=lambda done, of: progress.append((done, of)),
    )

    assert set(found.tasks) == set(found.done) == set(wanted)
    assert (found.refused, progress) == ({}, [(3, 3)])
    assert {(await harness.task(task)).state for task in wanted} == {State.READY}
    assert (await harness.task(other)).state is State.DEAD_LETTERED
    assert {(review.task, review.note) for review in await log(harness)} == {
        (task, "fixed") for task in wanted
    }


@pytest.mark.parametrize(
    ("resolution", "options", "state"),
    [("wait", {"not_before": "2026-12-31T00:00:00Z"}, "PENDING"),
     ("escalate", {}, "DEAD_LETTERED"), ("cancel", {}, "CANCELLED"), ("delete", {}, "CANCELLED")],
)  # fmt: skip
async def test_each_resolution_applies_to_many_tasks(
    harness: Harness, resolution: Any, options: dict[str, Any], state: str
) -> None:
    tasks = [await died(harness) for _ in range(3)]
    before = await harness.dump()

    would = await harness.queue.dead.decide_many(resolution, dry_run=True, **options)
    assert (set(would.tasks), would.done) == (set(tasks), [])
    assert await harness.dump() == before
    found = await harness.queue.dead.decide_many(resolution, **options)

    assert set(found.done) == set(tasks)
    assert {(await harness.task(task)).state for task in tasks} == {State(state)}
    assert sorted(review.resolution for review in await log(harness)) == [resolution] * 3


async def test_a_task_that_cannot_be_retried_does_not_stop_the_others(harness: Harness) -> None:
    stuck = await died(harness, idempotency_key="k")
    await harness.queue.enqueue("code", {}, idempotency_key="k", delay=3600)
    broken = await died(harness, tags=["t"])
    free = [await died(harness) for _ in range(2)]
    await harness.client.hset(harness.keys.task(broken.ulid), "score", "broken")

    found = await harness.queue.dead.decide_many("retry")

    assert set(free) <= set(found.done)
    assert stuck in found.refused
    assert "idempotency key" in found.refused[stuck]
    assert {(await harness.task(task)).state for task in free} == {State.READY}


async def test_a_payload_cannot_be_changed_in_bulk(harness: Harness) -> None:
    await died(harness)

    with pytest.raises(InvalidTask):
        await harness.queue.dead.decide_many("modify_and_retry")


async def test_unknown_words_are_refused(harness: Harness) -> None:
    with pytest.raises(TypeError):
        await harness.queue.dead.decide_many("retry", colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        [task async for task in harness.queue.dead.list(colour="red")]  # type: ignore[call-arg]


async def test_a_thousand_tasks_are_decided_on_in_few_calls(harness: Harness) -> None:
    for _ in range(4):
        await harness.queue.enqueue_many([{"type": "code"}] * 250)
        for lease in await harness.queue.claim(worker="w1", n=250):
            await lease.fail("error", "no", permanent=True)
    calls: list[str] = []
    harness.queue._internals.shard.runner.observe = lambda name, _: calls.append(name)

    found = await harness.queue.dead.decide_many("escalate")
    again = await harness.queue.dead.decide_many("retry")

    assert (len(found.done), len(again.done)) == (1000, 1000)
    assert calls.count("task/escalate") == 4
    assert len(calls) < 50
    assert len(await log(harness)) == 2000
