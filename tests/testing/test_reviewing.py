"""A queue in memory: dead tasks are decided on as on a server, and reviews are stored."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqueue import Queue, Reject, State
from rqueue.dead import reviews
from rqueue.errors import WrongState
from rqueue.testing import memory


@pytest.fixture
def queue() -> Queue:
    queue = Queue("shop", url="redis://nowhere", principal="human:ada")

    @queue.task("import")
    async def import_row(row: int) -> int:
        if row < 10:
            raise Reject(f"row {row} has no key")
        return row

    return queue


async def test_dead_tasks_are_clustered_and_decided_on_and_reviews_are_stored(queue: Queue) -> None:
    with memory(queue) as server:
        first, second, third = [
            (await queue.enqueue("import", {"row": row})).id for row in range(3)
        ]
        await server.run_until_idle()

        (cluster,) = await queue.dead.clusters()
        await queue.dead.decide(
            first, "modify_and_retry", payload={"row": 11}, cause="invalid_task"
        )
        await queue.dead.decide(second, "escalate")
        later = server.now + timedelta(hours=1)
        await queue.dead.decide(third, "wait", not_before=later)
        await server.run_until_idle()

        assert (cluster.tasks, cluster.pattern) == (3, "row <n> has no key")
        states = [(await queue.get(task)).state for task in (first, second, third)]
        assert states == [State.COMPLETED, State.DEAD_LETTERED, State.PENDING]
        log = [review async for review in queue.dead.reviews()]
        assert [(one.task, one.resolution, one.by) for one in log] == [
            (first, "modify_and_retry", "human:ada"),
            (second, "escalate", "human:ada"),
            (third, "wait", "human:ada"),
        ]
        assert [
            review async for review in queue.dead.reviews(until=later - timedelta(hours=2))
        ] == []


async def test_the_cancel_time_of_a_dead_task_is_the_time_of_its_discard(queue: Queue) -> None:
    with memory(queue) as server:
        task = (await queue.enqueue("import", {"row": 1})).id
        await server.run_until_idle()
        died = server.now
        server.advance(3600)

        await queue.dead.decide(task, "cancel")

        found = await queue.get(task)
        assert (found.cancelled_at, found.updated_at) == (died + timedelta(hours=1), died)


async def test_archived_tasks_expire(queue: Queue) -> None:
    with memory(queue) as server:
        task = (await queue.enqueue("import", {"row": 1})).id
        await server.run_until_idle()
        await queue.dead.decide_many("escalate")
        await queue.dead.decide(task, "delete")
        first, second = await reviews.page(queue._internals.shard, limit=5)

        assert await reviews.page(queue._internals.shard, after=first.entry) == [second]
        assert await reviews.reviewed(queue._internals.shard, [first.entry, "1-1"]) == 1
        assert await reviews.page(queue._internals.shard) == [second]


async def test_waiting_for_a_dead_task_raises_its_error(queue: Queue) -> None:
    with memory(queue) as server:
        task = (await queue.enqueue("import", {"row": 1})).id
        child = (await queue.enqueue("import", {"row": 12}, depends_on=[task])).id
        await server.run_until_idle()

        assert await queue._internals.dead.waiting_for(task, limit=9) == (1, [child])
        with pytest.raises(WrongState):
            await queue.dead.decide(child, "retry")


async def test_attempts_have_their_time_and_cost(queue: Queue) -> None:
    with memory(queue) as server:
        task = (await queue.enqueue("import", {"row": 1}, max_attempts=9)).id
        (lease,) = await queue.claim(worker="w1")
        await lease.start()
        await lease.spend(0.5, tokens_in=3)
        server.advance(5)
        await lease.fail("error", "no")

        (record,) = (await queue.get(task)).failure_history
        assert (record.duration_sec, record.cost_usd, record.tokens) == (5.0, 0.5, 3)
