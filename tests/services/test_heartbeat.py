"""The heartbeat tells of an event loop that is blocked, and counts what it could not renew."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from rqueue.errors import StoreUnavailable
from rqueue.services import heartbeat
from rqueue.services.gathering import Watched, gather
from rqueue.services.naming import attempt_name, attempt_of
from rqueue.store import leases
from tests.house import House
from tests.services.working import until, working

BLOCKED = "event loop blocked"


class Hearing(logging.Handler):
    """Keeps the lines about a blocked loop, and lets go what blocks it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []
        self.heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == BLOCKED:
            self.lines.append(vars(record))
            self.heard.set()


@pytest.fixture
def hearing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hears what is said of the loop, which is looked at more often than it is by default."""
    monkeypatch.setattr(heartbeat, "LOOK_SEC", 0.02)
    monkeypatch.setattr(heartbeat, "BLOCKED_SEC", 1.0)
    found = Hearing()
    logging.getLogger("rqueue.worker").addHandler(found)
    yield found
    logging.getLogger("rqueue.worker").removeHandler(found)


async def test_a_handler_that_blocks_the_loop_is_named(house: House, hearing: Hearing) -> None:
    @house.queue.task("greedy")
    async def greedy(word: str) -> bool:
        return hearing.heard.wait(10)

    async with working(house.queue):
        handle = await greedy.enqueue("hush")
        assert await handle.result(timeout=20)

    (line,) = hearing.lines
    assert (line["task"], line["type"]) == (handle.id, "greedy")
    assert "in greedy" in line["by"]
    assert "hush" not in str(line)


async def test_what_blocks_the_loop_and_is_no_attempt_is_shown(
    house: House, hearing: Hearing
) -> None:
    async with working(house.queue) as worker:
        await until(worker.beat.thread.is_alive)
        assert hearing.heard.wait(10)

    (line,) = hearing.lines
    assert "test_what_blocks_the_loop" in line["by"]
    assert "type" not in line


def test_only_names_of_ours_are_read() -> None:
    ulid = "01K0000000000000000000000A"

    assert attempt_of(attempt_name("a.b", ulid)) == {"task": f"task_{ulid}", "type": "a.b"}
    assert attempt_of("Task-7") == attempt_of("") == attempt_of("my own task") == {}


async def test_a_renewal_that_fails_is_counted_and_the_next_is_tried(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends = asyncio.Event()
    renew = leases.renew

    async def away(*_: Any) -> Any:
        raise StoreUnavailable("here")

    @house.queue.task("held")
    async def held() -> None:
        await ends.wait()

    async with working(house.queue) as worker:
        handle = await held.enqueue()
        await until(lambda: worker.slots.running)
        monkeypatch.setattr(leases, "renew", away)
        await worker.beat.tick()
        monkeypatch.setattr(leases, "renew", renew)
        await worker.beat.tick()
        found = gather([Watched("house", house.queue.shard, worker)])
        ends.set()
        await handle.result(timeout=10)

    beats = worker.beat.beats
    assert (beats.missed, beats.sent) == (1, 1)
    assert found.cells["agent_heartbeat_misses_total"][("w1",)][0] == 1
    (line,) = [line for line in caplog.records if line.getMessage() == "leases not renewed"]
    assert vars(line)["leases"] == 1
