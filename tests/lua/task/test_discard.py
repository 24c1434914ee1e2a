"""discard: a dead task is given up, and forgotten like any other that ended."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State, TaskId
from rqueue.errors import TaskNotFound, WrongState
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import LANES, W1, afterwards, ask, expiring

TERMS: dict[str, Argument] = {
    "reason": "hopeless",
    "how": '{"archive":"0","ttl":60000,"events":1000}',
}


async def dead(house: House, **options: Any) -> TaskId:
    lease = await house.claimed(**options)
    await lease.fail("error", "broken", permanent=True)
    return lease.id


async def test_a_discarded_task_is_no_longer_listed_and_expires(house: House) -> None:
    task = await dead(house, tags=["t"], external_id="mine")

    said = await ask(house, "task/discard", TERMS, [(task.ulid,)])

    assert said == ["OK", "OK"]
    found = await afterwards(house, a=task)
    assert len(found.pop("failures:a")) == 1
    assert found == LANES | W1 | {
        "task:a": {
            "attempts": "1", "def0": "*", "discarded": "*", "entry": "*", "failed_by": "w1",
            "finished": "*",
            "flags": "mf", "holder": "* 0 w1", "lane": "1", "more": "*", "reason": "error",
            "reclaims": "0", "score": "*", "settled": "discard", "state": "CANCELLED",
            "token": "1:*", "why": "hopeless",
        },
        "ext:*": "a",
        "ready": ([], {}),
        "events": [
            {"event": "task.dead_lettered", "task": "a", "detail": "error"},
            {"event": "task.discarded", "task": "a", "detail": "hopeless"},
        ],
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

    await ask(house, "task/discard", TERMS, [(task.ulid,)])

    found = await afterwards(house, a=task, b=child)
    assert found["cancelling"] == {"children a": "cascade cancelled"}
    assert (await house.task(child)).state is State.PENDING
    await house.promoter.tick()
    assert (await house.task(child)).state is State.CANCELLED
    assert not {"cancelling", "dependents:a"} & set(await afterwards(house, a=task))


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    task = await dead(house)
    first = await ask(house, "task/discard", TERMS, [(task.ulid,)])
    before = await house.dump()

    assert await ask(house, "task/discard", TERMS, [(task.ulid,)]) == first
    assert await house.dump() == before


async def test_only_the_dead_are_discarded(house: House) -> None:
    lease = await house.running()
    cancelled = (await house.queue.enqueue("code")).id
    await house.queue.cancel(cancelled)
    before = await house.dump()

    said = await ask(house, "task/discard", TERMS, [(lease.id.ulid,), (cancelled.ulid,)])

    assert said == ["OK", "STATE:RUNNING", "STATE:CANCELLED"]
    assert await house.dump() == before
    with pytest.raises(WrongState):
        await house.queue.discard(lease.id)


async def test_an_unknown_task_is_gone(house: House) -> None:
    said = await ask(house, "task/discard", TERMS, [("01HZZZZZZZZZZZZZZZZZZZZZZZ",)])

    assert said == ["OK", "GONE"]
    assert await house.dump() == {}
    with pytest.raises(TaskNotFound):
        await house.queue.discard("never seen")


async def test_each_of_many_gets_its_word(house: House) -> None:
    rows = [((await dead(house)).ulid,) for _ in range(2)]
    rows.insert(1, ("01HZZZZZZZZZZZZZZZZZZZZZZZ",))

    assert await ask(house, "task/discard", TERMS, rows) == ["OK", "OK", "GONE", "OK"]
    assert (await afterwards(house))["stats"] == {"1:CANCELLED": 2, "submitted": 2}


async def test_the_archive_keeps_the_copy_of_its_death(archived_house: House) -> None:
    task = await dead(archived_house)
    before = (await afterwards(archived_house, a=task))["outbox"]

    await ask(archived_house, "task/discard", TERMS, [(task.ulid,)])

    assert (await afterwards(archived_house, a=task))["outbox"] == before
