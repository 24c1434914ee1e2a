"""escalate: a dead task stays dead and is marked, and the review is stored, once for each call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import State
from rqueue.errors import WrongState
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import LANES, W1, all_keys, run_move
from tests.lua.task.test_discard import dead

TERMS: dict[str, Argument] = {"request": "r1", "how": '{"events":1000,"reviews":0}'}
REVIEW = {"by": "human:ada", "resolution": "escalate", "cause": "needs_human", "note": "pay it?"}


def row(task: Any, life: int = 1, review: dict[str, str] = REVIEW) -> tuple[Argument, ...]:
    return (task.ulid, life, json.dumps(review))


async def test_an_escalated_task_stays_dead_and_is_marked(harness: Harness) -> None:
    task = await dead(harness)
    before = await all_keys(harness, a=task)

    reply = await run_move(harness, "task/escalate", TERMS, [row(task)])

    assert reply == ["OK", "OK"]
    found = await all_keys(harness, a=task)
    marks = {"reviewed": "*", "resolution": "escalate"}
    event = {"event": "task.escalated", "task": "a", "detail": "needs_human"}
    assert found == before | LANES | W1 | {
        "task:a": before["task:a"] | marks,
        "reviews": [{"task": "a", "life": "1", "at": "*", **REVIEW}],
        "events": [*before["events"], event],
    }
    now = await harness.task(task)
    assert (now.state, now.reviewed, now.resolution) == (State.DEAD_LETTERED, True, "escalate")


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    task = await dead(harness)
    first = await run_move(harness, "task/escalate", TERMS, [row(task)])
    before = await harness.dump()

    assert await run_move(harness, "task/escalate", TERMS, [row(task)]) == first
    assert await harness.dump() == before


async def test_a_late_copy_is_not_another_review_whatever_came_between(harness: Harness) -> None:
    task = await dead(harness)
    first = await run_move(harness, "task/escalate", TERMS, [row(task)])
    await run_move(harness, "task/escalate", TERMS | {"request": "r2"}, [row(task)])
    await harness.queue.dead.retry(task)
    before = await harness.dump()

    assert await run_move(harness, "task/escalate", TERMS, [row(task)]) == first
    assert await harness.dump() == before


@pytest.mark.parametrize("how", ["retry", "discard"])
async def test_a_task_that_was_decided_about_is_not_escalated(harness: Harness, how: str) -> None:
    task = await dead(harness)
    await getattr(harness.queue.dead, how)(task)
    before = await harness.dump()

    reply = await run_move(harness, "task/escalate", TERMS, [row(task)])

    assert reply == ["OK", f"DECIDED:{'READY' if how == 'retry' else 'CANCELLED'}"]
    assert await harness.dump() == before


async def test_another_call_is_another_review(harness: Harness) -> None:
    task = await dead(harness)
    await run_move(harness, "task/escalate", TERMS, [row(task)])

    await run_move(harness, "task/escalate", TERMS | {"request": "r2"}, [row(task)])

    assert len((await all_keys(harness))["reviews"]) == 2


async def test_only_dead_tasks_are_escalated_and_only_in_the_life_that_was_seen(
    harness: Harness,
) -> None:
    task, lease = await dead(harness), await harness.running()
    before = await harness.dump()
    rows = [row(lease.id), row(task, 2)]

    reply = await run_move(harness, "task/escalate", TERMS, [*rows, ("0" * 26, 1, "")])

    assert reply == ["OK", "STATE:RUNNING", "STATE:DEAD_LETTERED", "GONE"]
    assert await harness.dump() == before
    with pytest.raises(WrongState):
        await harness.queue.dead.decide(lease.id, "escalate")


async def test_an_escalated_task_may_be_revived_and_discarded(harness: Harness) -> None:
    first, second = await dead(harness), await dead(harness)
    await run_move(harness, "task/escalate", TERMS, [row(first), row(second)])

    await harness.queue.dead.retry(first)
    await harness.queue.dead.discard(second)

    assert [(await harness.task(one)).state for one in (first, second)] == ["READY", "CANCELLED"]


async def test_reviews_are_capped_where_there_is_no_archive(harness: Harness) -> None:
    task = await dead(harness)
    for n in range(300):
        how = {"request": f"r{n}", "how": '{"events":9,"reviews":20}'}
        await run_move(harness, "task/escalate", how, [row(task)])

    assert 20 <= await harness.client.xlen(harness.keys.reviews()) <= 120
