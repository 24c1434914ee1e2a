"""A child process's line to its worker: what its contexts say and ask, and what it logs."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from logging.handlers import QueueHandler
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from rqueue.model.call import Call
from rqueue.model.codec import MAX_DEPTH, exact
from rqueue.services.children.messages import (
    LENGTH,
    Answer,
    Ask,
    Attach,
    Logged,
    Said,
    Spawn,
    Step,
    packed,
    unpacked,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from logging import LogRecord

    from rqueue.model.artifact import Artifact
    from rqueue.model.note import Note
    from rqueue.model.subtask import Subtask, Wait, Wish
    from rqueue.model.task import Task

PLAIN = (str, int, float, bool, type(None))


class Line:
    """Sends from any thread, receives in one. A worker that is gone ends the process."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.ours = True
        self.lock = threading.Lock()
        self.numbers = count()
        self.asked: dict[int, Future[Any]] = {}

    def leave(self) -> None:
        """In a copy that a handler has forked: it has no line, and speaks for nobody."""
        self.ours = False
        # Another thread may have held it, and is not in the copy.
        self.lock = threading.Lock()
        self.line.close()

    def send(self, message: object) -> None:
        """Says something to the worker."""
        if not self.ours:
            raise RuntimeError("a forked copy of a handler's process cannot speak for it")
        data = packed(message)
        with self.lock:
            try:
                self.line.sendall(data)
            except OSError:
                os._exit(1)

    def receive(self) -> Any:
        """The next message; None when there will be no more."""
        head = self.read(LENGTH.size)
        return unpacked(self.read(LENGTH.unpack(head)[0])) if head else None

    def read(self, size: int) -> bytes:
        """So many bytes, or none at the line's end."""
        found = bytearray()
        while len(found) < size:
            try:
                more = self.line.recv(min(size - len(found), 65536))
            except OSError:
                more = b""
            if not more:
                return b""
            found += more
        return bytes(found)

    async def ask(self, task: str, token: str, said: Said | None = None) -> Any:
        """What the worker answers, in whatever event loop this is; raises what its store raised."""
        number = next(self.numbers)
        waiting = self.asked[number] = Future()
        self.send(Ask(number, task, token, said))
        return await asyncio.wrap_future(waiting)

    def answered(self, answer: Answer) -> None:
        """Brings an answer to who asked."""
        waiting = self.asked.pop(answer.number)
        if not waiting.set_running_or_notify_cancel():
            return
        if answer.error is not None:
            waiting.set_exception(answer.error)
        else:
            waiting.set_result(answer.found)


class LineScribe:
    """A context's way to the store, through the worker."""

    def __init__(self, line: Line, task: Task, token: str, model: str | None = None) -> None:
        self.line = line
        self.task = task
        self.token = token
        self.model = model

    def claimed(self) -> Task:
        """The task as it was claimed."""
        return self.task

    async def note(self, said: Note) -> None:
        """Keeps a note; raises LeaseLost where the lease is no longer held."""
        # Plain JSON on the line: what only this process knows could not be read there.
        plain = replace(
            said,
            progress=exact(said.progress, "progress", MAX_DEPTH),
            checkpoint=exact(said.checkpoint, "checkpoint", MAX_DEPTH),
        )
        await self.line.ask(self.task.id, self.token, plain)

    async def current(self) -> Task:
        """The task as it stands now."""
        found: Task = await self.line.ask(self.task.id, self.token)
        return found

    async def spawn(self, wishes: Sequence[Wish], wait: Wait) -> list[Subtask]:
        """Adds tasks to the DAG of this one; raises Suspended where they are to be waited for."""
        told = Spawn([plain(wish) for wish in wishes], wait)
        found: list[Subtask] = await self.line.ask(self.task.id, self.token, told)
        return found

    async def step(self, name: str, result: bytes = b"") -> bytes:
        """Keeps what a step gave, or tells what is kept."""
        found: bytes = await self.line.ask(self.task.id, self.token, Step(name, result))
        return found

    async def attach(self, artifact: Artifact) -> None:
        """Notes an artifact with the task."""
        await self.line.ask(self.task.id, self.token, Attach(artifact))


def plain(wish: Wish) -> Wish:
    """A wish whose payload is JSON: what only this process knows could not be read there."""
    call = wish.call
    if isinstance(call, Call):
        return wish._replace(call=replace(call, payload=exact(call.payload, "payload", MAX_DEPTH)))
    if "payload" in call:
        call = {**call, "payload": exact(call["payload"], "payload", MAX_DEPTH)}
    return wish._replace(call=call)


class Teller(QueueHandler):
    """Brings log records to the worker, whose own set-up decides what becomes of them."""

    def __init__(self, line: Line) -> None:
        # It asks for a queue, and the line is used instead.
        super().__init__(SimpleQueue())
        self.told = line

    def prepare(self, record: LogRecord) -> LogRecord:
        """The record with its message made, and nothing in it that only this process knows."""
        plain: LogRecord = super().prepare(record)
        odd = {name: value for name, value in vars(plain).items() if not isinstance(value, PLAIN)}
        vars(plain).update({name: repr(value) for name, value in odd.items()})
        return plain

    def enqueue(self, record: LogRecord) -> None:
        """Sends it; a forked copy says it on its standard error, as where nothing is set up."""
        if self.told.ours:
            self.told.send(Logged(record))
        elif logging.lastResort is not None:
            logging.lastResort.handle(record)
