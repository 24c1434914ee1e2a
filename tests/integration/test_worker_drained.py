"""Real worker processes that an operator drains."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rqueue import State
from tests.harness import NAME, Harness, opened
from tests.integration.programs import program
from tests.queue.until import until
from tests.servers import Server

APP = f'''
import asyncio
from pathlib import Path
from rqueue import Context, Queue

queue = Queue("{NAME}")

@queue.task("slow")
async def slow(ctx: Context) -> None:
    await ctx.progress("begun")
    while not Path("gate").exists():
        await asyncio.sleep(0.01)
'''


@pytest.fixture
async def harness(valkey: Server) -> AsyncIterator[Harness]:
    async with opened(valkey) as harness:
        yield harness


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


async def test_a_drained_worker_finishes_its_tasks_and_exits_with_0(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    first = await harness.queue.enqueue("slow")

    async def begun() -> bool:
        return (await first.task()).progress == "begun"

    with program(valkey.url, folder, "worker", "app:queue", "--name", "w7") as running:
        await until(begun)
        await harness.queue.fleet.drain("w7")
        await running.wait_for("drain requested")
        second = await harness.queue.enqueue("slow")
        (folder / "gate").touch()
        code = running.process.wait(30)

    assert (code, await first.status(), await second.status()) == (
        0, State.COMPLETED, State.READY,
    )  # fmt: skip


async def test_a_drained_subprocess_is_not_replaced(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    words = ["worker", "app:queue", "--processes", "2", "--name", "w"]

    async def both() -> bool:
        found = await harness.queue.fleet.workers()
        return [one.status for one in found] == ["active", "active"]

    with program(valkey.url, folder, *words) as running:
        await until(both)
        await harness.queue.fleet.drain("w-1")
        await running.wait_for("worker stopped")
        statuses = {one.name: one.status for one in await harness.queue.fleet.workers()}
        await harness.queue.fleet.drain("w-*")
        code = running.process.wait(30)

    assert statuses == {"w-1": "offline", "w-2": "active"}
    assert (code, running.lines("process replaced")) == (0, [])
