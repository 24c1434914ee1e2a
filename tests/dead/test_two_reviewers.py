"""Several reviewers decide on the same dead tasks: each gets the result of what was done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import product
from random import Random
from typing import Any

import pytest

from rqueue import State, Task, TaskId
from rqueue.dead.reviews import RESOLUTIONS
from rqueue.errors import AlreadyDecided, InvalidTask, RQueueError, WrongState
from tests.dead.ordered_decisions import OrderedDecisions, Send, both, delay
from tests.dead.test_admin import BECOMES, NEEDS, died, log
from tests.harness import Harness, opened
from tests.servers import Server

PAIRS = list(product(RESOLUTIONS, repeat=2))


@pytest.fixture
async def other(harness: Harness, server: Server) -> AsyncIterator[Harness]:
    """Returns a second reviewer of the same queue."""
    async with opened(server) as found:
        yield found


async def decide(harness: Harness, task: TaskId, resolution: Any, by: str) -> Task:
    return await harness.queue.dead.decide(task, resolution, by=by, **NEEDS.get(resolution, {}))


async def dies_again(harness: Harness, task: TaskId) -> None:
    (lease,) = await harness.queue.claim(worker="w1")
    assert lease.id == task
    await lease.start()
    await lease.fail("error", "again", permanent=True)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_of_two_concurrent_decisions_only_the_one_carried_out_is_reported(
    harness: Harness, other: Harness, first: str, second: str, *, lost: bool
) -> None:
    task = await died(harness)
    OrderedDecisions(harness.queue, other.queue, lost=lost)

    one, two = await both(
        decide(harness, task, first, "human:ada"), decide(other, task, second, "human:bob")
    )

    assert isinstance(one, Task)
    rows = [(review.by, review.resolution) for review in await log(harness)]
    if first == "escalate":
        assert isinstance(two, Task)
        assert rows == [("human:ada", first), ("human:bob", second)]
        assert (await harness.task(task)).state == BECOMES[second]
    else:
        assert isinstance(two, WrongState)
        assert rows == [("human:ada", first)]
        found = await harness.task(task)
        assert (found.state, two.found) == (BECOMES[first], BECOMES[first])
        assert found.payload == ({"n": 2} if first == "modify_and_retry" else {})


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("first", [one for one in RESOLUTIONS if one != "modify_and_retry"])
@pytest.mark.parametrize("second", [one for one in RESOLUTIONS if one != "modify_and_retry"])
async def test_of_two_decisions_on_a_cluster_each_task_gets_one(
    harness: Harness, other: Harness, first: Any, second: Any, *, lost: bool
) -> None:
    tasks = {await died(harness) for _ in range(3)}
    OrderedDecisions(harness.queue, other.queue, lost=lost)

    one, two = await both(
        harness.queue.dead.decide_many(first, by="human:ada", **NEEDS.get(first, {})),
        other.queue.dead.decide_many(second, by="human:bob", **NEEDS.get(second, {})),
    )

    assert (set(one.done), one.refused) == (tasks, {})
    rows = [(review.by, review.resolution) for review in await log(harness)]
    if first == "escalate":
        assert (set(two.done), len(rows)) == (tasks, 6)
    else:
        assert (two.done, set(two.refused)) == ([], tasks)
        assert rows == [("human:ada", first)] * 3


@pytest.mark.parametrize("plain", ["revive", "discard", "purge"])
async def test_a_plain_call_is_one_of_the_decisions(
    harness: Harness, other: Harness, plain: str
) -> None:
    task = await died(harness)
    OrderedDecisions(harness.queue, other.queue)
    calls: dict[str, Any] = {
        "revive": lambda: other.queue.dead.retry(task),
        "discard": lambda: other.queue.dead.discard(task, "enough"),
        "purge": other.queue.purge,
    }

    one, two = await both(harness.queue.dead.decide(task, "retry", by="human:ada"), calls[plain]())

    assert one.state is State.READY
    assert (two.found, two.done) == (1, 0) if plain == "purge" else isinstance(two, WrongState)
    assert [review.by for review in await log(harness)] == ["human:ada"]


async def test_three_reviewers_of_a_cluster_get_results_that_match_the_log(
    harness: Harness, server: Server
) -> None:
    tasks = [await died(harness) for _ in range(40)]

    async def review(name: str, seed: int) -> list[tuple[str, str, str]]:
        random_numbers = Random(seed)
        done: list[tuple[str, str, str]] = []
        async with opened(server) as mine:
            for task in tasks:
                word = random_numbers.choice(RESOLUTIONS)
                try:
                    await decide(mine, task, word, name)
                    done.append((str(task), word, name))
                except RQueueError:
                    await asyncio.sleep(0)
        return done

    results = await asyncio.gather(*(review(f"human:{n}", n) for n in range(3)))

    rows = [(str(one.task), one.resolution, one.by) for one in await log(harness)]
    assert sorted(rows) == sorted(row for each in results for row in each)
    ended = [task for task, word, _ in rows if word != "escalate"]
    assert len(ended) == len(set(ended))


async def test_three_bulk_decisions_on_a_cluster_get_results_that_match_the_log(
    harness: Harness, server: Server
) -> None:
    tasks = {await died(harness) for _ in range(40)}

    async def review(resolution: Any) -> tuple[list[TaskId], set[TaskId]]:
        async with opened(server) as mine:
            needs = NEEDS.get(resolution, {})
            found = await mine.queue.dead.decide_many(resolution, by=f"human:{resolution}", **needs)
            return found.done, set(found.refused)

    results = dict(
        zip(words := ("retry", "wait", "cancel"), await asyncio.gather(*map(review, words)),
            strict=True)
    )  # fmt: skip

    rows = [(one.task, one.resolution) for one in await log(harness)]
    assert sorted(rows) == sorted((task, word) for word in words for task in results[word][0])
    assert {task for task, _ in rows} == tasks
    assert len(rows) == 40


@pytest.mark.parametrize("resolution", RESOLUTIONS)
async def test_a_decision_on_an_earlier_life_is_refused(
    harness: Harness, other: Harness, resolution: str
) -> None:
    task, begun, go_on = await died(harness), asyncio.Event(), asyncio.Event()

    async def late(send: Send) -> Any:
        begun.set()
        await go_on.wait()
        return await send()

    delay(other.queue, late)
    slow = asyncio.create_task(decide(other, task, resolution, "human:bob"))
    await begun.wait()
    await harness.queue.dead.decide(task, "retry", by="human:ada")
    await dies_again(harness, task)
    before = await harness.dump()
    go_on.set()

    with pytest.raises(WrongState):
        await slow

    assert await harness.dump() == before
    assert [review.by for review in await log(harness)] == ["human:ada"]


@pytest.mark.parametrize("resolution", ["retry", "modify_and_retry", "escalate"])
async def test_a_lost_reply_is_repeated_even_after_the_next_death_and_decision(
    harness: Harness, other: Harness, resolution: str
) -> None:
    task = await died(harness)
    decisions = OrderedDecisions(harness.queue, other.queue, lost=True)
    decisions.begun.set()
    slow = asyncio.create_task(decide(harness, task, resolution, "human:ada"))
    await decisions.sent.wait()
    if resolution != "escalate":
        await dies_again(other, task)
    await other.queue.dead.decide(task, "retry", by="human:bob")
    await dies_again(other, task)
    before = await other.dump()
    decisions.answered.set()

    assert isinstance(await slow, Task)

    assert await other.dump() == before
    assert [review.by for review in await log(harness)] == ["human:ada", "human:bob"]


@pytest.mark.parametrize("second", RESOLUTIONS)
async def test_the_second_reviewer_gets_the_first_decision_in_the_error(
    harness: Harness, other: Harness, second: str
) -> None:
    task = await died(harness)
    OrderedDecisions(harness.queue, other.queue)

    _, error = await both(
        decide(harness, task, "retry", "human:ada"), decide(other, task, second, "human:bob")
    )

    assert isinstance(error, AlreadyDecided)
    assert (error.task, error.found, error.life) == (task, "READY", 1)
    assert (error.by, error.resolution) == ("human:ada", "retry")
    assert str(error) == f"{task} is now READY: human:ada decided retry first (life 1)"


async def test_without_the_log_entry_the_error_contains_the_state(harness: Harness) -> None:
    task = await died(harness)
    await harness.queue.dead.decide(task, "retry", by="human:ada")
    await harness.client.delete(harness.keys.reviews())

    with pytest.raises(AlreadyDecided) as caught:
        await harness.queue.dead.decide(task, "cancel", life=1)

    assert (caught.value.found, caught.value.by, caught.value.resolution) == ("READY", "", "")
    assert "another reviewer decided first" in str(caught.value)


async def test_an_escalation_is_not_a_final_decision(harness: Harness) -> None:
    task = await died(harness)
    await harness.queue.dead.decide(task, "escalate", by="human:eve")
    await harness.queue.dead.decide(task, "cancel", by="human:ada")

    with pytest.raises(AlreadyDecided) as caught:
        await harness.queue.dead.decide(task, "retry", life=1)

    assert (caught.value.by, caught.value.resolution) == ("human:ada", "cancel")


async def test_a_decision_applies_only_to_the_reviewed_life(harness: Harness) -> None:
    task = await died(harness)
    await harness.queue.dead.decide(task, "retry")
    await dies_again(harness, task)

    for life in (1, 3):
        for resolution in RESOLUTIONS:
            with pytest.raises(WrongState):
                await harness.queue.dead.decide(
                    task, resolution, life=life, **NEEDS.get(resolution, {})
                )
    for wrong in (0, -1, 1.0, "1", True):
        with pytest.raises(InvalidTask):
            await harness.queue.dead.decide(task, "retry", life=wrong)  # type: ignore[arg-type]
    assert (await harness.queue.dead.decide(task, "retry", life=2)).life == 3


async def test_a_live_task_cannot_be_decided_on_by_giving_its_life(harness: Harness) -> None:
    lease = await harness.running()

    with pytest.raises(WrongState) as caught:
        await harness.queue.dead.decide(lease.id, "retry", life=1)

    assert type(caught.value) is WrongState
