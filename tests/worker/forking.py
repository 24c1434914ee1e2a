"""Handlers that fork, or break the event loop of their process."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import sys
import time
from pathlib import Path

from rqueue import Context, depends


def wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


def waits_for(path: str) -> str:
    wait_for(path)
    return "mine"


def forks(go: str, gone: str) -> str:
    """The fork returns when the next task runs and another process sees its end."""
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            wait_for(go)
            return "copy"
        os.waitpid(-1, 0)
        Path(gone).touch()
        os._exit(0)
    return "original"


def lets_it_go(go: str, gone: str) -> str:
    Path(go).touch()
    wait_for(gone)
    # Messages of the fork would have been sent before this one, so the worker has read them.
    time.sleep(0.1)
    return "mine"


def fork_reports(ctx: Context) -> str:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        reply = b"nothing"
        try:
            logging.getLogger("app").warning("logged by the fork")
            ctx.sync.progress("by the copy")
        except BaseException as error:
            reply = type(error).__name__.encode()
        finally:
            os.write(write, reply)
            os._exit(0)
    os.waitpid(pid, 0)
    return os.read(read, 100).decode()


def terminates() -> int | None:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
    process.start()
    process.terminate()
    process.join(10)
    return process.exitcode


async def leaves() -> None:
    sys.exit(3)


async def exits_beside() -> None:
    await asyncio.gather(leaves())


async def provider() -> str:
    await asyncio.gather(leaves())
    return "never"


def exits_beside_its_provider(given: str = depends(provider)) -> str:
    return given


async def stops_its_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
