"""revive: who gave a task a new life, and why, is kept in the same call; once for each asking."""

from __future__ import annotations

import json
from typing import Any

from rqueue import State, TaskId
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keys_after import afterwards, ask
from tests.lua.task.test_revive import about, claimed, dead

SAID = {
    "by": "human:ada", "resolution": "modify_and_retry", "cause": "agent_bug", "note": "fixed",
    "diff": '[{"op":"add","path":"/n","value":2}]', "type": "code", "reason": "error",
    "fingerprint": "0123456789ab",
}  # fmt: skip


def saying(task: TaskId, said: dict[str, Any], **args: Argument) -> dict[str, Argument]:
    return about(task, review=json.dumps(said), **args)


async def test_all_that_was_said_is_kept(harness: Harness) -> None:
    task = await dead(harness)

    await ask(harness, "task/revive", saying(task, SAID))

    found = await afterwards(harness, a=task)
    assert found["reviews"] == [{"task": "a", "life": "1", "at": "*", **SAID}]
    (row,) = await harness.client.xrange(harness.keys.reviews())
    assert abs(int(row[1][b"at"]) - int(row[0].split(b"-")[0])) < 1000


async def test_sent_again_it_is_reviewed_once(harness: Harness) -> None:
    task = await dead(harness)
    first = await ask(harness, "task/revive", saying(task, SAID, request="r1"))
    before = await harness.dump()

    assert await ask(harness, "task/revive", saying(task, SAID, request="r1")) == first
    assert await harness.dump() == before


async def test_each_life_has_its_own_review(harness: Harness) -> None:
    task = await dead(harness)
    await ask(harness, "task/revive", about(task))
    await (await claimed(harness)).fail(permanent=True)

    await ask(harness, "task/revive", about(task, life=2))

    found = (await afterwards(harness, a=task))["reviews"]
    assert [review["life"] for review in found] == ["1", "2"]


async def test_what_cannot_live_again_is_not_reviewed(harness: Harness) -> None:
    task = await dead(harness, idempotency_key="k")
    await harness.queue.enqueue("code", {}, idempotency_key="k")

    assert (await ask(harness, "task/revive", saying(task, SAID)))[0] == "EXISTS"
    assert (await ask(harness, "task/revive", saying(task, SAID, life=2)))[0] == "STATE"

    assert "reviews" not in await afterwards(harness)


async def test_a_time_that_was_said_is_waited_for(harness: Harness) -> None:
    task = await dead(harness)
    at = 4_000_000_000_000

    said = await ask(harness, "task/revive", saying(task, {"not_before": str(at)}, delay=5))

    assert said == ["OK", 0, "PENDING"]
    assert await harness.client.zscore(harness.keys.delayed(), task.ulid) == at
    found = await harness.task(task)
    assert found.available_at is not None
    assert round(found.available_at.timestamp() * 1000) == at
    (review,) = (await afterwards(harness))["reviews"]
    assert review["not_before"] == str(at)


async def test_a_delay_is_told_as_the_time_that_it_means(harness: Harness) -> None:
    task = await dead(harness)

    await ask(harness, "task/revive", about(task, delay=60_000))

    due = await harness.client.zscore(harness.keys.delayed(), task.ulid)
    (review,) = (await afterwards(harness))["reviews"]
    assert review["not_before"] == f"{due:.0f}"


async def test_a_new_life_is_not_reviewed_yet(harness: Harness) -> None:
    task = await dead(harness)
    how: dict[str, Argument] = {"request": "r", "how": '{"events":9,"reviews":0}'}
    await ask(harness, "task/escalate", how, [(task.ulid, 1, "")])

    await ask(harness, "task/revive", about(task))

    found = await harness.task(task)
    assert (found.state, found.reviewed, found.resolution) == (State.READY, False, None)


async def test_broken_words_are_no_hindrance(harness: Harness) -> None:
    task = await dead(harness)

    assert await ask(harness, "task/revive", about(task, review="{broken")) == ["OK", 0, "READY"]
    assert (await afterwards(harness))["reviews"][0]["resolution"] == "retry"
