"""Handlers in a module that a subprocess can import, for tests of the kinds of handlers."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from rqueue import Call, Context, Retry, depends
from rqueue.errors import ConfigError, InvalidTask, LeaseLost

LEFT: set[asyncio.Task[None]] = set()
REFUSED: list[str] = []


def write(path: str, text: str) -> None:
    """Completely or not at all: a test waits for the file."""
    temporary = Path(f"{path}.new")
    temporary.write_text(text)
    temporary.rename(path)


def where() -> int:
    return os.getpid()


async def where_on_a_loop() -> int:
    await asyncio.sleep(0)
    return os.getpid()


async def reports(ctx: Context, n: int) -> dict[str, Any]:
    """Uses everything that a context offers."""
    before = await ctx.last_checkpoint()
    failures = [record.error for record in await ctx.failures()]
    await ctx.progress({"n": n})
    await ctx.checkpoint({"at": n})
    await ctx.log("a line")
    await ctx.spend(0.5, tokens_in=3, tokens_out=4)
    ctx.logger.warning("logged by %s", ctx.task.type)
    if ctx.attempt == 1:
        raise Retry(after=0, reason="once more")
    return {
        "before": before,
        "failures": failures,
        "attempt": ctx.attempt,
        "token": ctx.token,
        "cancelled": ctx.cancelled,
        "state": ctx.state,
    }


def prints(ctx: Context) -> str:
    asyncio.run(ctx.progress("half"))
    return ctx.worker


def reports_blocking(ctx: Context, n: int) -> dict[str, Any]:
    """Uses everything that a context offers to plain functions."""
    before = ctx.sync.last_checkpoint()
    ctx.sync.progress({"n": n})
    ctx.sync.checkpoint({"at": n})
    ctx.sync.log("a line")
    ctx.sync.spend(0.5, tokens_in=3, tokens_out=4)
    ctx.sync.extend(30)
    after, failures = ctx.sync.last_checkpoint(), ctx.sync.failures()
    return {"before": before, "after": after, "failures": len(failures)}


async def calls_on_a_loop(ctx: Context) -> None:
    ctx.sync.progress("blocks")


async def leaves_a_task_behind(ctx: Context) -> None:
    async def late() -> None:
        await asyncio.sleep(0.05)
        try:
            await ctx.progress("late")
        except LeaseLost as error:
            REFUSED.append(error.task)

    LEFT.add(asyncio.create_task(late()))


async def waits_for_it() -> list[str]:
    await asyncio.gather(*LEFT)
    return REFUSED


async def extends(ctx: Context) -> str:
    await ctx.extend(60)
    await asyncio.sleep(0.6)
    return "in time"


async def opened(ctx: Context) -> AsyncIterator[str]:
    yield f"opened for {ctx.task.type}"
    write(ctx.task.payload["path"], "closed")


def provided(path: str, what: str = depends(opened)) -> str:
    return what


async def provided_on_a_loop(path: str, what: str = depends(opened)) -> str:
    return what


def dies(how: str) -> None:
    match how:
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)


def ignores_stop(path: str) -> None:
    """Does not stop: it holds the GIL or never checks."""
    write(path, str(os.getpid()))
    while True:
        time.sleep(0.05)


def starts_a_process(path: str) -> None:
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    write(path, str(left.pid))
    left.wait()


def stops(ctx: Context, path: str) -> str:
    """Checks whether it should stop."""
    write(path, str(os.getpid()))
    while not ctx.cancelled:
        time.sleep(0.01)
    write(path, "stopped")
    return "stopped"


async def cancelled_on_a_loop(path: str) -> None:
    write(path, str(os.getpid()))
    try:
        await asyncio.Event().wait()
    finally:
        write(path, "stopped")


def gives(what: str) -> Any:
    return {
        "nan": float("nan"),
        "deep": {"a": [float("inf")]},
        "huge": "x" * 3_000_000,
        "odd": object(),
    }[what]


def echo(payload: str) -> int:
    return len(payload)


def logs(ctx: Context) -> None:
    logging.getLogger("app").warning("number %d", 7, extra={"odd": object()})
    logging.getLogger("app").info("below the level")
    ctx.logger.debug("at the level")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Unpicklable(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


def recursion() -> None:
    recursion()


def raised(what: str) -> None:
    match what:
        case "RecursionError":
            recursion()
        case "huge":
            raise ValueError("x" * 10_000_000)
        case _:
            kinds: dict[str, Callable[[], BaseException]] = {
                "CancelledError": asyncio.CancelledError,
                "SystemExit": lambda: SystemExit(3),
                "KeyboardInterrupt": KeyboardInterrupt,
                "MemoryError": MemoryError,
                "Unprintable": Unprintable,
                "Unpicklable": lambda: Unpicklable("kept"),
                "StopIteration": StopIteration,
                "GeneratorExit": GeneratorExit,
            }
            raise kinds[what]()


def raises(what: str) -> None:
    raised(what)


async def raises_on_a_loop(what: str) -> None:
    raised(what)


def spawns(ctx: Context, n: int) -> dict[str, Any]:
    """Adds tasks to its DAG by blocking calls, and waits for some."""
    left = ctx.sync.spawn({"type": "double", "payload": {"n": 0}}, key="left")
    one = ctx.sync.spawn(Call("double", {"n": n}), wait=True)
    many = ctx.sync.gather(Call("double", {"n": n + 1}), Call("double", {"n": n + 2}))
    return {"left": left, "one": one, "many": many, "attempt": ctx.attempt}


async def spawns_on_a_loop(ctx: Context, n: int) -> list[Any]:
    try:
        await ctx.spawn({"type": "no name!"})
    except InvalidTask as error:
        refused = type(error).__name__
    return [await ctx.spawn(Call("double", {"n": n}), wait=True), refused]


def steps_by_calls(ctx: Context, n: int) -> list[Any]:
    """Runs steps by blocking calls, in its own thread."""

    def plain(n: int) -> dict[str, int]:
        return {"n": n, "attempt": ctx.attempt}

    async def on_a_loop(n: int) -> dict[str, int]:
        return plain(n)

    found = [ctx.sync.step("plain", plain, n), ctx.sync.step("on a loop", on_a_loop, n + 1)]
    if ctx.attempt == 1:
        raise Retry(after=0)
    return [*found, ctx.sync.step("late", threading.get_ident), threading.get_ident()]


async def steps_on_a_loop(ctx: Context, n: int) -> list[Any]:
    first: list[Any] = await ctx.step("plain", lambda: [n, ctx.attempt])
    if ctx.attempt == 1:
        raise Retry(after=0)
    await ctx.step("same", lambda: None)
    try:
        await ctx.step("same", lambda: None)
    except ConfigError as error:
        return [*first, str(error).partition(" in this")[0]]
    return first


def which_model(ctx: Context) -> str | None:
    return ctx.model
