"""The connection of a subprocess to its supervisor."""

from __future__ import annotations

import asyncio
import json
import socket
from types import SimpleNamespace
from typing import Any, cast

from rqueue.process.monitor import Monitor
from rqueue.process.supervisor_pipe import UP_INTERVAL_SEC, SupervisorPipe

MUCH = {"tasks_completed_total": ["x" * 4_000_000]}


class FakeMonitor:
    """A monitor with one answer."""

    async def health(self) -> dict[str, Any]:
        return {"alive": True, "ready": True}


async def test_an_answer_is_sent_while_metrics_are_being_sent() -> None:
    ours, theirs = socket.socketpair()
    pipe = SupervisorPipe(theirs, orphaned=lambda: None, resize=lambda _: None)
    await pipe.open()
    assert pipe.writer is not None
    pipe.push(MUCH)
    assert pipe.writer.transport.get_write_buffer_size() > 0

    # Nobody has read yet: metrics may be skipped then, an answer may not.
    pipe.push(MUCH)
    await pipe.answer("health", cast(Monitor, FakeMonitor()))

    reader, writer = await asyncio.open_connection(sock=ours, limit=2**24)
    lines = [json.loads(await reader.readline()) for _ in range(3)]
    assert lines == [
        ["open", True],
        ["figures", MUCH],
        ["health", {"alive": True, "ready": True}],
    ]
    pipe.writer.close()
    writer.close()


async def test_a_process_is_up_when_redis_has_answered_one_of_its_workers() -> None:
    ours, theirs = socket.socketpair()
    pipe = SupervisorPipe(theirs, orphaned=lambda: None, resize=lambda _: None)
    worker = SimpleNamespace(answered=False)
    monitor = SimpleNamespace(
        served_queues=[SimpleNamespace(worker=None), SimpleNamespace(worker=worker)]
    )
    reader, writer = await asyncio.open_connection(sock=ours)
    await pipe.open()

    listening = asyncio.create_task(pipe.listen(cast(Monitor, monitor)))
    opened = json.loads(await reader.readline())
    rising = asyncio.create_task(reader.readline())
    await asyncio.wait([rising], timeout=2 * UP_INTERVAL_SEC)
    early = rising.done()
    worker.answered = True

    assert (opened, early, json.loads(await rising)) == (["open", True], False, ["up", True])
    writer.close()
    await listening
    await pipe.aclose()


async def test_a_number_of_slots_is_applied_without_a_monitor() -> None:
    ours, theirs = socket.socketpair()
    calls: list[object] = []
    pipe = SupervisorPipe(theirs, orphaned=lambda: calls.append("orphaned"), resize=calls.append)
    await pipe.open()
    ours.sendall(b"slots 7\nhealth\nslots 8\n")
    ours.close()

    await pipe.listen()

    await pipe.aclose()
    assert calls == [7, 8, "orphaned"]
