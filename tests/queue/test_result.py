"""Waiting for results: woken by a message without polling, also if a message is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Handle, Queue, State
from rqueue.errors import ResultTimeout, StoreUnavailable, TaskCancelled, TaskDead, TaskNotFound
from rqueue.producer import result_waiter
from rqueue.task.ids import new_task_id
from tests.harness import Harness
from tests.queue.until import blocked, watched
from tests.servers import Server, free_ports


async def complete(harness: Harness, result: object = None) -> None:
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete(result)


async def calls_of(harness: Harness) -> int:
    """Returns how many moves and blocking calls the server has run."""
    facts = await harness.client.info("commandstats")
    names = ("fcall", "fcall_ro", "blpop")
    return sum(facts.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names)


async def test_waiting_for_a_result_does_not_poll(alone: Harness, valkey: Server) -> None:
    async with Queue("sales", url=valkey.url) as other:
        handle = await alone.queue.enqueue("code")
        waiting = asyncio.create_task(handle.result(timeout=30))
        await watched(alone, handle.id.ulid)
        await blocked(alone)
        before = await calls_of(alone)
        (lease,) = await other.claim(worker="w1")
        await lease.start()
        await lease.complete({"by": "another"})

        assert await waiting == {"by": "another"}
        assert await calls_of(alone) - before <= 10


async def test_an_available_result_is_returned_immediately(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code")
    await complete(harness, 7)

    assert [await handle.result() for _ in range(3)] == [7, 7, 7]
    assert await handle.result(timeout=1) == 7


async def test_the_error_of_a_dead_task_has_the_reason(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", max_attempts=1)
    waiting = asyncio.create_task(handle.result(timeout=30))
    await watched(harness, handle.id.ulid)
    (lease,) = await harness.queue.claim(worker="w1")

    await lease.fail("invalid_output", "not JSON")

    with pytest.raises(TaskDead) as caught:
        await waiting
    dead = caught.value
    assert (dead.task, dead.reason, dead.message) == (handle.id, "invalid_output", "not JSON")


async def test_waiting_for_a_cancelled_task_raises(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code")
    waiting = asyncio.create_task(handle.result(timeout=30))
    await watched(harness, handle.id.ulid)

    await handle.cancel("not needed")

    with pytest.raises(TaskCancelled) as caught:
        await waiting
    assert (caught.value.task, caught.value.reason) == (handle.id, "not needed")


async def test_a_timeout_of_the_wait_does_not_affect_the_task(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code")

    with pytest.raises(ResultTimeout) as caught:
        await handle.result(timeout=0.02)

    assert (caught.value.task, caught.value.after) == (handle.id, 0.02)
    assert isinstance(caught.value, TimeoutError)
    assert await handle.status() is State.READY
    await complete(harness, "later")
    assert await handle.result(timeout=5) == "later"


async def test_a_handle_is_found_by_any_id(harness: Harness) -> None:
    first = await harness.queue.enqueue("code", external_id="mine")

    for id in (first.id, str(first.id.uuid), "mine"):
        found = await harness.queue.handle(id)
        assert (found.id, found.created) == (first.id, False)
    assert (await found.view("A"))["status"] == "pending"
    with pytest.raises(TaskNotFound):
        await harness.queue.handle("another")


async def test_an_expired_task_is_not_found(harness: Harness) -> None:
    handle = Handle(new_task_id(), True, harness.queue._internals)

    with pytest.raises(TaskNotFound):
        await handle.result(timeout=5)


async def test_a_hundred_waiting_callers_use_one_blocking_connection(alone: Harness) -> None:
    handles = await alone.queue.enqueue_many([{"type": "code"}] * 100)
    waiting = [asyncio.create_task(handle.result(timeout=30)) for handle in handles]
    for handle in handles:
        await watched(alone, handle.id.ulid)
    await blocked(alone, 1)

    leases = await alone.queue.claim(worker="w1", n=100)
    for number, lease in enumerate(leases):
        await lease.start()
        await lease.complete(number)

    assert await asyncio.gather(*waiting) == list(range(100))
    names = [client["cmd"] for client in await alone.client.client_list()]
    assert names.count("blpop") <= 1


async def test_all_callers_that_wait_for_one_task_get_its_result(alone: Harness) -> None:
    handle = await alone.queue.enqueue("code")
    waiting = [asyncio.create_task(handle.result(timeout=30)) for _ in range(10)]
    await watched(alone, handle.id.ulid)
    waiting[0].cancel()

    await complete(alone, "for all")

    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == ["for all"] * 9


async def test_a_lost_message_is_compensated_by_a_check(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_waiter, "RESUBSCRIBE_SEC", 0.1)
    handle = await alone.queue.enqueue("code")
    waiting = asyncio.create_task(handle.result(timeout=30))
    await watched(alone, handle.id.ulid)

    # The registration of the waiting caller is deleted, so its message is lost.
    await alone.client.delete(alone.keys.watchers(handle.id.ulid))
    await complete(alone, "healed")

    assert await waiting == "healed"


async def test_a_lost_message_is_compensated_while_other_messages_come(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_waiter, "RESUBSCRIBE_SEC", 0.2)
    handle = await alone.queue.enqueue("code")
    waiting = asyncio.create_task(handle.result(timeout=5))
    await watched(alone, handle.id.ulid)

    await alone.client.delete(alone.keys.watchers(handle.id.ulid))
    await complete(alone, "healed")
    box = alone.keys.mail(alone.queue._internals.local.result_waiter.mailbox)
    while not waiting.done():
        await alone.client.rpush(box, "ended another")

    assert await waiting == "healed"


async def test_closing_ends_the_wait_at_once(alone: Harness) -> None:
    handle = await alone.queue.enqueue("code")
    waiting = [asyncio.create_task(handle.result(timeout)) for timeout in (None, 30)]
    await watched(alone, handle.id.ulid)
    await blocked(alone)

    async with asyncio.timeout(2):
        await alone.queue.aclose()
        answers = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(answer) for answer in answers] == [StoreUnavailable] * 2
    assert "closed" in str(answers[0])
    await complete(alone, "later")
    assert await handle.result(timeout=5) == "later"


async def test_closing_ends_a_wait_that_has_just_begun(alone: Harness) -> None:
    handle = await alone.queue.enqueue("code")
    waiting = asyncio.create_task(handle.result())
    await asyncio.sleep(0)

    async with asyncio.timeout(2):
        await alone.queue.aclose()
        with pytest.raises(StoreUnavailable):
            await waiting

    assert alone.queue._internals.runtime.connection.loops == {}


async def test_a_killed_waiting_connection_is_reopened(alone: Harness) -> None:
    handle = await alone.queue.enqueue("code")
    waiting = asyncio.create_task(handle.result(timeout=30))
    await watched(alone, handle.id.ulid)
    await blocked(alone)

    for client in await alone.client.client_list():
        if client["cmd"] == "blpop":
            await alone.client.client_kill_filter(_id=client["id"])
    await blocked(alone)
    await complete(alone, "healed")

    assert await waiting == "healed"


async def test_killed_idle_connections_cost_one_retry(alone: Harness) -> None:
    await asyncio.gather(*(alone.queue.claim(worker=f"w{n}") for n in range(30)))
    mine = await alone.client.client_id()

    for client in await alone.client.client_list():
        if int(client["id"]) != mine:
            await alone.client.client_kill_filter(_id=client["id"])

    async with asyncio.timeout(1):
        assert (await alone.queue.enqueue("code")).created


async def test_waiting_on_an_unreachable_server_raises() -> None:
    (port,) = free_ports(1)
    queue = Queue("away", url=f"redis://127.0.0.1:{port}", call_timeout_sec=0.2)
    calls: list[Any] = [Handle(new_task_id(), True, queue._internals).result() for _ in range(3)]

    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert {type(answer) for answer in answers} == {StoreUnavailable}
    await queue.aclose()


async def test_more_calls_than_connections_are_queued(alone: Harness) -> None:
    async with asyncio.timeout(3):
        found = await asyncio.gather(*(alone.queue.claim(worker="w1") for _ in range(200)))

    assert found == [[]] * 200
    assert len(await alone.client.client_list()) <= 40
