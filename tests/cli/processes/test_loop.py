"""The event loop of a worker process: exceptions of a handler's sub-tasks do not end it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from rqueue.cli.processes import loop as looping
from rqueue.cli.processes.loop import close, finish, is_real, run

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoop:
    made: Callable[[], asyncio.AbstractEventLoop] = LOOPS[request.param]
    return made()


@pytest.fixture(autouse=True)
def _loop_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals are handled by the loop, as in a worker: no interrupt is a real one. The garbage
    collector is not changed.
    """
    monkeypatch.setattr(looping, "is_real", lambda _: False)
    monkeypatch.setattr(looping, "tune_gc", lambda: None)


async def raising(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


async def gathering(error: BaseException) -> str:
    """A handler with a sub-task that raises and another that continues."""
    other = asyncio.create_task(asyncio.sleep(0.01, "other"))
    with pytest.raises(type(error)):
        await asyncio.gather(raising(error))
    return await other


async def grouping(error: BaseException) -> str:
    with pytest.raises(type(error)):
        async with asyncio.TaskGroup() as group:
            group.create_task(raising(error))
    await asyncio.sleep(0.01)
    return "other"


@pytest.mark.parametrize("handler", [gathering, grouping])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exception_of_a_sub_task_reaches_only_its_awaiter(
    loop: asyncio.AbstractEventLoop,
    caplog: pytest.LogCaptureFixture,
    kind: type[BaseException],
    handler: Callable[[BaseException], Coroutine[Any, Any, str]],
) -> None:
    found = finish(loop, handler(kind("hush")))
    close(loop)

    assert found == "other"
    (line,) = caplog.records
    assert (line.levelno, vars(line)["raised"]) == (logging.ERROR, kind.__name__)
    assert "hush" not in str(vars(line))


def test_a_stopped_loop_continues(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    async def stopping() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        return "went on"

    found = finish(loop, stopping())
    close(loop)

    assert found == "went on"
    assert [line.getMessage() for line in caplog.records] == [
        "event loop stopped by a handler, worker continues"
    ]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RuntimeError("broken")])
def test_an_exception_of_the_work_itself_ends_the_loop(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    with pytest.raises(type(error)) as found:
        finish(loop, raising(error))
    close(loop)

    assert found.value is error
    assert caplog.records == []


def test_an_interrupt_before_signals_are_handled_ends_the_loop(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looping, "is_real", is_real)
    ended = False

    async def waiting() -> None:
        nonlocal ended
        asyncio.get_running_loop().create_task(raising(KeyboardInterrupt()))
        try:
            await asyncio.Event().wait()
        finally:
            ended = True

    with pytest.raises(KeyboardInterrupt):
        finish(loop, waiting())
    close(loop)

    assert ended


def test_a_task_that_ignores_its_cancellation_is_abandoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(looping, "exit_now", codes.append)
    monkeypatch.setattr(looping, "LEAVE_SEC", 0.05)
    going = True

    async def uncancellable() -> None:
        while going:
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue

    async def working() -> None:
        asyncio.get_running_loop().set_debug(False)
        task = asyncio.create_task(uncancellable())
        KEPT.append(task)
        await asyncio.sleep(0)

    run(working())
    going = False

    assert codes == [0]


KEPT: list[asyncio.Task[None]] = []
