"""Runs patterns and schemas, which come with tasks and may take very long, in processes that are
killed on timeout. A thread could not be killed, and `re` holds the GIL.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rqueue.task.validation import Check

PROGRAM = Path(__file__).with_name("checker_program.py")
# Where the program finds rqueue, wherever the worker was started.
ROOT = str(PROGRAM.parents[3])
# The start of an interpreter does not count for the time of a check.
START_SEC = 30.0
# The process ends itself this much after the timeout.
LATER_SEC = 1.0
MAX_ANSWER = 1 << 20


class Checker:
    """One checker process, which runs one check at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls) -> Self:
        """Starts a process; use it after `ready`."""
        paths = json.dumps([*filter(None, map(str, sys.path)), ROOT])
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", str(PROGRAM), paths,
            stdin=PIPE, stdout=PIPE, limit=MAX_ANSWER, start_new_session=True,
        )  # fmt: skip
        return cls(process)

    async def ready(self) -> None:
        """Waits until the process has started; raises TimeoutError."""
        async with asyncio.timeout(START_SEC):
            await self.read_answer()

    async def run(self, check: Check, output: Any, limit_sec: float) -> str:
        """Why the output does not pass, or an empty string; raises TimeoutError."""
        request = [check.kind, check.value, output, limit_sec + LATER_SEC]
        stdin = self.process.stdin
        if stdin is None:
            raise BrokenPipeError
        async with asyncio.timeout(limit_sec):
            stdin.write(json.dumps(request).encode() + b"\n")
            await stdin.drain()
            return str(await self.read_answer())

    async def read_answer(self) -> Any:
        """Reads the next line of the process."""
        line = await self.process.stdout.readline() if self.process.stdout else b""
        if not line:
            raise BrokenPipeError("the checker process has ended")
        return json.loads(line)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.returncode is None

    def kill(self) -> None:
        """Kills the process."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, 9)


class Checkers:
    """The checker processes of one worker: as many as there are checks at one time, reused, and
    replaced when they were killed.
    """

    def __init__(self) -> None:
        self.all: set[Checker] = set()
        self.spare: list[Checker] = []

    async def check(self, check: Check, output: Any, limit_sec: float) -> str:
        """Why the output does not pass, or an empty string. Raises TimeoutError, and OSError if the
        process breaks. If cancelled, it leaves no process running.
        """
        checker = await self.acquire()
        try:
            found = await checker.run(check, output, limit_sec)
        except BaseException:
            # After any exception the process may still send the answer to this check.
            await self.end(checker)
            raise
        self.spare.append(checker)
        return found

    async def acquire(self) -> Checker:
        """An idle process, or a new one."""
        while self.spare:
            checker = self.spare.pop()
            if checker.alive:
                return checker
            await self.end(checker)
        checker = await Checker.start()
        # Added before it is ready, so that `aclose` ends it whatever happens meanwhile.
        self.all.add(checker)
        try:
            await checker.ready()
        except BaseException:
            await self.end(checker)
            raise
        return checker

    async def end(self, checker: Checker) -> None:
        """Kills a process; returns when it is gone."""
        checker.kill()
        await asyncio.shield(checker.process.wait())
        self.all.discard(checker)

    async def aclose(self) -> None:
        """Ends all processes."""
        for checker in list(self.all):
            await self.end(checker)
        self.spare.clear()
