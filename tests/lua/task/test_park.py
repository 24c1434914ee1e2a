"""park: a limited service costs time, not attempts."""

from __future__ import annotations

from rqueue import Lease
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.task.keys_after import LANES, W1, afterwards, ask, expiring

TERMS: dict[str, Argument] = {"events": 1000, "parks": "", **ANSWER_LIMITS}
PARKED = {
    "created": "*", "def0": "*", "due": "*", "holder": "* * w1", "lane": "1", "parks": "1",
    "reason": "rate_limit", "score": "*", "settled": "park 1:*", "state": "RETRYING",
    "token": "1:*",
}  # fmt: skip
EVENT = {"event": "task.rate_limited", "task": "a", "detail": "rate_limit"}


def row(lease: Lease) -> tuple[Argument, ...]:
    return (lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 0)


async def test_a_parked_task_waits_and_no_attempt_is_spent(harness: Harness) -> None:
    lease = await harness.running()

    said = await ask(harness, "task/park", TERMS, [row(lease)])

    assert said == ["OK", 0, "OK"]
    assert await afterwards(harness, a=lease.id) == LANES | W1 | {
        "task:a": PARKED,
        "ready": ([], {}),
        "delayed": ["a"],
        "events": [EVENT],
        "stats": {"1:RETRYING": 1, "submitted": 1},
    }
    assert await expiring(harness) == set()
    assert (await harness.task(lease.id)).attempts == 0


async def test_it_waits_as_long_as_it_was_told(harness: Harness) -> None:
    lease = await harness.running()
    _, earliest = await ask(harness, "task/read", {"limit": 1})

    await ask(harness, "task/park", TERMS, [row(lease)])

    _, latest = await ask(harness, "task/read", {"limit": 1})
    due = await harness.client.zscore(harness.keys.delayed(), lease.id.ulid)
    assert int(earliest) + 60_000 <= due <= int(latest) + 60_000
    assert int(await harness.client.hget(harness.keys.task(lease.id.ulid), "due")) == due


async def test_one_whose_output_is_checked_may_be_parked(harness: Harness) -> None:
    lease = await harness.running()
    await lease.validate()

    said = await ask(harness, "task/park", TERMS, [row(lease)])

    assert said == ["OK", 0, "OK"]
    assert (await afterwards(harness))["stats"] == {"1:RETRYING": 1, "submitted": 1}


async def test_one_that_has_not_started_is_not_parked(harness: Harness) -> None:
    lease = await harness.claimed()
    before = await harness.dump()

    said = await ask(harness, "task/park", TERMS, [row(lease)])

    assert said == ["OK", 0, "STATE:CLAIMED"]
    assert await harness.dump() == before


async def test_parks_are_counted(harness: Harness) -> None:
    lease = await harness.running()
    for _ in range(2):
        await ask(harness, "task/park", TERMS, [row(lease)])
        await harness.make_due(lease.id)
        await harness.promoter.tick()
        (lease,) = await harness.queue.claim(worker="w1", types=["code"])
        await lease.start()

    assert await harness.client.hget(harness.keys.task(lease.id.ulid), "parks") == b"2"


async def test_sent_again_it_says_the_same_and_changes_nothing(harness: Harness) -> None:
    lease = await harness.running()
    first = await ask(harness, "task/park", TERMS, [row(lease)])
    before = await harness.dump()

    second = await ask(harness, "task/park", TERMS, [row(lease)])

    assert second == first
    assert await harness.dump() == before


async def test_a_stale_token_changes_nothing(harness: Harness) -> None:
    stale = await harness.running()
    await stale.release()
    (lease,) = await harness.queue.claim(worker="w2", types=["code"])
    await lease.start()
    before = await harness.dump()

    assert await ask(harness, "task/park", TERMS, [row(stale)]) == ["OK", 0, "LOST"]
    assert await harness.dump() == before


async def test_sent_again_after_a_later_attempt_it_says_the_same(harness: Harness) -> None:
    first = await harness.running()
    await ask(harness, "task/park", TERMS, [row(first)])
    await harness.make_due(first.id)
    await harness.promoter.tick()
    (second,) = await harness.queue.claim(worker="w1", types=["code"])
    await second.start()
    await second.complete()
    before = await harness.dump()

    said = await ask(harness, "task/park", TERMS, [row(first), row(second)])

    assert said == ["OK", 0, "OK", "LOST"]
    assert await harness.dump() == before
