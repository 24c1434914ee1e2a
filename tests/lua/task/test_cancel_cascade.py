"""cancel: what depends on a cancelled task ends too, or counts it as met; in bounded steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rqueue import Call, State, TaskId
from rqueue.errors import InvalidGraph
from rqueue.store import tasks
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import afterwards, ask, mail, parked
from tests.lua.task.test_cancel import TERMS

WIDE = 2500


async def chain(house: House, length: int) -> list[TaskId]:
    """Tasks that wait each for the one before."""
    ids: list[TaskId] = []
    for _ in range(length):
        options: dict[str, Any] = {"depends_on": ids[-1:]} if ids else {}
        ids.append((await house.queue.enqueue("code", {}, **options)).id)
    return ids


async def fan(house: House, width: int) -> tuple[TaskId, list[TaskId]]:
    """A task and those that wait for it."""
    root = (await house.queue.enqueue("code")).id
    call = Call("code", {}, {"depends_on": [root]})
    return root, [handle.id for handle in await house.queue.enqueue_many([call] * width)]


async def states(house: House, ids: list[TaskId]) -> Counter[State]:
    found = await house.queue.runtime.reader.read([task.ulid for task in ids])
    return Counter(task.state for task in found if task is not None)


async def test_three_levels_end_each_by_its_parent(house: House) -> None:
    one, two, three = await chain(house, 3)

    said = await ask(house, "task/cancel", TERMS, [(one.ulid,)])

    found = await afterwards(house, a=one, b=two, c=three)
    assert said == ["OK", 0, 3, "OK"]
    assert set(found) == {
        "lanes",
        "task:a",
        "task:b",
        "task:c",
        "ready",
        "events",
        "stats",
        "dag:a",
        "members:a",
        "dags",
        "unfinished",
    }
    assert [found[f"task:{name}"]["why"] for name in "abc"] == [
        "no need",
        "Parent task_a cancelled",
        "Parent task_b cancelled",
    ]
    assert (found["ready"], found["stats"]) == (([], {}), {"1:CANCELLED": 3, "submitted": 3})
    assert [event.get("task") for event in found["events"]] == ["a", "b", "c", None]


async def test_all_of_a_cascade_go_to_the_archive(archived_house: House) -> None:
    one, two = await chain(archived_house, 2)

    await archived_house.queue.cancel(one)

    found = await afterwards(archived_house, a=one, b=two)
    assert found["outbox"] == [{"a": "1 CANCELLED", "b": "1 CANCELLED"}]


async def test_one_that_waits_for_two_leaves_both(house: House) -> None:
    first, second = await house.queue.enqueue_many([Call("code"), Call("code")])
    child = (await house.queue.enqueue("code", {}, depends_on=[first.id, second.id])).id

    await house.queue.cancel(first.id)

    found = await afterwards(house, a=first.id, b=second.id, c=child)
    assert found["task:c"]["state"] == "CANCELLED"
    assert not {"waits:c", "dependents:a", "dependents:b", "blocked"} & set(found)
    assert found["task:b"]["state"] == "READY"


async def test_a_step_is_bounded_and_leaves_the_rest_named(house: House) -> None:
    root, _ = await fan(house, WIDE)

    said = await ask(house, "task/cancel", TERMS, [(root.ulid,)])

    left = await house.client.hgetall(house.keys.cancelling())
    counts = await house.queue.counts()
    assert said == ["OK", 2, 1000, "OK"]
    assert left == {f"children {root.ulid}".encode(): b"cascade cancelled"}
    assert (counts[State.CANCELLED], counts[State.PENDING]) == (1000, WIDE - 999)


async def test_calls_without_a_task_go_on_with_what_is_left(house: House) -> None:
    root, children = await fan(house, WIDE)
    _, _, first, _ = await ask(house, "task/cancel", TERMS, [(root.ulid,)])

    steps = [await ask(house, "task/cancel", TERMS) for _ in range(3)]

    assert first + sum(step[2] for step in steps) == WIDE + 1
    assert max(step[2] for step in steps) <= 1000
    assert steps[-1] == ["OK", 0, 0]
    assert await states(house, children) == {State.CANCELLED: WIDE}
    keys = {key.decode().removeprefix(house.keys.root) for key in await house.client.keys("*")}
    assert {key for key in keys if not key.startswith("task:")} == {
        "lanes", "ready", "events", "stats", "dags", "unfinished", f"dag:{root.ulid}",
        f"members:{root.ulid}",
    }  # fmt: skip
    assert (await house.queue.counts())[State.CANCELLED] == WIDE + 1


async def test_the_store_returns_when_the_cascade_is_done(house: House) -> None:
    root, children = await fan(house, WIDE)

    words = await tasks.cancel(house.queue.shard, [root.ulid], reason="no need")

    assert words == ["OK"]
    assert await states(house, [root, *children]) == {State.CANCELLED: WIDE + 1}


async def test_a_cascade_through_many_branches_is_done_when_the_store_returns(
    alone: House,
) -> None:
    root, children = await fan(alone, 700)
    calls = [Call("code", {}, {"depends_on": [child]}) for child in children]
    leaves = [handle.id for handle in await alone.queue.enqueue_many(calls)]

    await tasks.cancel(alone.queue.shard, [root.ulid], reason="no need")

    assert await states(alone, [root, *children, *leaves]) == {State.CANCELLED: 1401}


async def test_the_promoter_goes_on_where_a_caller_died(house: House) -> None:
    root, children = await fan(house, WIDE)
    await ask(house, "task/cancel", TERMS, [(root.ulid,)])

    await house.promoter.tick()

    assert await states(house, children) == {State.CANCELLED: WIDE}


async def test_a_step_sent_again_goes_on_from_where_it_is(house: House) -> None:
    root, _ = await fan(house, 5)
    args: dict[str, Argument] = TERMS | {"limit": 2}
    steps = [await ask(house, "task/cancel", args, [(root.ulid,)]) for _ in range(15)]

    assert steps[0] == ["OK", 2, 2, "OK"]
    assert sum(step[2] for step in steps) == 6
    assert max(step[2] for step in steps) == 2
    assert steps[-1] == ["OK", 0, 0, "OK"]


async def test_by_the_rule_unblock_its_dependents_count_it_as_met(house: House) -> None:
    one, two, three = await chain(house, 3)

    said = await ask(house, "task/cancel", TERMS | {"dependents": "unblock"}, [(one.ulid,)])

    found = await afterwards(house, a=one, b=two, c=three)
    assert said == ["OK", 0, 1, "OK"]
    assert [found[f"task:{name}"]["state"] for name in "abc"] == ["CANCELLED", "READY", "PENDING"]
    assert (found["lane:1"], found["blocked"]) == (["b"], ["c"])
    assert (found["waits:c"], found["dependents:b"]) == (["b"], ["c"])
    assert not {"waits:b", "dependents:a", "unblocking"} & set(found)


async def test_unblocked_dependents_answer_who_waits(house: House) -> None:
    one, two = await chain(house, 2)
    (lease,) = await house.queue.claim(worker="w1", types=["code"])
    waiter = await parked(house)

    await ask(house, "task/cancel", TERMS | {"dependents": "unblock"}, [(one.ulid,)])

    assert lease.id == one
    assert (await mail(house, waiter))[0].startswith(f"tasks 1 {two.ulid} ")


async def test_unblocking_is_bounded_too(house: House) -> None:
    root, children = await fan(house, 5)
    args: dict[str, Argument] = TERMS | {"dependents": "unblock", "limit": 2}

    await ask(house, "task/cancel", args, [(root.ulid,)])

    found = await afterwards(house, a=root)
    assert found["cancelling"] == {"children a": "unblock cancelled"}
    assert await states(house, children) == {State.READY: 1, State.PENDING: 4}
    await house.promoter.tick()
    assert await states(house, children) == {State.READY: 5}


async def test_the_children_of_a_dead_task_wait(house: House) -> None:
    parent = await house.running()
    child = (await house.queue.enqueue("code", {}, depends_on=[parent.id])).id

    await parent.fail(permanent=True)

    assert (await house.task(child)).blocked_by == (parent.id,)


async def test_nothing_may_wait_for_a_cancelled_task(house: House) -> None:
    task = (await house.queue.enqueue("code")).id
    await house.queue.cancel(task)

    with pytest.raises(InvalidGraph):
        await house.queue.enqueue("code", {}, depends_on=[task])
