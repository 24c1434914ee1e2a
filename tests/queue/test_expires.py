"""`expires`, wherever options are accepted: a task that has not started in time is cancelled."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from rqueue import Queue, State, Task
from rqueue.clock import SYSTEM
from rqueue.dags.resumer import Resumer
from rqueue.errors import InvalidTask, TaskCancelled
from rqueue.inbox.reader import Inbox
from rqueue.testing import memory
from tests.harness import Harness


async def expire(harness: Harness, task: str) -> None:
    """Moves the deadline of a task into the past and runs the promoter."""
    await harness.client.zadd(harness.keys.deadlines(), {task[-26:]: 1})
    await harness.promoter.tick()


def until(task: Task) -> datetime:
    """Returns the deadline of a task."""
    assert task.spec.deadline is not None
    return task.spec.deadline


async def test_a_task_that_has_not_started_in_time_is_cancelled(harness: Harness) -> None:
    handle = await harness.queue.enqueue("mail", expires=60)
    left = until(await handle.task()) - SYSTEM.now()
    assert timedelta(seconds=50) < left <= timedelta(seconds=60)
    await harness.promoter.tick()
    assert await handle.status() is State.READY

    await expire(harness, handle.id)

    assert await handle.status() is State.CANCELLED
    with pytest.raises(TaskCancelled, match="deadline passed"):
        await handle.result(timeout=5)


async def test_a_started_task_continues(harness: Harness) -> None:
    lease = await harness.running("mail", expires=timedelta(minutes=1))

    await expire(harness, lease.id)
    await lease.complete()

    assert (await harness.task(lease.id)).state is State.COMPLETED


async def test_expires_is_an_option_of_a_type_and_of_a_call(harness: Harness) -> None:
    @harness.queue.task("mail", expires=3600)
    async def mail() -> None: ...

    by_type = await (await mail.enqueue()).task()
    by_call = await (await mail.options(expires=60).enqueue()).task()
    by_name = await (await harness.queue.enqueue("mail", deadline="2030-01-31T12:00:00Z")).task()

    assert until(by_type) > until(by_call)
    assert [one.spec.on_deadline for one in (by_type, by_call, by_name)] == [
        "cancel", "cancel", "run",
    ]  # fmt: skip


def test_an_invalid_value_is_refused_by_the_decorator() -> None:
    with pytest.raises(InvalidTask, match="expires"):
        Queue("shop", url="redis://nowhere").task("mail", expires="soon")


async def test_tasks_of_a_dag_may_expire(harness: Harness) -> None:
    async with harness.queue.dag("Mail") as dag:
        first = dag.add(harness.queue.call("write"))
        last = dag.add(harness.queue.call("send", expires=timedelta(hours=1)), after=[first])

    spec = (await harness.queue.get(last.id)).spec

    assert (spec.on_deadline, spec.deadline is not None) == ("cancel", True)


async def test_tasks_of_a_follow_up_dag_expire_relative_to_its_submit(harness: Harness) -> None:
    later = {"tasks": [{"type": "send", "expires": timedelta(minutes=5)}]}
    await harness.queue.dags.submit({"tasks": [{"type": "write"}], "on_complete": later})
    (lease,) = await harness.queue.claim(worker="w1", types=["write"])
    await lease.start()
    await lease.complete()

    await Resumer(harness.queue._internals.shard, harness.queue._internals.drafter).tick()

    (task,) = [task async for task in harness.queue.find(type="send")]
    assert timedelta(minutes=4) < until(task) - task.created_at < timedelta(minutes=6)


async def test_the_inbox_counts_from_the_time_it_receives_a_task(harness: Harness) -> None:
    inbox = Inbox(harness.queue._internals.shard, harness.queue.settings, clock=SYSTEM, reader="r1")
    await harness.client.xadd(harness.keys.inbox(), {"task": '{"type": "mail", "expires": 60}'})
    await harness.client.xadd(
        harness.keys.inbox(),
        {"task": '{"type": "mail", "expires": 60, "deadline": "2030-01-31T12:00:00Z"}'},
    )

    await inbox.tick()

    (task,) = [task async for task in harness.queue.find()]
    assert task.spec.on_deadline == "cancel"
    ((_, refused),) = await harness.client.xrange(harness.keys.rejected())
    assert b"give one of them" in refused[b"reason"]


async def test_a_late_task_in_memory_is_cancelled_when_the_time_is_moved() -> None:
    queue = Queue("shop", url="redis://nowhere")
    with memory(queue) as held:
        handle = await queue.enqueue("mail", expires=60)
        held.advance(59)
        assert await handle.status() is State.READY

        held.advance(2)

        assert await handle.status() is State.CANCELLED
