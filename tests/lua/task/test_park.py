"""park: a limited service costs time, not attempts."""

from __future__ import annotations

from rqueue import Lease
from rqueue.store.scripts import Argument
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.task.afterwards import LANES, W1, afterwards, ask, expiring

TERMS: dict[str, Argument] = {"events": 1000, "parks": "", **FREED}
PARKED = {
    "created": "*", "def0": "*", "due": "*", "holder": "* * w1", "lane": "1", "parks": "1",
    "reason": "rate_limit", "score": "*", "settled": "park 1:*", "state": "RETRYING",
    "token": "1:*",
}  # fmt: skip
EVENT = {"event": "task.rate_limited", "task": "a", "detail": "rate_limit"}


def row(lease: Lease) -> tuple[Argument, ...]:
    return (lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 0)


async def test_a_parked_task_waits_and_no_attempt_is_spent(house: House) -> None:
    lease = await house.running()

    said = await ask(house, "task/park", TERMS, [row(lease)])

    assert said == ["OK", 0, "OK"]
    assert await afterwards(house, a=lease.id) == LANES | W1 | {
        "task:a": PARKED,
        "ready": ([], {}),
        "delayed": ["a"],
        "events": [EVENT],
        "stats": {"1:RETRYING": 1, "submitted": 1},
    }
    assert await expiring(house) == set()
    assert (await house.task(lease.id)).attempts == 0


async def test_it_waits_as_long_as_it_was_told(house: House) -> None:
    lease = await house.running()
    _, earliest = await ask(house, "task/read", {"limit": 1})

    await ask(house, "task/park", TERMS, [row(lease)])

    _, latest = await ask(house, "task/read", {"limit": 1})
    due = await house.client.zscore(house.keys.delayed(), lease.id.ulid)
    assert int(earliest) + 60_000 <= due <= int(latest) + 60_000
    assert int(await house.client.hget(house.keys.task(lease.id.ulid), "due")) == due


async def test_one_whose_output_is_checked_may_be_parked(house: House) -> None:
    lease = await house.running()
    await lease.validate()

    said = await ask(house, "task/park", TERMS, [row(lease)])

    assert said == ["OK", 0, "OK"]
    assert (await afterwards(house))["stats"] == {"1:RETRYING": 1, "submitted": 1}


async def test_one_that_has_not_started_is_not_parked(house: House) -> None:
    lease = await house.claimed()
    before = await house.dump()

    said = await ask(house, "task/park", TERMS, [row(lease)])

    assert said == ["OK", 0, "STATE:CLAIMED"]
    assert await house.dump() == before


async def test_parks_are_counted(house: House) -> None:
    lease = await house.running()
    for _ in range(2):
        await ask(house, "task/park", TERMS, [row(lease)])
        await house.make_due(lease.id)
        await house.promoter.tick()
        (lease,) = await house.queue.claim(worker="w1", types=["code"])
        await lease.start()

    assert await house.client.hget(house.keys.task(lease.id.ulid), "parks") == b"2"


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    lease = await house.running()
    first = await ask(house, "task/park", TERMS, [row(lease)])
    before = await house.dump()

    second = await ask(house, "task/park", TERMS, [row(lease)])

    assert second == first
    assert await house.dump() == before


async def test_a_stale_token_changes_nothing(house: House) -> None:
    stale = await house.running()
    await stale.release()
    (lease,) = await house.queue.claim(worker="w2", types=["code"])
    await lease.start()
    before = await house.dump()

    assert await ask(house, "task/park", TERMS, [row(stale)]) == ["OK", 0, "LOST"]
    assert await house.dump() == before


async def test_sent_again_after_a_later_attempt_it_says_the_same(house: House) -> None:
    first = await house.running()
    await ask(house, "task/park", TERMS, [row(first)])
    await house.make_due(first.id)
    await house.promoter.tick()
    (second,) = await house.queue.claim(worker="w1", types=["code"])
    await second.start()
    await second.complete()
    before = await house.dump()

    said = await ask(house, "task/park", TERMS, [row(first), row(second)])

    assert said == ["OK", 0, "OK", "LOST"]
    assert await house.dump() == before
