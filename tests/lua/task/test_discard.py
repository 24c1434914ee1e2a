"""discard: a dead task is given up, and forgotten like any other that ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import State, TaskId
from rqueue.errors import TaskNotFound, WrongState
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import LANES, W1, afterwards, ask, expiring

TERMS: dict[str, Argument] = {
    "reason": "hopeless",
    "how": '{"archive":"0","ttl":60000,"events":1000,"reviews":0}',
}


async def dead(house: House, **options: Any) -> TaskId:
    lease = await house.claimed(**options)
    await lease.fail("error", "broken", permanent=True)
    return lease.id


async def test_a_discarded_task_is_no_longer_listed_and_expires(house: House) -> None:
    task = await dead(house, tags=["t"], external_id="mine")

    said = await ask(house, "task/discard", TERMS, [(task.ulid, 1, "")])

    assert said == ["OK", "OK"]
    found = await afterwards(house, a=task)
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
    assert await expiring(house, a=task) == {"task:a", "failures:a", "ext:*"}


async def test_with_an_archive_it_is_sent_there_and_kept_until_it_has_arrived(
    archived_house: House,
) -> None:
    task = await dead(archived_house)
    await archived_house.queue.discard(task, "hopeless")

    found = await afterwards(archived_house, a=task)
    assert [list(entry) for entry in found["outbox"]] == [["a"], ["a"]]
    assert [entry["a"].split(" ")[:2] for entry in found["outbox"]] == [
        ["1", "DEAD_LETTERED"],
        ["1", "CANCELLED"],
    ]
    assert await expiring(archived_house, a=task) == set()


async def test_what_waited_for_it_is_left_to_the_cascade(house: House) -> None:
    task = await dead(house)
    child = (await house.queue.enqueue("code", {}, depends_on=[task])).id

    await ask(house, "task/discard", TERMS, [(task.ulid, 1, "")])

    found = await afterwards(house, a=task, b=child)
    assert found["cancelling"] == {"children a": "cascade cancelled"}
    assert (await house.task(child)).state is State.PENDING
    await house.promoter.tick()
    assert (await house.task(child)).state is State.CANCELLED
    assert not {"cancelling", "dependents:a"} & set(await afterwards(house, a=task))


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    task, named = await dead(house), TERMS | {"request": "r1"}
    first = await ask(house, "task/discard", named, [(task.ulid, 1, "")])
    before = await house.dump()

    assert await ask(house, "task/discard", named, [(task.ulid, 1, "")]) == first
    assert await house.dump() == before


async def test_a_late_copy_is_told_what_the_call_did_to_each(house: House) -> None:
    lease, named = await house.running(), TERMS | {"request": "r1"}
    rows = [((await dead(house)).ulid, 1, ""), (lease.id.ulid, 1, "")]
    first = await ask(house, "task/discard", named, rows)
    await lease.fail(permanent=True)
    await house.client.delete(house.keys.task(rows[0][0]))

    assert await ask(house, "task/discard", named, rows) == first == ["OK", "OK", "STATE:RUNNING"]
    assert (await house.task(lease.id)).state is State.DEAD_LETTERED


async def test_what_was_refused_altogether_is_judged_anew(house: House) -> None:
    lease, named = await house.running(), TERMS | {"request": "r1"}
    assert (await ask(house, "task/discard", named, [(lease.id.ulid, 1, "")]))[1][:5] == "STATE"

    await lease.fail(permanent=True)

    assert await ask(house, "task/discard", named, [(lease.id.ulid, 1, "")]) == ["OK", "OK"]


async def test_of_two_who_saw_one_life_the_second_is_told(house: House) -> None:
    task = await dead(house)
    await ask(house, "task/discard", TERMS, [(task.ulid, 1, "")])
    before = await house.dump()

    said = await ask(house, "task/discard", TERMS, [(task.ulid, 1, "")])

    assert said == ["OK", "DECIDED:CANCELLED"]
    assert await house.dump() == before


async def test_a_life_that_nobody_saw_is_not_given_up(house: House) -> None:
    task = await dead(house)
    await house.queue.revive(task)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.fail(permanent=True)
    before = await house.dump()
    rows = [(task.ulid, 1, ""), (task.ulid, 3, "")]

    said = await ask(house, "task/discard", TERMS, rows)

    assert said == ["OK", "DECIDED:DEAD_LETTERED", "STATE:DEAD_LETTERED"]
    assert await house.dump() == before
    assert await ask(house, "task/discard", TERMS, [(task.ulid, 2, "")]) == ["OK", "OK"]


async def test_one_that_nobody_can_read_is_given_up_in_whatever_life(house: House) -> None:
    task = await dead(house)
    await house.client.hset(house.keys.task(task.ulid), "more", "{broken")

    assert await ask(house, "task/discard", TERMS, [(task.ulid, "", "")]) == ["OK", "OK"]
    assert await ask(house, "task/discard", TERMS, [(task.ulid, "", "")]) == [
        "OK",
        "STATE:CANCELLED",
    ]


async def test_only_the_dead_are_discarded(house: House) -> None:
    lease = await house.running()
    cancelled = (await house.queue.enqueue("code")).id
    await house.queue.cancel(cancelled)
    before = await house.dump()

    said = await ask(
        house, "task/discard", TERMS, [(lease.id.ulid, 1, ""), (cancelled.ulid, 1, "")]
    )

    assert said == ["OK", "STATE:RUNNING", "STATE:CANCELLED"]
    assert await house.dump() == before
    with pytest.raises(WrongState):
        await house.queue.discard(lease.id)


async def test_an_unknown_task_is_gone(house: House) -> None:
    said = await ask(house, "task/discard", TERMS, [("01HZZZZZZZZZZZZZZZZZZZZZZZ", 1, "")])

    assert said == ["OK", "GONE"]
    assert await house.dump() == {}
    with pytest.raises(TaskNotFound):
        await house.queue.discard("never seen")


async def test_each_of_many_gets_its_word(house: House) -> None:
    rows = [((await dead(house)).ulid, 1, "") for _ in range(2)]
    rows.insert(1, ("01HZZZZZZZZZZZZZZZZZZZZZZZ", 1, ""))

    assert await ask(house, "task/discard", TERMS, rows) == ["OK", "OK", "GONE", "OK"]
    assert (await afterwards(house))["stats"] == {"1:CANCELLED": 2, "submitted": 2}


async def test_the_archive_keeps_the_copy_of_its_death(archived_house: House) -> None:
    task = await dead(archived_house)
    before = (await afterwards(archived_house, a=task))["outbox"]

    await ask(archived_house, "task/discard", TERMS, [(task.ulid, 1, "")])

    assert (await afterwards(archived_house, a=task))["outbox"] == before


async def test_what_was_decided_is_kept_with_it(house: House) -> None:
    task = await dead(house)
    review = {
        "resolution": "delete", "by": "human:ada", "cause": "invalid_task", "note": "no \u00e9",
        "type": "code", "reason": "error", "fingerprint": "0123456789ab", "other": "not kept",
    }  # fmt: skip

    await ask(house, "task/discard", TERMS, [(task.ulid, 1, json.dumps(review))])

    found = await afterwards(house, a=task)
    del review["other"]
    assert found["reviews"] == [{"task": "a", "life": "1", "at": "*", **review}]
    assert found["task:a"]["resolution"] == "delete"
    now = await house.task(task)
    assert (now.state, now.reviewed, now.resolution) == (State.CANCELLED, True, "delete")


async def test_each_of_many_has_its_review_and_what_is_not_dead_has_none(house: House) -> None:
    first, second = await dead(house), await dead(house)
    lease = await house.running()
    rows = [(task.ulid, 1, json.dumps({"note": task[-4:]})) for task in (first, lease.id, second)]

    await ask(house, "task/discard", TERMS, rows)

    found = (await afterwards(house))["reviews"]
    assert [review["note"] for review in found] == [first[-4:], second[-4:]]


@pytest.mark.parametrize(("keep", "most"), [(0, 400), (10, 200)])
async def test_reviews_are_capped_where_that_is_asked_for(
    house: House, keep: int, most: int
) -> None:
    how = TERMS | {"how": json.dumps({"archive": "0", "ttl": 1, "events": 9, "reviews": keep})}
    for _ in range(4):
        tasks = [handle.id for handle in await house.queue.enqueue_many([{"type": "code"}] * 100)]
        for lease in await house.queue.claim(worker="w1", n=100):
            await lease.fail("error", "no", permanent=True)
        await ask(house, "task/discard", how, [(task.ulid, 1, "") for task in tasks])

    kept = await house.client.xlen(house.keys.reviews())
    assert kept == most if keep == 0 else keep <= kept <= most
