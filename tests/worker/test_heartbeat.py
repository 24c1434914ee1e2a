"""The heartbeat reports a blocked event loop, and counts failed renewals."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from rqueue.core import leases
from rqueue.errors import StoreUnavailable
from rqueue.gauges import gather
from rqueue.process.monitor import ServedQueue
from rqueue.worker import heartbeat
from rqueue.worker.stats import attempt_name, attempt_of
from tests.harness import Harness
from tests.worker.running import until, working

BLOCKED = "event loop blocked"


class LoopLines(logging.Handler):
    """Collects the lines about a blocked loop, and unblocks it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []
        self.reported = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == BLOCKED:
            self.lines.append(vars(record))
            self.reported.set()


@pytest.fixture
def loop_lines(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Collects the lines about the loop, which is checked more often than by default."""
    monkeypatch.setattr(heartbeat, "CHECK_SEC", 0.02)
    monkeypatch.setattr(heartbeat, "BLOCKED_SEC", 1.0)
    found = LoopLines()
    logging.getLogger("rqueue.worker").addHandler(found)
    yield found
    logging.getLogger("rqueue.worker").removeHandler(found)


async def test_a_handler_that_blocks_the_loop_is_logged_with_its_task(
    harness: Harness, loop_lines: LoopLines
) -> None:
    @harness.queue.task("blocking")
    async def blocking(word: str) -> bool:
        return loop_lines.reported.wait(10)

    async with working(harness.queue):
        handle = await blocking.enqueue("hush")
        assert await handle.result(timeout=20)

    (line,) = loop_lines.lines
    assert (line["task"], line["type"]) == (handle.id, "blocking")
    assert "in blocking" in line["by"]
    assert "hush" not in str(line)


async def test_other_code_that_blocks_the_loop_is_logged_with_its_stack(
    harness: Harness, loop_lines: LoopLines
) -> None:
    async with working(harness.queue) as worker:
        await until(worker.beat.thread.is_alive)
        assert loop_lines.reported.wait(10)

    (line,) = loop_lines.lines
    assert "test_other_code_that_blocks_the_loop" in line["by"]
    assert "type" not in line


def test_only_the_names_of_attempts_are_parsed() -> None:
    ulid = "01K0000000000000000000000A"

    assert attempt_of(attempt_name("a.b", ulid)) == {"task": f"task_{ulid}", "type": "a.b"}
    assert attempt_of("Task-7") == attempt_of("") == attempt_of("my own task") == {}


async def test_a_failed_renewal_is_counted_and_repeated_at_the_next_beat(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends = asyncio.Event()
    renew = leases.renew

    async def unavailable(*_: Any) -> Any:
        raise StoreUnavailable("here")

    @harness.queue.task("held")
    async def held() -> None:
        await ends.wait()

    async with working(harness.queue) as worker:
        handle = await held.enqueue()
        await until(lambda: worker.slots.running)
        monkeypatch.setattr(leases, "renew", unavailable)
        await worker.beat.tick()
        monkeypatch.setattr(leases, "renew", renew)
        await worker.beat.tick()
        found = gather([ServedQueue("sales", harness.queue._internals.shard, worker)])
        ends.set()
        await handle.result(timeout=10)

    beats = worker.beat.beats
    assert (beats.missed, beats.sent) == (1, 1)
    assert found.cells["agent_heartbeat_misses_total"][("w1",)][0] == 1
    (line,) = [line for line in caplog.records if line.getMessage() == "leases not renewed"]
    assert vars(line)["leases"] == 1
