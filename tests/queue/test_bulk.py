"""Finding, counting, cancelling and purging many tasks by a filter."""

from __future__ import annotations

import gc
from datetime import timedelta
from typing import Any

import pytest

from rqueue import State, Task
from rqueue.clock import SYSTEM
from rqueue.core import tasks
from rqueue.operations import filter_of
from rqueue.task.priority import Tier
from tests.harness import Harness


async def furnished(harness: Harness) -> None:
    """Creates tasks in every state that a sweep can find."""
    queue = harness.queue
    for outcome in ("dead", "running", "claimed"):
        lease = await harness.claimed("code", tags=[outcome, "all"], max_attempts=1)
        if outcome == "dead":
            await lease.fail("error", "no")
        elif outcome == "running":
            await lease.start()
    await queue.enqueue("code", tags=["ready", "all"], priority=5)
    parent = await queue.enqueue("mail", tags=["all"], priority=95)
    await queue.enqueue("mail", depends_on=[parent.id], tags=["blocked", "all"])


async def test_tasks_are_counted_by_state_type_and_tier(harness: Harness) -> None:
    await furnished(harness)

    counts = await harness.queue.counts()

    assert {state: n for state, n in counts.by_state.items() if n} == {
        State.DEAD_LETTERED: 1, State.RUNNING: 1, State.CLAIMED: 1, State.READY: 2,
        State.PENDING: 1,
    }  # fmt: skip
    assert counts.by_type["mail"] == {State.READY: 1, State.PENDING: 1}
    assert (counts.by_tier[Tier.CRITICAL], counts.by_tier[Tier.BACKGROUND]) == (1, 1)
    assert (counts.live, counts.submitted) == (5, 6)
    assert counts["READY"] == counts[State.READY] == 2


async def test_an_empty_queue_counts_nothing(harness: Harness) -> None:
    counts = await harness.queue.counts()

    assert (counts.live, counts.submitted, counts["COMPLETED"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, 5),
        ({"type": "code"}, 3),
        ({"type": "nothing"}, 0),
        ({"tag": "all"}, 5),
        ({"tag": "ready"}, 1),
        ({"tag": "all", "type": "mail"}, 2),
        ({"states": ["READY"]}, 2),
        ({"states": ["READY", State.PENDING]}, 3),
        ({"states": [State.RUNNING, State.CLAIMED]}, 2),
        ({"states": ["DEAD_LETTERED"]}, 1),
        ({"states": ["DEAD_LETTERED"], "tag": "ready"}, 0),
        ({"before": SYSTEM.now() + timedelta(days=1)}, 5),
        ({"before": SYSTEM.now() - timedelta(days=1)}, 0),
    ],
)
async def test_tasks_are_found_by_state_type_tag_and_age(
    harness: Harness, wanted: dict[str, object], found: int
) -> None:
    await furnished(harness)

    tasks = [task async for task in harness.queue.find(**wanted)]  # type: ignore[arg-type]

    assert len(tasks) == len({task.id for task in tasks}) == found


async def test_a_dry_run_only_lists_the_matches(harness: Harness) -> None:
    await furnished(harness)
    before = await harness.dump()

    swept = await harness.queue.purge(states=None, type="code", dry_run=True)

    assert (swept.found, swept.done, len(swept.tasks)) == (3, 0, 3)
    assert await harness.dump() == before


async def test_many_tasks_are_cancelled_in_one_call(harness: Harness) -> None:
    await furnished(harness)

    swept = await harness.queue.purge(states=None, tag="all", reason="the end")

    assert (swept.found, swept.done) == (5, 5)
    counts = await harness.queue.counts()
    assert (counts.live, counts["CANCELLED"], counts["DEAD_LETTERED"]) == (0, 5, 1)
    for task in swept.tasks:
        assert (await harness.task(task)).state is State.CANCELLED


async def test_a_purge_discards_dead_tasks_by_default(harness: Harness) -> None:
    await furnished(harness)

    dry = await harness.queue.purge(dry_run=True)
    swept = await harness.queue.purge(reason="old")
    rest = await harness.queue.purge(states=["READY"], type="code")

    assert (dry.found, dry.done) == (1, 0)
    assert (swept.found, swept.done) == (1, 1)
    assert (rest.found, rest.done) == (1, 1)
    counts = await harness.queue.counts()
    assert (counts["DEAD_LETTERED"], counts["READY"]) == (0, 1)


async def test_more_than_one_page_is_swept(alone: Harness) -> None:
    await alone.queue.enqueue_many([{"type": "code", "tags": ["a"]}] * 1201)

    swept = await alone.queue.purge(states=None, tag="a")

    assert (swept.found, swept.done) == (1201, 1201)
    assert (await alone.queue.counts()).live == 0


async def test_a_task_is_found_once_while_others_are_added(alone: Harness) -> None:
    there = {handle.id for handle in await alone.queue.enqueue_many([{"type": "code"}] * 1201)}
    urgent = [{"type": "code", "priority": 1}] * 1500
    found: list[str] = []

    async for task in alone.queue.find():
        if not found:
            await alone.queue.enqueue_many(urgent)
        found.append(task.id)

    assert there <= set(found)
    assert len(found) == len(set(found))


async def test_a_task_is_found_while_others_end_or_move(alone: Harness) -> None:
    handles = await alone.queue.enqueue_many([{"type": "code"}] * 1201)
    found: list[str] = []

    async for task in alone.queue.find(states=["READY"]):
        if not found:
            await alone.queue.claim(worker="w1", n=400)
            for handle in handles[400:450]:
                await alone.queue.set_priority(handle.id, 100)
        found.append(task.id)

    assert {handle.id for handle in handles[400:]} <= set(found)
    assert len(found) == len(set(found))


async def test_a_task_claimed_during_the_search_is_found(harness: Harness) -> None:
    first, second = await harness.queue.enqueue_many(
        [{"type": "code", "delay": 60}, {"type": "code"}]
    )
    found: list[str] = []

    async for task in harness.queue.find():
        if not found:
            await harness.queue.claim(worker="w1")
        found.append(task.id)

    assert sorted(found) == sorted([first.id, second.id])


async def test_a_sweep_keeps_no_payloads(alone: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    await alone.queue.enqueue_many([{"type": "code"}] * 1201)
    cancel, kept = tasks.cancel, []

    async def counting(*args: Any, **options: Any) -> list[str]:
        gc.collect()
        kept.append(sum(isinstance(thing, Task) for thing in gc.get_objects()))
        return await cancel(*args, **options)

    monkeypatch.setattr(tasks, "cancel", counting)
    swept = await alone.queue.purge(states=None)

    assert (swept.found, swept.done) == (1201, 1201)
    assert max(kept) <= 600


async def test_a_sweep_reports_its_progress(harness: Harness) -> None:
    await harness.queue.enqueue_many([harness.queue.call("code") for _ in range(3)])
    progress: list[tuple[int, int]] = []

    chosen = await harness.queue._internals.operations.chosen(
        filter_of(None, None, None, None), reason=""
    )
    await harness.queue._internals.operations.end(
        chosen, reason="", progress=lambda done, of: progress.append((done, of))
    )

    assert progress[-1] == (3, 3)
