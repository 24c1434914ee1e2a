"""park: a rate-limited task is delayed and spends no attempt."""

from __future__ import annotations

from rqueue import Lease
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.task.keyspace import LANES, W1, all_keys, expiring_keys, run_move

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

    reply = await run_move(harness, "task/park", TERMS, [row(lease)])

    assert reply == ["OK", 0, "OK"]
    assert await all_keys(harness, a=lease.id) == LANES | W1 | {
        "task:a": PARKED,
        "ready": ([], {}),
        "delayed": ["a"],
        "events": [EVENT],
        "stats": {"1:RETRYING": 1, "submitted": 1},
    }
    assert await expiring_keys(harness) == set()
    assert (await harness.task(lease.id)).attempts == 0


async def test_a_parked_task_waits_for_its_delay(harness: Harness) -> None:
    lease = await harness.running()
    _, earliest = await run_move(harness, "task/read", {"limit": 1})

    await run_move(harness, "task/park", TERMS, [row(lease)])

    _, latest = await run_move(harness, "task/read", {"limit": 1})
    due = await harness.client.zscore(harness.keys.delayed(), lease.id.ulid)
    assert int(earliest) + 60_000 <= due <= int(latest) + 60_000
    assert int(await harness.client.hget(harness.keys.task(lease.id.ulid), "due")) == due


async def test_a_validating_task_may_be_parked(harness: Harness) -> None:
    lease = await harness.running()
    await lease.validate()

    reply = await run_move(harness, "task/park", TERMS, [row(lease)])

    assert reply == ["OK", 0, "OK"]
    assert (await all_keys(harness))["stats"] == {"1:RETRYING": 1, "submitted": 1}


async def test_a_claimed_task_is_not_parked(harness: Harness) -> None:
    lease = await harness.claimed()
    before = await harness.dump()

    reply = await run_move(harness, "task/park", TERMS, [row(lease)])

    assert reply == ["OK", 0, "STATE:CLAIMED"]
    assert await harness.dump() == before


async def test_parks_are_counted(harness: Harness) -> None:
    lease = await harness.running()
    for _ in range(2):
        await run_move(harness, "task/park", TERMS, [row(lease)])
        await harness.make_due(lease.id)
        await harness.promoter.tick()
        (lease,) = await harness.queue.claim(worker="w1", types=["code"])
        await lease.start()

    assert await harness.client.hget(harness.keys.task(lease.id.ulid), "parks") == b"2"


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    lease = await harness.running()
    first = await run_move(harness, "task/park", TERMS, [row(lease)])
    before = await harness.dump()

    second = await run_move(harness, "task/park", TERMS, [row(lease)])

    assert second == first
    assert await harness.dump() == before


async def test_a_stale_token_changes_nothing(harness: Harness) -> None:
    stale = await harness.running()
    await stale.release()
    (lease,) = await harness.queue.claim(worker="w2", types=["code"])
    await lease.start()
    before = await harness.dump()

    assert await run_move(harness, "task/park", TERMS, [row(stale)]) == ["OK", 0, "LOST"]
    assert await harness.dump() == before


async def test_a_repeated_call_after_a_later_attempt_gets_the_same_reply(harness: Harness) -> None:
    first = await harness.running()
    await run_move(harness, "task/park", TERMS, [row(first)])
    await harness.make_due(first.id)
    await harness.promoter.tick()
    (second,) = await harness.queue.claim(worker="w1", types=["code"])
    await second.start()
    await second.complete()
    before = await harness.dump()

    reply = await run_move(harness, "task/park", TERMS, [row(first), row(second)])

    assert reply == ["OK", 0, "OK", "LOST"]
    assert await harness.dump() == before
