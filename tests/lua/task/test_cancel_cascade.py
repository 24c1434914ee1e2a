"""cancel: dependents of a cancelled task end too, or count it as met; in bounded steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rqueue import Call, State, TaskId
from rqueue.core import tasks
from rqueue.errors import InvalidGraph
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import all_keys, mailbox_lines, run_move, waiting_claim
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


async def test_three_levels_end_each_by_its_dependency(harness: Harness) -> None:
    one, two, three = await chain(harness, 3)

    reply = await run_move(harness, "task/cancel", TERMS, [(one.ulid,)])

    found = await all_keys(harness, a=one, b=two, c=three)
    assert reply == ["OK", 0, 3, "OK"]
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


async def test_all_tasks_of_a_cascade_go_to_the_archive(archived_harness: Harness) -> None:
    one, two = await chain(archived_harness, 2)

    await archived_harness.queue.cancel(one)

    found = await all_keys(archived_harness, a=one, b=two)
    assert found["outbox"] == [{"a": "1 CANCELLED", "b": "1 CANCELLED"}]


async def test_a_task_with_two_dependencies_leaves_both(harness: Harness) -> None:
    first, second = await harness.queue.enqueue_many([Call("code"), Call("code")])
    dependent = (await harness.queue.enqueue("code", {}, depends_on=[first.id, second.id])).id

    await harness.queue.cancel(first.id)

    found = await all_keys(harness, a=first.id, b=second.id, c=dependent)
    assert found["task:c"]["state"] == "CANCELLED"
    assert not {"waits:c", "dependents:a", "dependents:b", "blocked"} & set(found)
    assert found["task:b"]["state"] == "READY"


async def test_a_step_is_bounded_and_schedules_the_rest(harness: Harness) -> None:
    root, _ = await fan(harness, WIDE)

    reply = await run_move(harness, "task/cancel", TERMS, [(root.ulid,)])

    left = await harness.client.hgetall(harness.keys.cancelling())
    counts = await harness.queue.counts()
    assert reply == ["OK", 2, 1000, "OK"]
    assert left == {f"children {root.ulid}".encode(): b"cascade cancelled"}
    assert (counts[State.CANCELLED], counts[State.PENDING]) == (1000, WIDE - 999)


async def test_calls_without_a_task_continue_with_the_rest(harness: Harness) -> None:
    root, dependents = await fan(harness, WIDE)
    _, _, first, _ = await run_move(harness, "task/cancel", TERMS, [(root.ulid,)])

    steps = [await run_move(harness, "task/cancel", TERMS) for _ in range(3)]

    assert first + sum(step[2] for step in steps) == WIDE + 1
    assert max(step[2] for step in steps) <= 1000
    assert steps[-1] == ["OK", 0, 0]
    assert await states(harness, dependents) == {State.CANCELLED: WIDE}
    keys = {
        key.decode().removeprefix(harness.keys.root) for key in await harness.client.keys("rq:*")
    }
    assert {key for key in keys if not key.startswith("task:")} == {
        "lanes", "ready", "events", "stats", "dags", "unfinished", f"dag:{root.ulid}",
        f"members:{root.ulid}",
    }  # fmt: skip
    assert (await harness.queue.counts())[State.CANCELLED] == WIDE + 1


async def test_the_client_returns_when_the_cascade_is_done(harness: Harness) -> None:
    root, dependents = await fan(harness, WIDE)

    words = await tasks.cancel(harness.queue._internals.shard, [root.ulid], reason="no need")

    assert words == ["OK"]
    assert await states(harness, [root, *dependents]) == {State.CANCELLED: WIDE + 1}


async def test_a_cascade_through_many_branches_is_done_when_the_client_returns(
    alone: Harness,
) -> None:
    root, dependents = await fan(alone, 700)
    calls = [Call("code", {}, {"depends_on": [dependent]}) for dependent in dependents]
    leaves = [handle.id for handle in await alone.queue.enqueue_many(calls)]

    await tasks.cancel(alone.queue._internals.shard, [root.ulid], reason="no need")

    assert await states(alone, [root, *dependents, *leaves]) == {State.CANCELLED: 1401}


async def test_the_promoter_continues_after_a_caller_died(harness: Harness) -> None:
    root, dependents = await fan(harness, WIDE)
    await run_move(harness, "task/cancel", TERMS, [(root.ulid,)])

    await harness.promoter.tick()

    assert await states(harness, dependents) == {State.CANCELLED: WIDE}


async def test_a_repeated_step_continues_where_the_first_stopped(harness: Harness) -> None:
    root, _ = await fan(harness, 5)
    args: dict[str, Argument] = TERMS | {"limit": 2}
    steps = [await run_move(harness, "task/cancel", args, [(root.ulid,)]) for _ in range(15)]

    assert steps[0] == ["OK", 2, 2, "OK"]
    assert sum(step[2] for step in steps) == 6
    assert max(step[2] for step in steps) == 2
    assert steps[-1] == ["OK", 0, 0, "OK"]


async def test_with_unblock_dependents_count_it_as_met(harness: Harness) -> None:
    one, two, three = await chain(harness, 3)

    reply = await run_move(harness, "task/cancel", TERMS | {"dependents": "unblock"}, [(one.ulid,)])

    found = await all_keys(harness, a=one, b=two, c=three)
    assert reply == ["OK", 0, 1, "OK"]
    assert [found[f"task:{name}"]["state"] for name in "abc"] == ["CANCELLED", "READY", "PENDING"]
    assert (found["lane:1"], found["blocked"]) == (["b"], ["c"])
    assert (found["waits:c"], found["dependents:b"]) == (["b"], ["c"])
    assert not {"waits:b", "dependents:a", "unblocking"} & set(found)


async def test_unblocked_dependents_answer_waiting_claims(harness: Harness) -> None:
    one, two = await chain(harness, 2)
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    waiter = await waiting_claim(harness)

    await run_move(harness, "task/cancel", TERMS | {"dependents": "unblock"}, [(one.ulid,)])

    assert lease.id == one
    assert (await mailbox_lines(harness, waiter))[0].startswith(f"tasks 1 {two.ulid} ")


async def test_unblocking_is_bounded_too(harness: Harness) -> None:
    root, dependents = await fan(harness, 5)
    args: dict[str, Argument] = TERMS | {"dependents": "unblock", "limit": 2}

    await run_move(harness, "task/cancel", args, [(root.ulid,)])

    found = await all_keys(harness, a=root)
    assert found["cancelling"] == {"children a": "unblock cancelled"}
    assert await states(harness, dependents) == {State.READY: 1, State.PENDING: 4}
    await harness.promoter.tick()
    assert await states(harness, dependents) == {State.READY: 5}


async def test_dependents_of_a_dead_task_wait(harness: Harness) -> None:
    dependency = await harness.running()
    dependent = (await harness.queue.enqueue("code", {}, depends_on=[dependency.id])).id

    await dependency.fail(permanent=True)

    assert (await harness.task(dependent)).blocked_by == (dependency.id,)


async def test_a_cancelled_task_cannot_be_a_dependency(harness: Harness) -> None:
    task = (await harness.queue.enqueue("code")).id
    await harness.queue.cancel(task)

    with pytest.raises(InvalidGraph):
        await harness.queue.enqueue("code", {}, depends_on=[task])
