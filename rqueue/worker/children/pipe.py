"""The child's socket to its worker: requests of its contexts, and log records."""

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

from rqueue.task.codec import MAX_DEPTH, exact
from rqueue.task.spec import Call
from rqueue.worker.children.messages import (
    LENGTH,
    Answer,
    Ask,
    Attach,
    Logged,
    Request,
    Spawn,
    Step,
    packed,
    unpacked,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from logging import LogRecord

    from rqueue.task.artifact import Artifact
    from rqueue.task.task import Note, Task
    from rqueue.worker.context.spawn import SpawnRequest, Subtask, Wait

PLAIN = (str, int, float, bool, type(None))


class Pipe:
    """Sends from any thread, receives in one. The process exits if the worker is gone."""

    def __init__(self, pipe: socket.socket) -> None:
        self.pipe = pipe
        self.ours = True
        self.lock = threading.Lock()
        self.numbers = count()
        self.asked: dict[int, Future[Any]] = {}

    def leave(self) -> None:
        """In a fork that a handler made: closes the socket, since only the original process may use
        it.
        """
        self.ours = False
        # Another thread may have held the lock, and does not exist in the fork.
        self.lock = threading.Lock()
        self.pipe.close()

    def send(self, message: object) -> None:
        """Sends a message to the worker."""
        if not self.ours:
            raise RuntimeError("a fork of a handler's process cannot use its context")
        data = packed(message)
        with self.lock:
            try:
                self.pipe.sendall(data)
            except OSError:
                os._exit(1)

    def receive(self) -> Any:
        """The next message; None when the socket is closed."""
        head = self.read(LENGTH.size)
        return unpacked(self.read(LENGTH.unpack(head)[0])) if head else None

    def read(self, size: int) -> bytes:
        """Reads exactly `size` bytes; empty when the socket is closed."""
        found = bytearray()
        while len(found) < size:
            try:
                more = self.pipe.recv(min(size - len(found), 65536))
            except OSError:
                more = b""
            if not more:
                return b""
            found += more
        return bytes(found)

    async def ask(self, task: str, token: str, request: Request | None = None) -> Any:
        """The worker's answer, in any event loop; raises the error that it contains."""
        number = next(self.numbers)
        waiting = self.asked[number] = Future()
        self.send(Ask(number, task, token, request))
        return await asyncio.wrap_future(waiting)

    def answered(self, answer: Answer) -> None:
        """Passes an answer to its caller."""
        waiting = self.asked.pop(answer.number)
        if not waiting.set_running_or_notify_cancel():
            return
        if answer.error is not None:
            waiting.set_exception(answer.error)
        else:
            waiting.set_result(answer.found)


class PipeBackend:
    """The context backend of a child process: sends each request to the worker."""

    def __init__(self, pipe: Pipe, task: Task, token: str, model: str | None = None) -> None:
        self.pipe = pipe
        self.task = task
        self.token = token
        self.model = model

    def claimed(self) -> Task:
        """The task as it was claimed."""
        return self.task

    async def note(self, report: Note) -> None:
        """Sends a note; raises LeaseLost if the lease is no longer held."""
        # As JSON values: the worker may not be able to import the handler's types.
        plain = replace(
            report,
            progress=exact(report.progress, "progress", MAX_DEPTH),
            checkpoint=exact(report.checkpoint, "checkpoint", MAX_DEPTH),
        )
        await self.pipe.ask(self.task.id, self.token, plain)

    async def current(self) -> Task:
        """The current state of the task."""
        found: Task = await self.pipe.ask(self.task.id, self.token)
        return found

    async def spawn(self, requests: Sequence[SpawnRequest], wait: Wait) -> list[Subtask]:
        """Spawns tasks; raises Suspended if the task has to wait for them."""
        message = Spawn([plain(request) for request in requests], wait)
        found: list[Subtask] = await self.pipe.ask(self.task.id, self.token, message)
        return found

    async def step(self, name: str, result: bytes = b"") -> bytes:
        """Stores the result of a step, or returns the stored one."""
        found: bytes = await self.pipe.ask(self.task.id, self.token, Step(name, result))
        return found

    async def attach(self, artifact: Artifact) -> None:
        """Records an artifact with the task."""
        await self.pipe.ask(self.task.id, self.token, Attach(artifact))


def plain(request: SpawnRequest) -> SpawnRequest:
    """A request whose payload is JSON: the worker may not be able to import the handler's types."""
    call = request.call
    if isinstance(call, Call):
        return request._replace(
            call=replace(call, payload=exact(call.payload, "payload", MAX_DEPTH))
        )
    if "payload" in call:
        call = {**call, "payload": exact(call["payload"], "payload", MAX_DEPTH)}
    return request._replace(call=call)


class PipeLogHandler(QueueHandler):
    """Sends log records to the worker, whose logging configuration applies."""

    def __init__(self, pipe: Pipe) -> None:
        # QueueHandler requires a queue, which is not used.
        super().__init__(SimpleQueue())
        self.pipe = pipe

    def prepare(self, record: LogRecord) -> LogRecord:
        """The record with its message formatted and every field of a simple type."""
        plain: LogRecord = super().prepare(record)
        odd = {name: value for name, value in vars(plain).items() if not isinstance(value, PLAIN)}
        vars(plain).update({name: repr(value) for name, value in odd.items()})
        return plain

    def enqueue(self, record: LogRecord) -> None:
        """Sends the record; a fork writes it to standard error instead."""
        if self.pipe.ours:
            self.pipe.send(Logged(record))
        elif logging.lastResort is not None:
            logging.lastResort.handle(record)
