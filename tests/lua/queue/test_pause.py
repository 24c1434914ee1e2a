"""pause: no task of the queue, a type or a lane can be claimed; running tasks continue."""

from __future__ import annotations

import pytest

from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keyspace import LANES, W1, all_keys, mailbox_lines, run_move, waiting_claim


async def test_a_pause_is_stored(harness: Harness) -> None:
    assert await run_move(harness, "queue/pause", {"what": "queue"}) == ["OK"]

    assert await all_keys(harness) == {"paused": ["queue"]}


@pytest.mark.parametrize("what", ["queue", "type=code", "lane=1"])
async def test_paused_tasks_are_not_claimed(harness: Harness, what: str) -> None:
    await harness.queue.enqueue("code")

    await run_move(harness, "queue/pause", {"what": what})

    assert await harness.queue.claim(worker="w1", types=["code"]) == []


@pytest.mark.parametrize("what", ["type=review", "lane=2"])
async def test_other_tasks_are_claimed(harness: Harness, what: str) -> None:
    await harness.queue.enqueue("code")
    await harness.queue.enqueue("review")

    await run_move(harness, "queue/pause", {"what": what})

    (lease,) = await harness.queue.claim(worker="w1", n=2)
    assert lease.task.type == "code"


async def test_running_tasks_continue(harness: Harness) -> None:
    lease = await harness.running()

    await run_move(harness, "queue/pause", {"what": "queue"})

    await lease.renew()
    await lease.complete("done")
    assert (await harness.task(lease.id)).result == "done"


async def test_a_waiting_claim_gets_no_paused_task(harness: Harness) -> None:
    waiter = await waiting_claim(harness)
    await run_move(harness, "queue/pause", {"what": "type=code"})

    await harness.queue.enqueue("code")

    assert await mailbox_lines(harness, waiter) == []


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    lease = await harness.running()
    await run_move(harness, "queue/pause", {"what": "queue"})
    before = await everything(harness)

    assert await run_move(harness, "queue/pause", {"what": "queue"}) == ["OK"]
    assert await everything(harness) == before
    assert set(await all_keys(harness, a=lease.id)) == {
        *LANES, *W1, "task:a", "ready", "stats", "paused",
    }  # fmt: skip
