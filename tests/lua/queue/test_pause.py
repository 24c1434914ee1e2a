"""pause: nothing of the queue, a type or a lane is handed out; what runs goes on."""

from __future__ import annotations

import pytest

from tests.house import House
from tests.lua.rows import everything
from tests.lua.task.afterwards import LANES, W1, afterwards, ask, mail, parked


async def test_a_pause_is_written_down(house: House) -> None:
    assert await ask(house, "queue/pause", {"what": "queue"}) == ["OK"]

    assert await afterwards(house) == {"paused": ["queue"]}


@pytest.mark.parametrize("what", ["queue", "type=code", "lane=1"])
async def test_what_is_paused_is_not_handed_out(house: House, what: str) -> None:
    await house.queue.enqueue("code")

    await ask(house, "queue/pause", {"what": what})

    assert await house.queue.claim(worker="w1", types=["code"]) == []


@pytest.mark.parametrize("what", ["type=review", "lane=2"])
async def test_what_is_not_paused_is_handed_out(house: House, what: str) -> None:
    await house.queue.enqueue("code")
    await house.queue.enqueue("review")

    await ask(house, "queue/pause", {"what": what})

    (lease,) = await house.queue.claim(worker="w1", n=2)
    assert lease.task.type == "code"


async def test_what_runs_goes_on(house: House) -> None:
    lease = await house.running()

    await ask(house, "queue/pause", {"what": "queue"})

    await lease.renew()
    await lease.complete("done")
    assert (await house.task(lease.id)).result == "done"


async def test_who_waits_is_not_given_what_is_paused(house: House) -> None:
    waiter = await parked(house)
    await ask(house, "queue/pause", {"what": "type=code"})

    await house.queue.enqueue("code")

    assert await mail(house, waiter) == []


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    lease = await house.running()
    await ask(house, "queue/pause", {"what": "queue"})
    before = await everything(house)

    assert await ask(house, "queue/pause", {"what": "queue"}) == ["OK"]
    assert await everything(house) == before
    assert set(await afterwards(house, a=lease.id)) == {
        *LANES, *W1, "task:a", "ready", "stats", "paused",
    }  # fmt: skip
