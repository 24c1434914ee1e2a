"""unblock: those who wait for a completed task are all told, in bounded steps."""

from __future__ import annotations

from rqueue import State, TaskId
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keys_after import LANES, W1, afterwards, ask, expiring, mail, parked

TERMS: dict[str, Argument] = {"limit": 2, "tries": 100, "events": 1000}

CALL: dict[str, Argument] = {"tries": 100, "events": 1000}


async def half_told(
    harness: Harness, children: int = 3, told: int = 1
) -> tuple[TaskId, list[TaskId]]:
    """A completed task of whose dependents only some were told."""
    parent = await harness.running()
    ids = [
        (await harness.queue.enqueue("code", {}, depends_on=[parent.id])).id
        for _ in range(children)
    ]
    args: dict[str, Argument] = {"archive": 0, "ttl": 60_000, "limit": told, **CALL}
    await ask(harness, "task/complete", args, [(parent.id.ulid, parent.token, "")])
    return parent.id, ids


async def ready(harness: Harness, ids: list[TaskId]) -> int:
    """How many of them may be claimed."""
    states = [(await harness.task(task)).state for task in ids]
    return states.count(State.READY)


async def test_what_one_call_could_not_tell_is_left_for_the_next(harness: Harness) -> None:
    parent, children = await half_told(harness)

    found = await afterwards(harness, p=parent)

    assert found["unblocking"] == ["p"]
    assert len(found["dependents:p"]) == 2
    assert found["stats"] == {"1:COMPLETED": 1, "1:PENDING": 2, "submitted": 4}
    assert await ready(harness, children) == 1


async def test_those_still_to_be_told_outlive_their_parent(harness: Harness) -> None:
    parent, _ = await half_told(harness)

    assert await expiring(harness, p=parent) == set()


async def test_all_are_told_at_last(harness: Harness) -> None:
    parent, (one, two, three) = await half_told(harness)

    steps = [await ask(harness, "task/unblock", TERMS) for _ in range(2)]

    assert steps == [["OK", 0], ["OK", 0]]
    found = await afterwards(harness, p=parent, a=one, b=two, c=three)
    child = {
        "created": "*", "def0": "*", "entry": "*", "flags": "p", "lane": "1", "score": "*",
        "state": "READY",
    }  # fmt: skip
    found["ready"] = sorted(found["ready"][0]), found["ready"][1]
    told = " ".join(event["task"] for event in found.pop("events"))
    assert sorted(told.split(" ")) == ["a", "b", "c"]
    assert found == LANES | W1 | {
        "task:p": {
            "def0": "*", "entry": "*", "finished": "*", "flags": "pd", "holder": "* * w1",
            "lane": "1", "score": "*", "state": "COMPLETED", "token": "1:*",
        },
        "task:a": child,
        "task:b": child,
        "task:c": child,
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


async def test_more_is_said_while_some_are_left(harness: Harness) -> None:
    _, children = await half_told(harness, children=5)

    steps = [await ask(harness, "task/unblock", TERMS) for _ in range(3)]

    assert steps == [["OK", 1], ["OK", 0], ["OK", 0]]
    assert await ready(harness, children) == 5


async def test_one_that_waits_for_another_too_goes_on_waiting(harness: Harness) -> None:
    parent, _ = await half_told(harness, children=3)
    other = await harness.running()
    child = (await harness.queue.enqueue("code", {}, depends_on=[other.id])).id
    await harness.client.sadd(harness.keys.waits(child.ulid), parent.ulid)
    await harness.client.zadd(harness.keys.dependents(parent.ulid), {child.ulid: 0})

    while (await ask(harness, "task/unblock", TERMS))[1]:
        pass

    assert (await harness.task(child)).blocked_by == (other.id,)


async def test_a_child_that_was_cancelled_meanwhile_stays_so(harness: Harness) -> None:
    _, children = await half_told(harness)
    waiting = [task for task in children if (await harness.task(task)).state is State.PENDING]
    await harness.queue.cancel(waiting[0])

    assert await ask(harness, "task/unblock", TERMS) == ["OK", 0]

    assert (await harness.task(waiting[0])).state is State.CANCELLED
    assert (await harness.task(waiting[1])).state is State.READY
    assert "unblocking" not in await afterwards(harness)


async def test_one_that_no_longer_waits_is_not_made_ready_twice(harness: Harness) -> None:
    parent, children = await half_told(harness)
    (told,) = [task for task in children if (await harness.task(task)).state is State.READY]
    await harness.client.zadd(harness.keys.dependents(parent.ulid), {told.ulid: 0})

    while (await ask(harness, "task/unblock", TERMS))[1]:
        pass

    assert await harness.client.xlen(harness.keys.ready()) == 3
    assert (await harness.queue.counts())[State.PENDING] == 0


async def test_with_nothing_left_nothing_happens(harness: Harness) -> None:
    await harness.claimed()
    before = await harness.dump()

    assert await ask(harness, "task/unblock", TERMS) == ["OK", 0]
    assert await harness.dump() == before


async def test_a_claim_that_waits_is_answered(harness: Harness) -> None:
    await half_told(harness, children=2)
    await harness.queue.claim(worker="w1", types=["code"])
    waiter = await parked(harness)

    assert await ask(harness, "task/unblock", TERMS) == ["OK", 0]

    assert len(await mail(harness, waiter)) == 1


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    await half_told(harness)
    await ask(harness, "task/unblock", TERMS)
    before = await harness.dump()

    assert await ask(harness, "task/unblock", TERMS) == ["OK", 0]
    assert await harness.dump() == before
