"""discard: a dead task is cancelled, and expires like any other that ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import State, TaskId
from rqueue.errors import TaskNotFound, WrongState
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import LANES, W1, all_keys, expiring_keys, run_move

TERMS: dict[str, Argument] = {
    "reason": "hopeless",
    "how": '{"archive":"0","ttl":60000,"events":1000,"reviews":0}',
}


async def dead(harness: Harness, **options: Any) -> TaskId:
    lease = await harness.claimed(**options)
    await lease.fail("error", "broken", permanent=True)
    return lease.id


async def test_a_discarded_task_is_no_longer_listed_and_expires(harness: Harness) -> None:
    task = await dead(harness, tags=["t"], external_id="mine")

    reply = await run_move(harness, "task/discard", TERMS, [(task.ulid, 1, "")])

    assert reply == ["OK", "OK"]
    found = await all_keys(harness, a=task)
    assert len(found.pop("failures:a")) == 1
    assert found == LANES | W1 | {
        "task:a": {
            "attempts": "1", "def0": "*", "discarded": "*", "entry": "*", "failed_by": "w1",
            "finished": "*",
            "flags": "mf", "holder": "* 0 w1", "lane": "1", "more": "*", "reason": "error",
            "reclaims": "0", "resolution": "cancel", "reviewed": "*", "score": "*",
            "settled": "discard", "state": "CANCELLED", "token": "1:*", "why": "hopeless",
        },
        "ext:*": "a",
        "ready": ([], {}),
        "events": [
            {"event": "task.dead_lettered", "task": "a", "detail": "error"},
            {"event": "task.discarded", "task": "a", "detail": "hopeless"},
        ],
        "reviews": [{"task": "a", "life": "1", "at": "*", "resolution": "cancel"}],
        "stats": {"1:CANCELLED": 1, "submitted": 1},
    }  # fmt: skip
    assert await expiring_keys(harness, a=task) == {"task:a", "failures:a", "ext:*"}


async def test_with_an_archive_it_is_sent_there_and_kept_until_it_is_archived(
    archived_harness: Harness,
) -> None:
    task = await dead(archived_harness)
    await archived_harness.queue.dead.discard(task, "hopeless")

    found = await all_keys(archived_harness, a=task)
    assert [list(entry) for entry in found["outbox"]] == [["a"], ["a"]]
    assert [entry["a"].split(" ")[:2] for entry in found["outbox"]] == [
        ["1", "DEAD_LETTERED"],
        ["1", "CANCELLED"],
    ]
    assert await expiring_keys(archived_harness, a=task) == set()


async def test_its_dependents_are_left_to_the_cascade(harness: Harness) -> None:
    task = await dead(harness)
    child = (await harness.queue.enqueue("code", {}, depends_on=[task])).id

    await run_move(harness, "task/discard", TERMS, [(task.ulid, 1, "")])

    found = await all_keys(harness, a=task, b=child)
    assert found["cancelling"] == {"children a": "cascade cancelled"}
    assert (await harness.task(child)).state is State.PENDING
    await harness.promoter.tick()
    assert (await harness.task(child)).state is State.CANCELLED
    assert not {"cancelling", "dependents:a"} & set(await all_keys(harness, a=task))


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    task, named = await dead(harness), TERMS | {"request": "r1"}
    first = await run_move(harness, "task/discard", named, [(task.ulid, 1, "")])
    before = await harness.dump()

    assert await run_move(harness, "task/discard", named, [(task.ulid, 1, "")]) == first
    assert await harness.dump() == before


async def test_a_late_copy_gets_the_first_reply_for_each_task(harness: Harness) -> None:
    lease, named = await harness.running(), TERMS | {"request": "r1"}
    rows = [((await dead(harness)).ulid, 1, ""), (lease.id.ulid, 1, "")]
    first = await run_move(harness, "task/discard", named, rows)
    await lease.fail(permanent=True)
    await harness.client.delete(harness.keys.task(rows[0][0]))

    assert (
        await run_move(harness, "task/discard", named, rows)
        == first
        == ["OK", "OK", "STATE:RUNNING"]
    )
    assert (await harness.task(lease.id)).state is State.DEAD_LETTERED


async def test_a_fully_refused_call_is_decided_again(harness: Harness) -> None:
    lease, named = await harness.running(), TERMS | {"request": "r1"}
    assert (await run_move(harness, "task/discard", named, [(lease.id.ulid, 1, "")]))[1][
        :5
    ] == "STATE"

    await lease.fail(permanent=True)

    assert await run_move(harness, "task/discard", named, [(lease.id.ulid, 1, "")]) == ["OK", "OK"]


async def test_of_two_reviewers_of_one_life_the_second_is_refused(harness: Harness) -> None:
    task = await dead(harness)
    await run_move(harness, "task/discard", TERMS, [(task.ulid, 1, "")])
    before = await harness.dump()

    reply = await run_move(harness, "task/discard", TERMS, [(task.ulid, 1, "")])

    assert reply == ["OK", "DECIDED:CANCELLED"]
    assert await harness.dump() == before


async def test_a_life_that_no_reviewer_saw_is_not_discarded(harness: Harness) -> None:
    task = await dead(harness)
    await harness.queue.dead.retry(task)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.fail(permanent=True)
    before = await harness.dump()
    rows = [(task.ulid, 1, ""), (task.ulid, 3, "")]

    reply = await run_move(harness, "task/discard", TERMS, rows)

    assert reply == ["OK", "DECIDED:DEAD_LETTERED", "STATE:DEAD_LETTERED"]
    assert await harness.dump() == before
    assert await run_move(harness, "task/discard", TERMS, [(task.ulid, 2, "")]) == ["OK", "OK"]


async def test_an_unreadable_task_is_discarded_in_whatever_life(harness: Harness) -> None:
    task = await dead(harness)
    await harness.client.hset(harness.keys.task(task.ulid), "more", "{broken")

    assert await run_move(harness, "task/discard", TERMS, [(task.ulid, "", "")]) == ["OK", "OK"]
    assert await run_move(harness, "task/discard", TERMS, [(task.ulid, "", "")]) == [
        "OK",
        "STATE:CANCELLED",
    ]


async def test_only_the_dead_are_discarded(harness: Harness) -> None:
    lease = await harness.running()
    cancelled = (await harness.queue.enqueue("code")).id
    await harness.queue.cancel(cancelled)
    before = await harness.dump()

    reply = await run_move(
        harness, "task/discard", TERMS, [(lease.id.ulid, 1, ""), (cancelled.ulid, 1, "")]
    )

    assert reply == ["OK", "STATE:RUNNING", "STATE:CANCELLED"]
    assert await harness.dump() == before
    with pytest.raises(WrongState):
        await harness.queue.dead.discard(lease.id)


async def test_an_unknown_task_is_gone(harness: Harness) -> None:
    reply = await run_move(harness, "task/discard", TERMS, [("01HZZZZZZZZZZZZZZZZZZZZZZZ", 1, "")])

    assert reply == ["OK", "GONE"]
    assert await harness.dump() == {}
    with pytest.raises(TaskNotFound):
        await harness.queue.dead.discard("never seen")


async def test_each_task_gets_its_own_word(harness: Harness) -> None:
    rows = [((await dead(harness)).ulid, 1, "") for _ in range(2)]
    rows.insert(1, ("01HZZZZZZZZZZZZZZZZZZZZZZZ", 1, ""))

    assert await run_move(harness, "task/discard", TERMS, rows) == ["OK", "OK", "GONE", "OK"]
    assert (await all_keys(harness))["stats"] == {"1:CANCELLED": 2, "submitted": 2}


async def test_the_archive_keeps_the_copy_of_its_death(archived_harness: Harness) -> None:
    task = await dead(archived_harness)
    before = (await all_keys(archived_harness, a=task))["outbox"]

    await run_move(archived_harness, "task/discard", TERMS, [(task.ulid, 1, "")])

    assert (await all_keys(archived_harness, a=task))["outbox"] == before


async def test_the_decision_is_stored_with_the_task(harness: Harness) -> None:
    task = await dead(harness)
    review = {
        "resolution": "delete", "by": "human:ada", "cause": "invalid_task", "note": "no \u00e9",
        "type": "code", "reason": "error", "fingerprint": "0123456789ab", "other": "not kept",
    }  # fmt: skip

    await run_move(harness, "task/discard", TERMS, [(task.ulid, 1, json.dumps(review))])

    found = await all_keys(harness, a=task)
    del review["other"]
    assert found["reviews"] == [{"task": "a", "life": "1", "at": "*", **review}]
    assert found["task:a"]["resolution"] == "delete"
    now = await harness.task(task)
    assert (now.state, now.reviewed, now.resolution) == (State.CANCELLED, True, "delete")


async def test_each_discarded_task_has_its_review_and_others_have_none(harness: Harness) -> None:
    first, second = await dead(harness), await dead(harness)
    lease = await harness.running()
    rows = [(task.ulid, 1, json.dumps({"note": task[-4:]})) for task in (first, lease.id, second)]

    await run_move(harness, "task/discard", TERMS, rows)

    found = (await all_keys(harness))["reviews"]
    assert [review["note"] for review in found] == [first[-4:], second[-4:]]


@pytest.mark.parametrize(("keep", "most"), [(0, 400), (10, 200)])
async def test_reviews_are_capped_where_a_cap_is_given(
    harness: Harness, keep: int, most: int
) -> None:
    how = TERMS | {"how": json.dumps({"archive": "0", "ttl": 1, "events": 9, "reviews": keep})}
    for _ in range(4):
        tasks = [handle.id for handle in await harness.queue.enqueue_many([{"type": "code"}] * 100)]
        for lease in await harness.queue.claim(worker="w1", n=100):
            await lease.fail("error", "no", permanent=True)
        await run_move(harness, "task/discard", how, [(task.ulid, 1, "") for task in tasks])

    kept = await harness.client.xlen(harness.keys.reviews())
    assert kept == most if keep == 0 else keep <= kept <= most
