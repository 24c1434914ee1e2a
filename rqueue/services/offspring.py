"""A process that was started here, and the line to it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rqueue.metrics.figures import Cells, unpacked
from rqueue.services.parent import VARIABLE
from rqueue.services.probing import ASK_SEC

MAX_LINE_BYTES = 16 * 1024 * 1024
# The last words of a process that has ended are there already.
LAST_WORDS_SEC = 2.0


@dataclass(frozen=True, slots=True)
class Question:
    """What a process was asked, and since when it owes the answer."""

    answer: asyncio.Future[Any]
    since: float


class Offspring:
    """The parent's end of the line; the other end is `Parent`. It notices when this one is gone."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.process = process
        self.reader = reader
        self.writer = writer
        self.figures: Cells = {}
        self.limit = ""
        self.opened = self.up = self.parted = False
        self.asked: dict[str, Question] = {}
        self.listening = asyncio.create_task(self.listen())

    async def listen(self) -> None:
        """Takes what the process says, until it is gone."""
        with suppress(OSError, ValueError):
            while line := await self.reader.readline():
                word, value = json.loads(line)
                if word == "figures":
                    self.figures = unpacked(value)
                elif word == "limit":
                    self.limit, self.parted = value, True
                elif word == "open":
                    self.opened = True
                elif word == "up":
                    self.up = True
                elif word in self.asked:
                    self.asked.pop(word).answer.set_result(value)

    def say(self, word: str) -> None:
        """Tells the process something."""
        self.writer.write(word.encode() + b"\n")

    def resize(self, slots: int) -> None:
        """Gives the process so many slots, from its start on if it has only just begun."""
        self.say(f"slots {slots}")

    async def ask(self, word: str) -> Any:
        """What the process answers; None where it does not in time. All who ask get one answer."""
        if self.listening.done():
            return None
        if word not in self.asked:
            future = asyncio.get_running_loop().create_future()
            self.asked[word] = Question(future, time.monotonic())
            self.say(word)
        answer = self.asked[word].answer
        await asyncio.wait([answer, self.listening], timeout=2 * ASK_SEC,
                           return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        return answer.result() if answer.done() else None

    @property
    def refused(self) -> bool:
        """Whether it ended in good order, last words included, before it was up. One that never
        took up its line had no words.
        """
        return not self.up and (self.parted or not self.opened)

    @property
    def silent_sec(self) -> float:
        """For how long it has owed an answer; 0 where it owes none."""
        now = time.monotonic()
        return max((now - question.since for question in self.asked.values()), default=0.0)

    def send_signal(self, number: int) -> None:
        """Signals the process, if it still runs."""
        if self.process.returncode is None:
            self.process.send_signal(number)

    async def ended(self) -> int:
        """Waits for its end and its last words; its exit code."""
        code = await self.process.wait()
        await asyncio.wait([self.listening], timeout=LAST_WORDS_SEC)
        self.listening.cancel()
        self.writer.close()
        return code


async def start(command: Sequence[str]) -> Offspring:
    """Starts a process with a line to it."""
    ours, theirs = socket.socketpair()
    with theirs:
        # A group of its own: a terminal's Ctrl-C reaches it through us alone, and once.
        process = await asyncio.create_subprocess_exec(
            *command,
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
            env={**os.environ, VARIABLE: str(theirs.fileno())},
        )
    reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE_BYTES)
    return Offspring(process, reader, writer)
