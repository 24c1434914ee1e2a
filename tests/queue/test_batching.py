"""Concurrent submits of one process are batched, without delay for any of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Handle, Queue
from rqueue.errors import InvalidGraph, InvalidTask, StoreUnavailable
from rqueue.producer import batcher
from rqueue.task.ids import new_task_id
from tests.harness import Harness
from tests.servers import free_ports


class Rounds:
    """Counts the round trips to the server."""

    def __init__(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        original = harness.queue._internals.runtime.connection.until_answered

        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return await original(*args, **kwargs)

        monkeypatch.setattr(harness.queue._internals.runtime.connection, "until_answered", counted)


async def scripts_run(harness: Harness) -> int:
    """Returns how many moves the server has run so far."""
    facts = await harness.client.info("commandstats")
    return sum(
        facts.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("fcall", "fcall_ro")
    )


async def test_a_thousand_concurrent_submits_cost_a_few_round_trips(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await alone.queue.enqueue("code")
    before, rounds = await scripts_run(alone), Rounds(alone, monkeypatch)

    handles = await asyncio.gather(*(alone.queue.enqueue("code", n) for n in range(1000)))

    assert rounds.count <= 3
    assert await scripts_run(alone) - before <= 30
    assert len({handle.id for handle in handles}) == 1000
    assert (await alone.queue.counts())["READY"] == 1001


async def test_the_order_of_the_calls_is_kept(alone: Harness) -> None:
    handles = await asyncio.gather(*(alone.queue.enqueue("code", n) for n in range(400)))

    leases = await alone.queue.claim(worker="w1", n=500)

    assert [lease.id for lease in leases] == [handle.id for handle in handles]
    assert [lease.task.payload for lease in leases] == list(range(400))


async def test_a_single_submit_is_sent_immediately_in_one_call(alone: Harness) -> None:
    await alone.queue.enqueue("code")
    before = await scripts_run(alone)

    for _ in range(5):
        await alone.queue.enqueue("code")

    assert await scripts_run(alone) - before == 5
    assert alone.queue._internals.local.batcher.flushing is None


async def test_concurrent_submits_of_different_calls_are_batched(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await alone.queue.enqueue("code")
    rounds = Rounds(alone, monkeypatch)
    calls: list[Any] = []
    for n in range(100):
        calls.append(alone.queue.enqueue("code", n, idempotency_key="same", tags=["a"]))
        calls.append(alone.queue.enqueue_document({"task_type": "other", "payload": n}))

    handles = await asyncio.gather(*calls)

    assert rounds.count <= 3
    assert sum(handle.created for handle in handles) == 101
    assert len({handle.id for handle in handles[::2]}) == 1


async def test_a_cancelled_caller_does_not_affect_the_others(alone: Harness) -> None:
    for which in (0, 1, 5):
        calls = [asyncio.create_task(alone.queue.enqueue("code", n)) for n in range(10)]
        await asyncio.sleep(0)

        calls[which].cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)

        lost = [n for n, answer in enumerate(answers) if isinstance(answer, BaseException)]
        assert lost == [which]
    assert (await alone.queue.enqueue("code")).created


async def test_a_refused_task_does_not_affect_the_others(alone: Harness) -> None:
    missing = new_task_id()
    calls = [alone.queue.enqueue("code", n) for n in range(10)]
    calls.insert(5, alone.queue.enqueue("code", depends_on=[missing]))
    calls.insert(7, alone.queue.enqueue("code", "x\0"))

    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert isinstance(answers[5], InvalidGraph)
    assert isinstance(answers[7], InvalidTask)
    assert sum(isinstance(answer, BaseException) for answer in answers) == 2


async def test_an_unexpected_error_reaches_every_caller(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(batcher, "submit", broken)
    calls = [alone.queue.enqueue("code", n) for n in range(5)]
    first, *others = await asyncio.gather(*calls, return_exceptions=True)

    assert isinstance(first, Handle)
    assert [str(other) for other in others] == ["a bug"] * 4
    monkeypatch.undo()
    assert (await alone.queue.enqueue("code")).created


async def test_a_call_cancelled_before_its_batch_is_not_sent(alone: Harness) -> None:
    calls = [asyncio.create_task(alone.queue.enqueue("code", n)) for n in range(3)]
    await asyncio.sleep(0)

    for call in calls[1:]:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    assert (await alone.queue.enqueue("code")).created
    assert (await alone.queue.counts())["READY"] == 2


async def test_an_unreachable_server_fails_every_caller() -> None:
    (port,) = free_ports(1)
    queue = Queue("away", url=f"redis://127.0.0.1:{port}", call_timeout_sec=0.2)

    answers = await asyncio.gather(
        *(queue.enqueue("code", n) for n in range(20)), return_exceptions=True
    )

    assert {type(answer) for answer in answers} == {StoreUnavailable}
    await queue.aclose()
