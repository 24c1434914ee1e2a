"""pause: nothing of the queue, a type or a lane is handed out; what runs goes on."""

from __future__ import annotations

import pytest

from tests.harness import Harness
from tests.lua.rows import everything
from tests.lua.task.keys_after import LANES, W1, afterwards, ask, mail, parked


async def test_a_pause_is_written_down(harness: Harness) -> None:
    assert await ask(harness, "queue/pause", {"what": "queue"}) == ["OK"]

    assert await afterwards(harness) == {"paused": ["queue"]}


@pytest.mark.parametrize("what", ["queue", "type=code", "lane=1"])
async def test_what_is_paused_is_not_handed_out(harness: Harness, what: str) -> None:
    await harness.queue.enqueue("code")

    await ask(harness, "queue/pause", {"what": what})

    assert await harness.queue.claim(worker="w1", types=["code"]) == []


@pytest.mark.parametrize("what", ["type=review", "lane=2"])
async def test_what_is_not_paused_is_handed_out(harness: Harness, what: str) -> None:
    await harness.queue.enqueue("code")
    await harness.queue.enqueue("review")

    await ask(harness, "queue/pause", {"what": what})

    (lease,) = await harness.queue.claim(worker="w1", n=2)
    assert lease.task.type == "code"


async def test_what_runs_goes_on(harness: Harness) -> None:
    lease = await harness.running()

    await ask(harness, "queue/pause", {"what": "queue"})

    await lease.renew()
    await lease.complete("done")
    assert (await harness.task(lease.id)).result == "done"


async def test_who_waits_is_not_given_what_is_paused(harness: Harness) -> None:
    waiter = await parked(harness)
    await ask(harness, "queue/pause", {"what": "type=code"})

    await harness.queue.enqueue("code")

    assert await mail(harness, waiter) == []


async def test_sent_again_it_says_the_same_and_changes_nothing(harness: Harness) -> None:
    lease = await harness.running()
    await ask(harness, "queue/pause", {"what": "queue"})
    before = await everything(harness)

    assert await ask(harness, "queue/pause", {"what": "queue"}) == ["OK"]
    assert await everything(harness) == before
    assert set(await afterwards(harness, a=lease.id)) == {
        *LANES, *W1, "task:a", "ready", "stats", "paused",
    }  # fmt: skip
