"""The loop that a worker process runs on: what a handler's sub-tasks raise does not end it."""

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
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals come by the loop, as in a worker: no interrupt is a real one. And the collector is
    that of all tests.
    """
    monkeypatch.setattr(looping, "is_real", lambda _: False)
    monkeypatch.setattr(looping, "calm", lambda: None)


async def raising(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


async def gathering(error: BaseException) -> str:
    """A handler whose sub-task raises, beside another that goes on."""
    beside = asyncio.create_task(asyncio.sleep(0.01, "beside"))
    with pytest.raises(type(error)):
        await asyncio.gather(raising(error))
    return await beside


async def grouping(error: BaseException) -> str:
    with pytest.raises(type(error)):
        async with asyncio.TaskGroup() as group:
            group.create_task(raising(error))
    await asyncio.sleep(0.01)
    return "beside"


@pytest.mark.parametrize("handler", [gathering, grouping])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_a_sub_task_raises_reaches_who_awaits_it_and_no_further(
    loop: asyncio.AbstractEventLoop,
    caplog: pytest.LogCaptureFixture,
    kind: type[BaseException],
    handler: Callable[[BaseException], Coroutine[Any, Any, str]],
) -> None:
    found = finish(loop, handler(kind("hush")))
    close(loop)

    assert found == "beside"
    (line,) = caplog.records
    assert (line.levelno, vars(line)["raised"]) == (logging.ERROR, kind.__name__)
    assert "hush" not in str(vars(line))


def test_a_loop_that_is_stopped_goes_on(
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
def test_what_the_work_itself_raises_ends_it(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    with pytest.raises(type(error)) as found:
        finish(loop, raising(error))
    close(loop)

    assert found.value is error
    assert caplog.records == []


def test_a_real_interrupt_before_signals_are_heard_ends_it(
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


def test_what_does_not_end_when_it_is_cancelled_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(looping, "exit_now", codes.append)
    monkeypatch.setattr(looping, "LEAVE_SEC", 0.05)
    going = True

    async def deaf() -> None:
        while going:
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue

    async def working() -> None:
        asyncio.get_running_loop().set_debug(False)
        task = asyncio.create_task(deaf())
        KEPT.append(task)
        await asyncio.sleep(0)

    run(working())
    going = False

    assert codes == [0]


KEPT: list[asyncio.Task[None]] = []
