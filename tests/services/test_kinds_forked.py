"""Handlers in processes of their own that fork, and such that break their event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis import asyncio as aredis

from rqueue.errors import TaskDead
from rqueue.services.children.messages import Begun, Ended
from rqueue.store.connection import Connection
from tests.house import House, build
from tests.services import forking, kinds
from tests.services.working import until, working

HANDLERS: tuple[Any, ...] = (
    forking.forks,
    forking.lets_it_go,
    forking.copy_speaks,
    forking.terminates,
    forking.waits_for,
    forking.exits_beside,
    forking.exits_beside_its_provider,
    forking.stops_its_loop,
)


@pytest.fixture
async def house(connection: Connection, client: aredis.Redis) -> AsyncIterator[House]:
    """A queue with these handlers, whose processes have little grace."""
    house = build(connection, client, kill_grace_sec=0.3)
    for function in (kinds.where_on_a_loop, *HANDLERS):
        house.queue.task(function.__name__, kind="process")(function)
    yield house
    await house.queue.aclose()


async def run(house: House, function: Any, payload: Any = None) -> Any:
    """A handle of a task of a function."""
    return await house.queue.enqueue(function.__name__, payload or {}, max_attempts=1)


async def test_a_copy_that_returns_settles_nothing(house: House, tmp_path: Path) -> None:
    go, gone = tmp_path / "go", tmp_path / "gone"
    async with working(house.queue, concurrency=1):
        first = await run(house, forking.forks, {"go": str(go), "gone": str(gone)})
        assert await first.result(timeout=30) == "original"

        second = await run(house, forking.lets_it_go, {"go": str(go), "gone": str(gone)})
        assert await second.result(timeout=30) == "mine"

    assert await first.result(timeout=1) == "original"


async def test_a_copy_may_log_and_cannot_speak_for_its_original(
    house: House, capfd: pytest.CaptureFixture[str]
) -> None:
    async with working(house.queue):
        handle = await run(house, forking.copy_speaks)

        assert await handle.result(timeout=30) == "RuntimeError"

    assert (await handle.task()).progress is None
    assert "said by the copy" in capfd.readouterr().err


async def test_a_copy_can_be_terminated(house: House) -> None:
    async with working(house.queue):
        handle = await run(house, forking.terminates)

        assert await handle.result(timeout=30) == -15


async def test_what_is_said_of_another_attempt_is_dropped(
    house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "go"
    async with working(house.queue) as worker:
        handle = await run(house, forking.waits_for, {"path": str(path)})
        await until(lambda: any(child.busy for child in worker.desk.places.children.all))
        (child,) = worker.desk.places.children.all
        assert child.ctx is not None
        token = child.ctx.token
        for stray in (
            Ended(b'"stray"', handle.id, "1:other", child.pid),
            Ended(b'"stray"', "task_other", token, child.pid),
            Ended(b'"stray"', handle.id, token, child.pid + 1),
            Begun(handle.id, "1:other", child.pid),
        ):
            await child.take(stray)
        path.touch()

        assert await handle.result(timeout=30) == "mine"

    assert [line.message for line in caplog.records].count("a stray message was dropped") == 4


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (forking.exits_beside, "SystemExit: 3"),
        (forking.exits_beside_its_provider, "SystemExit: 3"),
        (forking.stops_its_loop, "Event loop stopped"),
    ],
)
async def test_a_process_whose_loop_is_broken_is_not_used_again(
    house: House, function: Any, words: str
) -> None:
    async with working(house.queue, concurrency=1):
        before = await (await run(house, kinds.where_on_a_loop)).result(timeout=30)
        broken = await run(house, function)
        with pytest.raises(TaskDead, match=words):
            await broken.result(timeout=30)
        after = [await (await run(house, kinds.where_on_a_loop)).result(timeout=30) for _ in "12"]

    assert len(set(after)) == 1
    assert before not in after


async def test_a_process_that_takes_no_more_is_soon_gone(house: House) -> None:
    async with working(house.queue) as worker:
        with pytest.raises(TaskDead):
            await (await run(house, forking.stops_its_loop)).result(timeout=30)

        await until(lambda: not worker.desk.places.children.all, within_sec=10)
        assert worker.desk.places.children.spare == []
