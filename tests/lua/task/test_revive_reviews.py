"""revive: the review of a retried task is stored in the same call, once for each call."""

from __future__ import annotations

import json
from typing import Any

from rqueue import State, TaskId
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import all_keys, run_move
from tests.lua.task.test_revive import about, claimed, dead

SAID = {
    "by": "human:ada", "resolution": "modify_and_retry", "cause": "agent_bug", "note": "fixed",
    "diff": '[{"op":"add","path":"/n","value":2}]', "type": "code", "reason": "error",
    "fingerprint": "0123456789ab",
}  # fmt: skip


def with_review(task: TaskId, decision: dict[str, Any], **args: Argument) -> dict[str, Argument]:
    return about(task, review=json.dumps(decision), **args)


async def test_the_whole_review_is_stored(harness: Harness) -> None:
    task = await dead(harness)

    await run_move(harness, "task/revive", with_review(task, SAID))

    found = await all_keys(harness, a=task)
    assert found["reviews"] == [{"task": "a", "life": "1", "at": "*", **SAID}]
    (row,) = await harness.client.xrange(harness.keys.reviews())
    assert abs(int(row[1][b"at"]) - int(row[0].split(b"-")[0])) < 1000


async def test_a_repeated_call_adds_no_second_review(harness: Harness) -> None:
    task = await dead(harness)
    first = await run_move(harness, "task/revive", with_review(task, SAID, request="r1"))
    before = await harness.dump()

    assert await run_move(harness, "task/revive", with_review(task, SAID, request="r1")) == first
    assert await harness.dump() == before


async def test_each_life_has_its_own_review(harness: Harness) -> None:
    task = await dead(harness)
    await run_move(harness, "task/revive", about(task))
    await (await claimed(harness)).fail(permanent=True)

    await run_move(harness, "task/revive", about(task, life=2))

    found = (await all_keys(harness, a=task))["reviews"]
    assert [review["life"] for review in found] == ["1", "2"]


async def test_a_refused_revival_is_not_reviewed(harness: Harness) -> None:
    task = await dead(harness, idempotency_key="k")
    await harness.queue.enqueue("code", {}, idempotency_key="k")

    assert (await run_move(harness, "task/revive", with_review(task, SAID)))[0] == "EXISTS"
    assert (await run_move(harness, "task/revive", with_review(task, SAID, life=2)))[0] == "STATE"

    assert "reviews" not in await all_keys(harness)


async def test_a_reviewed_time_is_waited_for(harness: Harness) -> None:
    task = await dead(harness)
    at = 4_000_000_000_000

    decision = await run_move(
        harness, "task/revive", with_review(task, {"not_before": str(at)}, delay=5)
    )

    assert decision == ["OK", 0, "PENDING"]
    assert await harness.client.zscore(harness.keys.delayed(), task.ulid) == at
    found = await harness.task(task)
    assert found.available_at is not None
    assert round(found.available_at.timestamp() * 1000) == at
    (review,) = (await all_keys(harness))["reviews"]
    assert review["not_before"] == str(at)


async def test_a_delay_is_stored_as_its_time(harness: Harness) -> None:
    task = await dead(harness)

    await run_move(harness, "task/revive", about(task, delay=60_000))

    due = await harness.client.zscore(harness.keys.delayed(), task.ulid)
    (review,) = (await all_keys(harness))["reviews"]
    assert review["not_before"] == f"{due:.0f}"


async def test_a_new_life_is_not_reviewed_yet(harness: Harness) -> None:
    task = await dead(harness)
    how: dict[str, Argument] = {"request": "r", "how": '{"events":9,"reviews":0}'}
    await run_move(harness, "task/escalate", how, [(task.ulid, 1, "")])

    await run_move(harness, "task/revive", about(task))

    found = await harness.task(task)
    assert (found.state, found.reviewed, found.resolution) == (State.READY, False, None)


async def test_a_broken_review_does_not_prevent_the_revival(harness: Harness) -> None:
    task = await dead(harness)

    assert await run_move(harness, "task/revive", about(task, review="{broken")) == [
        "OK",
        0,
        "READY",
    ]
    assert (await all_keys(harness))["reviews"][0]["resolution"] == "retry"
