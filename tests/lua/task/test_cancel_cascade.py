"""cancel: what depends on a cancelled task ends too, or counts it as met; in bounded steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rqueue import Call, State, TaskId
from rqueue.core import tasks
from rqueue.errors import InvalidGraph
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keys_after import afterwards, ask, mail, parked
from tests.lua.task.test_cancel import TERMS

WIDE = 2500


async def chain(harness: Harness, length: int) -> list[TaskId]:
    """Tasks that wait each for the one before."""
    ids: list[TaskId] = []
    for _ in range(length):
        options: dict[str, Any] = {"depends_on": ids[-1:]} if ids else {}
        ids.append((await harness.queue.enqueue("code", {}, **options)).id)
    return ids


async def fan(harness: Harness, width: int) -> tuple[TaskId, list[TaskId]]:
    """A task and those that wait for it."""
    root = (await harness.queue.enqueue("code")).id
    call = Call("code", {}, {"depends_on": [root]})
    return root, [handle.id for handle in await harness.queue.enqueue_many([call] * width)]


async def states(harness: Harness, ids: list[TaskId]) -> Counter[State]:
    found = await harness.queue._internals.runtime.reader.read([task.ulid for task in ids])
    return Counter(task.state for task in found if task is not None)


async def test_three_levels_end_each_by_its_parent(harness: Harness) -> None:
    one, two, three = await chain(harness, 3)

    said = await ask(harness, "task/cancel", TERMS, [(one.ulid,)])

    found = await afterwards(harness, a=one, b=two, c=three)
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


async def test_all_of_a_cascade_go_to_the_archive(archived_harness: Harness) -> None:
    one, two = await chain(archived_harness, 2)

    await archived_harness.queue.cancel(one)

    found = await afterwards(archived_harness, a=one, b=two)
    assert found["outbox"] == [{"a": "1 CANCELLED", "b": "1 CANCELLED"}]


async def test_one_that_waits_for_two_leaves_both(harness: Harness) -> None:
    first, second = await harness.queue.enqueue_many([Call("code"), Call("code")])
    child = (await harness.queue.enqueue("code", {}, depends_on=[first.id, second.id])).id

    await harness.queue.cancel(first.id)

    found = await afterwards(harness, a=first.id, b=second.id, c=child)
    assert found["task:c"]["state"] == "CANCELLED"
    assert not {"waits:c", "dependents:a", "dependents:b", "blocked"} & set(found)
    assert found["task:b"]["state"] == "READY"


async def test_a_step_is_bounded_and_leaves_the_rest_named(harness: Harness) -> None:
    root, _ = await fan(harness, WIDE)

    said = await ask(harness, "task/cancel", TERMS, [(root.ulid,)])

    left = await harness.client.hgetall(harness.keys.cancelling())
    counts = await harness.queue.counts()
    assert said == ["OK", 2, 1000, "OK"]
    assert left == {f"children {root.ulid}".encode(): b"cascade cancelled"}
    assert (counts[State.CANCELLED], counts[State.PENDING]) == (1000, WIDE - 999)


async def test_calls_without_a_task_go_on_with_what_is_left(harness: Harness) -> None:
    root, children = await fan(harness, WIDE)
    _, _, first, _ = await ask(harness, "task/cancel", TERMS, [(root.ulid,)])

    steps = [await ask(harness, "task/cancel", TERMS) for _ in range(3)]

    assert first + sum(step[2] for step in steps) == WIDE + 1
    assert max(step[2] for step in steps) <= 1000
    assert steps[-1] == ["OK", 0, 0]
    assert await states(harness, children) == {State.CANCELLED: WIDE}
    keys = {
        key.decode().removeprefix(harness.keys.root) for key in await harness.client.keys("rq:*")
    }
    assert {key for key in keys if not key.startswith("task:")} == {
        "lanes", "ready", "events", "stats", "dags", "unfinished", f"dag:{root.ulid}",
        f"members:{root.ulid}",
    }  # fmt: skip
    assert (await harness.queue.counts())[State.CANCELLED] == WIDE + 1


async def test_the_store_returns_when_the_cascade_is_done(harness: Harness) -> None:
    root, children = await fan(harness, WIDE)

    words = await tasks.cancel(harness.queue._internals.shard, [root.ulid], reason="no need")

    assert words == ["OK"]
    assert await states(harness, [root, *children]) == {State.CANCELLED: WIDE + 1}


async def test_a_cascade_through_many_branches_is_done_when_the_store_returns(
    alone: Harness,
) -> None:
    root, children = await fan(alone, 700)
    calls = [Call("code", {}, {"depends_on": [child]}) for child in children]
    leaves = [handle.id for handle in await alone.queue.enqueue_many(calls)]

    await tasks.cancel(alone.queue._internals.shard, [root.ulid], reason="no need")

    assert await states(alone, [root, *children, *leaves]) == {State.CANCELLED: 1401}


async def test_the_promoter_goes_on_where_a_caller_died(harness: Harness) -> None:
    root, children = await fan(harness, WIDE)
    await ask(harness, "task/cancel", TERMS, [(root.ulid,)])

    await harness.promoter.tick()

    assert await states(harness, children) == {State.CANCELLED: WIDE}


async def test_a_step_sent_again_goes_on_from_where_it_is(harness: Harness) -> None:
    root, _ = await fan(harness, 5)
    args: dict[str, Argument] = TERMS | {"limit": 2}
    steps = [await ask(harness, "task/cancel", args, [(root.ulid,)]) for _ in range(15)]

    assert steps[0] == ["OK", 2, 2, "OK"]
    assert sum(step[2] for step in steps) == 6
    assert max(step[2] for step in steps) == 2
    assert steps[-1] == ["OK", 0, 0, "OK"]


async def test_by_the_rule_unblock_its_dependents_count_it_as_met(harness: Harness) -> None:
    one, two, three = await chain(harness, 3)

    said = await ask(harness, "task/cancel", TERMS | {"dependents": "unblock"}, [(one.ulid,)])

    found = await afterwards(harness, a=one, b=two, c=three)
    assert said == ["OK", 0, 1, "OK"]
    assert [found[f"task:{name}"]["state"] for name in "abc"] == ["CANCELLED", "READY", "PENDING"]
    assert (found["lane:1"], found["blocked"]) == (["b"], ["c"])
    assert (found["waits:c"], found["dependents:b"]) == (["b"], ["c"])
    assert not {"waits:b", "dependents:a", "unblocking"} & set(found)


async def test_unblocked_dependents_answer_who_waits(harness: Harness) -> None:
    one, two = await chain(harness, 2)
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    waiter = await parked(harness)

    await ask(harness, "task/cancel", TERMS | {"dependents": "unblock"}, [(one.ulid,)])

    assert lease.id == one
    assert (await mail(harness, waiter))[0].startswith(f"tasks 1 {two.ulid} ")


async def test_unblocking_is_bounded_too(harness: Harness) -> None:
    root, children = await fan(harness, 5)
    args: dict[str, Argument] = TERMS | {"dependents": "unblock", "limit": 2}

    await ask(harness, "task/cancel", args, [(root.ulid,)])

    found = await afterwards(harness, a=root)
    assert found["cancelling"] == {"children a": "unblock cancelled"}
    assert await states(harness, children) == {State.READY: 1, State.PENDING: 4}
    await harness.promoter.tick()
    assert await states(harness, children) == {State.READY: 5}


async def test_the_children_of_a_dead_task_wait(harness: Harness) -> None:
    parent = await harness.running()
    child = (await harness.queue.enqueue("code", {}, depends_on=[parent.id])).id

    await parent.fail(permanent=True)

    assert (await harness.task(child)).blocked_by == (parent.id,)


async def test_nothing_may_wait_for_a_cancelled_task(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id
    await harness.queue.cancel(task)

    with pytest.raises(InvalidGraph):
        await harness.queue.enqueue("code", {}, depends_on=[task])
