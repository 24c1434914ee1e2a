"""unblock: the dependents of a completed task are all resolved, in bounded steps."""

from __future__ import annotations

from rqueue import State, TaskId
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import (
    LANES,
    W1,
    all_keys,
    expiring_keys,
    mailbox_lines,
    run_move,
    waiting_claim,
)

TERMS: dict[str, Argument] = {"limit": 2, "tries": 100, "events": 1000}

CALL: dict[str, Argument] = {"tries": 100, "events": 1000}


async def partly_resolved(
    harness: Harness, dependents: int = 3, unblocked: int = 1
) -> tuple[TaskId, list[TaskId]]:
    """A completed task of which only some dependents are resolved."""
    dependency = await harness.running()
    ids = [
        (await harness.queue.enqueue("code", {}, depends_on=[dependency.id])).id
        for _ in range(dependents)
    ]
    args: dict[str, Argument] = {"archive": 0, "ttl": 60_000, "limit": unblocked, **CALL}
    await run_move(harness, "task/complete", args, [(dependency.id.ulid, dependency.token, "")])
    return dependency.id, ids


async def ready(harness: Harness, ids: list[TaskId]) -> int:
    """How many of them may be claimed."""
    states = [(await harness.task(task)).state for task in ids]
    return states.count(State.READY)


async def test_dependents_beyond_the_limit_are_left_to_the_next_call(harness: Harness) -> None:
    dependency, dependents = await partly_resolved(harness)

    found = await all_keys(harness, p=dependency)

    assert found["unblocking"] == ["p"]
    assert len(found["dependents:p"]) == 2
    assert found["stats"] == {"1:COMPLETED": 1, "1:PENDING": 2, "submitted": 4}
    assert await ready(harness, dependents) == 1


async def test_unresolved_dependents_outlive_their_dependency(harness: Harness) -> None:
    dependency, _ = await partly_resolved(harness)

    assert await expiring_keys(harness, p=dependency) == set()


async def test_all_dependents_are_resolved_at_last(harness: Harness) -> None:
    dependency, (one, two, three) = await partly_resolved(harness)

    steps = [await run_move(harness, "task/unblock", TERMS) for _ in range(2)]

    assert steps == [["OK", 0], ["OK", 0]]
    found = await all_keys(harness, p=dependency, a=one, b=two, c=three)
    dependent = {
        "created": "*", "def0": "*", "entry": "*", "flags": "p", "lane": "1", "score": "*",
        "state": "READY",
    }  # fmt: skip
    found["ready"] = sorted(found["ready"][0]), found["ready"][1]
    unblocked = " ".join(event["task"] for event in found.pop("events"))
    assert sorted(unblocked.split(" ")) == ["a", "b", "c"]
    assert found == LANES | W1 | {
        "task:p": {
            "def0": "*", "entry": "*", "finished": "*", "flags": "pd", "holder": "* * w1",
            "lane": "1", "score": "*", "state": "COMPLETED", "token": "1:*",
        },
        "task:a": dependent,
        "task:b": dependent,
        "task:c": dependent,
        "ready": (["a", "b", "c"], {}),
        "lane:1": ["a", "b", "c"],
        "stats": {"1:COMPLETED": 1, "submitted": 4},
        "dag:p": {
            "cancelled": "0", "created": "*", "dead": "0", "edges": "3", "on_failure": "hold",
            "open": "3", "status": "running", "total": "4",
        },
        "members:p": ["a", "b", "c", "p"],
        "dags": ["p"],
        "unfinished": {"rank p": "3"},
    }  # fmt: skip


async def test_the_reply_has_more_while_some_are_left(harness: Harness) -> None:
    _, dependents = await partly_resolved(harness, dependents=5)

    steps = [await run_move(harness, "task/unblock", TERMS) for _ in range(3)]

    assert steps == [["OK", 1], ["OK", 0], ["OK", 0]]
    assert await ready(harness, dependents) == 5


async def test_a_task_with_another_open_dependency_still_waits(harness: Harness) -> None:
    dependency, _ = await partly_resolved(harness, dependents=3)
    other = await harness.running()
    dependent = (await harness.queue.enqueue("code", {}, depends_on=[other.id])).id
    await harness.client.sadd(harness.keys.waits(dependent.ulid), dependency.ulid)
    await harness.client.zadd(harness.keys.dependents(dependency.ulid), {dependent.ulid: 0})

    while (await run_move(harness, "task/unblock", TERMS))[1]:
        pass

    assert (await harness.task(dependent)).blocked_by == (other.id,)


async def test_a_dependent_that_was_cancelled_meanwhile_stays_cancelled(harness: Harness) -> None:
    _, dependents = await partly_resolved(harness)
    waiting = [task for task in dependents if (await harness.task(task)).state is State.PENDING]
    await harness.queue.cancel(waiting[0])

    assert await run_move(harness, "task/unblock", TERMS) == ["OK", 0]

    assert (await harness.task(waiting[0])).state is State.CANCELLED
    assert (await harness.task(waiting[1])).state is State.READY
    assert "unblocking" not in await all_keys(harness)


async def test_a_task_that_no_longer_waits_is_not_made_ready_twice(harness: Harness) -> None:
    dependency, dependents = await partly_resolved(harness)
    (unblocked,) = [task for task in dependents if (await harness.task(task)).state is State.READY]
    await harness.client.zadd(harness.keys.dependents(dependency.ulid), {unblocked.ulid: 0})

    while (await run_move(harness, "task/unblock", TERMS))[1]:
        pass

    assert await harness.client.xlen(harness.keys.ready()) == 3
    assert (await harness.queue.counts())[State.PENDING] == 0


async def test_with_nothing_left_nothing_happens(harness: Harness) -> None:
    await harness.claimed()
    before = await harness.dump()

    assert await run_move(harness, "task/unblock", TERMS) == ["OK", 0]
    assert await harness.dump() == before


async def test_a_waiting_claim_is_answered(harness: Harness) -> None:
    await partly_resolved(harness, dependents=2)
    await harness.queue.claim(worker="w1", types=["code"])
    waiter = await waiting_claim(harness)

    assert await run_move(harness, "task/unblock", TERMS) == ["OK", 0]

    assert len(await mailbox_lines(harness, waiter)) == 1


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    await partly_resolved(harness)
    await run_move(harness, "task/unblock", TERMS)
    before = await harness.dump()

    assert await run_move(harness, "task/unblock", TERMS) == ["OK", 0]
    assert await harness.dump() == before
