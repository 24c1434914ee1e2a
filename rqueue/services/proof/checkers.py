"""Patterns and schemas come with tasks, and some take for ever: they are matched in processes that
are killed when their time is up. A thread could not be ended, and `re` lets no other run.
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
    from rqueue.model.proof import Check

PROGRAM = Path(__file__).with_name("apart.py")
# An interpreter's start is no part of the time that a check may take.
START_SEC = 30.0
# By how much later the process ends by itself.
LATER_SEC = 1.0
MAX_ANSWER = 1 << 20


class Checker:
    """One process, which answers one question after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls) -> Self:
        """A process that is ready for questions."""
        paths = json.dumps([path for path in map(str, sys.path) if path])
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", str(PROGRAM), paths,
            stdin=PIPE, stdout=PIPE, limit=MAX_ANSWER, start_new_session=True,
        )  # fmt: skip
        made = cls(process)
        try:
            async with asyncio.timeout(START_SEC):
                await made.answer()
        except BaseException:
            # A cancel too: nobody else knows of this process.
            made.kill()
            raise
        return made

    async def ask(self, check: Check, output: Any, limit_sec: float) -> str:
        """Why the output does not pass; TimeoutError where that is not known in time."""
        question = [check.kind, check.value, output, limit_sec + LATER_SEC]
        stdin = self.process.stdin
        if stdin is None:
            raise BrokenPipeError
        async with asyncio.timeout(limit_sec):
            stdin.write(json.dumps(question).encode() + b"\n")
            await stdin.drain()
            return str(await self.answer())

    async def answer(self) -> Any:
        """The next line of the process."""
        line = await self.process.stdout.readline() if self.process.stdout else b""
        if not line:
            raise BrokenPipeError("the process that checks has ended")
        return json.loads(line)

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self.process.returncode is None

    def kill(self) -> None:
        """Ends the process whatever it does."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, 9)


class Checkers:
    """The processes of one worker: no more than checks at one time, used again, replaced when they
    were killed.
    """

    def __init__(self) -> None:
        self.all: set[Checker] = set()
        self.spare: list[Checker] = []

    async def check(self, check: Check, output: Any, limit_sec: float) -> str:
        """Why the output does not pass, nothing where it does; TimeoutError where that takes too
        long, OSError where the process breaks. Cancelled, it leaves no process at work.
        """
        checker = await self.taken()
        try:
            found = await checker.ask(check, output, limit_sec)
        except BaseException:
            # Whatever came between, its next answer would be to this question.
            await self.end(checker)
            raise
        self.spare.append(checker)
        return found

    async def taken(self) -> Checker:
        """A process that does nothing, or a new one."""
        while self.spare:
            checker = self.spare.pop()
            if checker.alive:
                return checker
            await self.end(checker)
        checker = await Checker.start()
        self.all.add(checker)
        return checker

    async def end(self, checker: Checker) -> None:
        """Kills a process; it is gone when this returns."""
        checker.kill()
        self.all.discard(checker)
        await asyncio.shield(checker.process.wait())

    async def aclose(self) -> None:
        """Ends all processes."""
        for checker in list(self.all):
            await self.end(checker)
        self.spare.clear()
