"""The handlers that the worker processes of the fault tests run."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from pathlib import Path

from rqueue import Context, Queue
from rqueue.middleware import Middleware
from rqueue.task.attempt.outcome import Completed, Failed

queue = Queue("sales")
EVENTS = os.open("events", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
POLL_SEC = 0.005


def write(ctx: Context, word: str) -> None:
    """Appends a line to the event log."""
    line = f"{time.monotonic()} {word} {ctx.id.ulid} {ctx.token} {os.getpid()}\n"
    os.write(EVENTS, line.encode("ascii"))


@queue.task("nap")
async def nap(ctx: Context, seconds: float = 0) -> int:
    write(ctx, "begin")
    await asyncio.sleep(seconds)
    write(ctx, "end")
    return os.getpid()


def wait_at_gate() -> None:
    while not Path(f"gate-{os.getpid()}").exists():
        time.sleep(POLL_SEC)


@queue.task("gate")
async def gate(ctx: Context, fails: bool = False) -> int:
    """Blocks the event loop until the gate of its process is open; the process cannot be drained
    before.
    """
    write(ctx, "begin")
    wait_at_gate()
    write(ctx, "end")
    if fails:
        raise ValueError("failed behind the gate")
    return os.getpid()


@queue.task("hog")
async def hog(ctx: Context, seconds: float) -> int:
    """Blocks the interpreter in the first attempt: no thread of the process can run."""
    write(ctx, "begin")
    if ctx.attempt == 1:
        ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    write(ctx, "end")
    return os.getpid()


@queue.task("deed")
async def deed(ctx: Context) -> int:
    write(ctx, "begin")
    write(ctx, "end")
    return os.getpid()


class KillAfterEffect(Middleware):
    """Kills the process between the effect of a task and its completion."""

    async def after_attempt(self, ctx: Context, outcome: Completed | Failed) -> None:
        if ctx.task.type == "deed" and ctx.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)


queue._internals.hooks.middleware.append(KillAfterEffect())


@queue.task("die")
async def die(ctx: Context, how: str) -> None:
    write(ctx, "begin")
    match how:
        case "exit":
            os._exit(3)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fault":
            ctypes.string_at(0)


class Unprintable(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise SystemExit("no words")


def deep(depth: int = 0) -> int:
    return deep(depth + 1) + 1


ENDS = {
    "cancel": asyncio.CancelledError("from within"),
    "exit": SystemExit(4),
    "interrupt": KeyboardInterrupt(),
    "generator": GeneratorExit(),
    "base": BaseException("base"),
    "stop": StopIteration(1),
    "lambda": ValueError(lambda: None),
    "huge": RuntimeError("x" * 1_000_000),
    "group": BaseExceptionGroup("many", [SystemExit(1), ValueError("two")]),
    "wordless": Unprintable(),
}


@queue.task("raise")
async def raises(ctx: Context, what: str) -> None:
    write(ctx, "begin")
    if what == "deep":
        deep()
    raise ENDS[what]


@queue.task("raise-plain")
def raises_plain(ctx: Context, what: str) -> None:
    write(ctx, "begin")
    if what == "deep":
        deep()
    raise ENDS[what]


@queue.task("fan-out")
async def fan_out(ctx: Context, count: int, seconds: float = 0) -> int:
    """Waits for naps that it spawned."""
    write(ctx, "begin")
    naps = [nap.call(seconds=seconds) for _ in range(count)]
    found = await ctx.gather(*naps)
    write(ctx, "end")
    return len(found)


@queue.task("fan-out-thread")
def fan_out_thread(ctx: Context, count: int, seconds: float = 0) -> int:
    write(ctx, "begin")
    found = ctx.sync.gather(*[nap.call(seconds=seconds) for _ in range(count)])
    write(ctx, "end")
    return len(found)


@queue.task("fan-out-process", kind="process")
def fan_out_process(ctx: Context, count: int, seconds: float = 0) -> int:
    write(ctx, "begin")
    found = ctx.sync.gather(*[nap.call(seconds=seconds) for _ in range(count)])
    write(ctx, "end")
    return len(found)


@queue.task("raise-sub")
async def raises_sub(ctx: Context, what: str) -> None:
    """An asyncio task of the handler raises; or the event loop is stopped."""
    write(ctx, "begin")
    if what == "loop":
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        raise ValueError("went on")

    async def sub() -> None:
        raise ENDS[what]

    await asyncio.gather(sub())
