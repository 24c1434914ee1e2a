"""Eager mode: the call that enqueues a task runs it."""

from __future__ import annotations

import asyncio

import pytest

from rqueue import State
from rqueue.errors import InvalidTask, TaskDead
from rqueue.testing import eager
from tests.testing.shop import Shop


async def test_a_task_has_ended_when_the_call_returns(shop: Shop) -> None:
    with eager(shop.queue) as held:
        handle = await shop.resize.enqueue("a.png")

        assert shop.seen == [("a.png", 1)]
        assert (await handle.status(), await handle.result()) == (State.COMPLETED, "800/a.png")
        assert len(held.tasks()) == 1


async def test_every_way_to_enqueue_is_eager(shop: Shop) -> None:
    queue = shop.queue
    with eager(queue):
        await queue.enqueue("plain", {"n": 1})
        await queue.enqueue_many([shop.plain.call(2), shop.plain.call(3)])
        await queue.enqueue_document({"type": "plain", "payload": {"n": 4}}, form="native")
        await asyncio.gather(*(shop.plain.enqueue(n) for n in (5, 6, 7)))

    assert shop.seen[:4] == [1, 2, 3, 4]
    assert sorted(shop.seen[4:]) == [5, 6, 7]


async def test_delays_and_retry_delays_are_skipped(shop: Shop) -> None:
    with eager(shop.queue):
        delayed = await shop.resize.options(delay_sec=3600).enqueue("a.png")
        flaky = await shop.flaky.enqueue(3)
        later = await shop.later.enqueue(60)

        assert await delayed.result() == "800/a.png"
        assert (await flaky.result(), await later.result()) == (3, "done")


async def test_the_call_raises_the_exception_of_a_dead_task(shop: Shop) -> None:
    with eager(shop.queue):
        with pytest.raises(ConnectionError, match="attempt 3"):
            await shop.flaky.enqueue(9)
        with pytest.raises(TaskDead, match="stopped after"):
            await shop.slow.enqueue()
        with pytest.raises(InvalidTask):
            await shop.resize.enqueue(7)  # type: ignore[arg-type]

    assert shop.seen == [1, 2, 3]


async def test_without_raise_errors_errors_are_stored_with_the_task(shop: Shop) -> None:
    with eager(shop.queue, raise_errors=False):
        handle = await shop.refuse.enqueue()

        with pytest.raises(TaskDead, match="never"):
            await handle.result()


async def test_tasks_enqueued_by_handlers_are_eager_too(shop: Shop) -> None:
    with eager(shop.queue):
        handle = await shop.parent.enqueue(4)

        assert await handle.result() == 50


async def test_a_duplicate_or_blocked_task_is_not_run(shop: Shop) -> None:
    with eager(shop.queue):
        await shop.plain.options(idempotency_key="k").enqueue(1)
        again = await shop.plain.options(idempotency_key="k").enqueue(1)
        unknown = await shop.queue.enqueue("unknown")
        child = await shop.plain.options(depends_on=[unknown.id]).enqueue(2)

        assert shop.seen == [1]
        assert again.created is False
        assert (await unknown.status(), await child.status()) == ("READY", "PENDING")


def test_blocking_calls_and_their_handlers_are_eager(shop: Shop) -> None:
    @shop.queue.task("blocking")
    def blocking(n: int) -> int:
        return int(shop.plain.sync.enqueue(n).result()) * 2

    @shop.queue.task("careless")
    async def careless(n: int) -> int:
        return int(shop.plain.sync.enqueue(n).result()) * 3

    with eager(shop.queue):
        assert shop.plain.sync.enqueue(1).result() == 2
        assert blocking.sync.enqueue(2).result() == 6
        assert careless.sync.enqueue(3).result() == 12
        with pytest.raises(ConnectionError, match="attempt 3"):
            shop.flaky.sync.enqueue(9)


async def test_the_queue_is_as_before_afterwards(shop: Shop) -> None:
    before = dict(vars(shop.queue))

    with pytest.raises(ConnectionError), eager(shop.queue):
        await shop.flaky.enqueue(9)

    assert vars(shop.queue) == before


async def test_outputs_are_validated(shop: Shop) -> None:
    with eager(shop.queue):
        handle = await shop.proved.enqueue(2)
        with pytest.raises(TaskDead, match="llm-judge: not good"):
            await shop.proved.enqueue(9)

        assert await handle.result() == {"decisionReport": {"tried": 2}, "good": True}
