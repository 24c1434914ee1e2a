"""The program of a subprocess: runs the attempts that its worker sends, on the main thread. A
second thread reads the socket to the worker, which carries requests and log records too.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from itertools import count
from logging.handlers import QueueHandler
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from rqueue.task.attempt.outcome import Failed, Reason
from rqueue.task.codec import MAX_DEPTH, exact
from rqueue.task.spec import Call
from rqueue.worker.attempt import (
    FROM_WITHIN,
    encoded,
    failure_of,
    is_suspension,
    prepared,
    provided,
)
from rqueue.worker.children.messages import (
    LENGTH,
    Answer,
    Ask,
    Attach,
    Begun,
    Ended,
    Logged,
    Order,
    Request,
    Spawn,
    Step,
    Stop,
    packed,
    unpacked,
)
from rqueue.worker.context import Context
from rqueue.worker.context.steps import plainly
from rqueue.worker.handler import Handler, function_at, kind_of
from rqueue.worker.threads import reset_signals_in_forks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from logging import LogRecord

    from rqueue.task.artifact import Artifact
    from rqueue.task.task import Note, Task
    from rqueue.worker.context.spawn import SpawnRequest, Subtask, Wait

PR_SET_PDEATHSIG = 1
LAST_SEC = 5.0
# The types of a log record's fields that the worker can read without the handler's modules.
PLAIN = (str, int, float, bool, type(None))


def main(worker_pid: int, levels: dict[str, int]) -> None:
    """Runs the attempts that come on standard input, a socket; returns when the worker
    closes it.
    """
    exit_with_worker(worker_pid)
    # Not SIG_IGN, which processes started by a handler would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    pipe = Pipe(take_socket(sys.stdin.fileno()))
    os.register_at_fork(after_in_child=pipe.leave)
    reset_signals_in_forks()
    runner = AttemptRunner(pipe)
    threading.Thread(target=runner.listen, name="rqueue", daemon=True).start()
    runner.work(levels)


def exit_with_worker(worker_pid: int) -> None:
    """On Linux, has the kernel kill this process when its worker ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != worker_pid:
        os._exit(1)


def take_socket(number: int) -> socket.socket:
    """Takes over the socket of a file descriptor, which reads from /dev/null from now on. Not
    inherited by processes that handlers start.
    """
    pipe = socket.socket(fileno=os.dup(number))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, number)
    os.close(nothing)
    return pipe


class AttemptRunner:
    """Runs one attempt after another on the main thread; a second thread reads messages."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.orders: SimpleQueue[tuple[Order, Context] | None] = SimpleQueue()
        self.ctx: Context | None = None
        self.task: asyncio.Task[Any] | None = None
        self.runner = asyncio.Runner()
        self.broken = False

    def listen(self) -> None:
        """Handles the worker's messages until the socket is closed. Then the process ends."""
        while (message := self.pipe.receive()) is not None:
            match message:
                case Order():
                    backend = PipeBackend(self.pipe, message.task, message.token, message.model)
                    self.ctx = ctx = Context(
                        message.token, backend, worker=message.worker, state={}
                    )
                    ctx.shelf = message.shelf
                    self.orders.put((message, ctx))
                case Stop():
                    self.stop(message)
                case Answer():
                    self.pipe.answered(message)
        if self.ctx is not None:
            os._exit(1)
        self.orders.put(None)
        # The application's exit handlers get this long.
        time.sleep(LAST_SEC)
        os._exit(1)

    def stop(self, message: Stop) -> None:
        """Sets the attempt's stop flag, and cancels a coroutine."""
        ctx = self.ctx
        if ctx is None or ctx.token != message.token:
            return
        ctx.stopped = True
        if self.task is not None:
            self.runner.get_loop().call_soon_threadsafe(self.task.cancel)

    def work(self, levels: dict[str, int]) -> None:
        """Runs attempts until the worker closes the socket or the event loop is broken."""
        with self.runner:
            # Created here, since both threads use it.
            self.runner.get_loop()
            while not self.broken and (found := self.orders.get()) is not None:
                outcome = self.attempt(*found, levels)
                self.task = self.ctx = None
                with suppress(OSError, ValueError, AttributeError):
                    sys.stdout.flush()
                if not self.pipe.ours:
                    # This is a fork of the handler; the original process reports the outcome.
                    os._exit(0)
                order, _ = found
                self.pipe.send(
                    Ended(outcome, order.task.id, order.token, os.getpid(), last=self.broken)
                )

    def attempt(self, order: Order, ctx: Context, levels: dict[str, int]) -> bytes | Failed | None:
        """The encoded result of an attempt, or its failure; None if its task is suspended."""
        try:
            function = function_at(order.module, order.name)
            handler = Handler(order.type, function, kind_of(function, None))
            self.set_up_logs(levels)
            self.pipe.send(Begun(order.task.id, order.token, os.getpid()))
            if handler.kind == "async":
                value = self.run(self.on_loop(handler, ctx))
            else:
                value = self.on_main_thread(handler, ctx)
            if isinstance(value, Failed):
                return value
            return encoded(handler, value, order.max_result_bytes)
        except asyncio.CancelledError:
            return Failed(Reason.CANCELLED, FROM_WITHIN)
        except BaseException as error:
            # Any exception, including a failed import: a retry may succeed.
            return None if ctx.suspended and is_suspension(error) else failure_of(error)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine on the event loop. If a background task stopped the loop or raised
        SystemExit, the loop is broken and takes no further attempt.
        """
        done = False

        async def whole() -> Any:
            nonlocal done
            try:
                return await work
            finally:
                done = True

        try:
            return self.runner.run(whole())
        finally:
            self.broken = self.broken or not done

    def set_up_logs(self, levels: dict[str, int]) -> None:
        """Sends log records to the worker, unless the application has set up its own logging."""
        root = logging.getLogger()
        if not root.handlers:
            root.addHandler(PipeLogHandler(self.pipe))
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)

    async def on_loop(self, handler: Handler, ctx: Context) -> object:
        """Runs a coroutine function, unless a stop came before it."""
        self.task = asyncio.current_task()
        if ctx.stopped:
            raise asyncio.CancelledError
        arguments = prepared(handler, ctx.task.payload, ctx)
        if isinstance(arguments, Failed):
            return arguments
        async with AsyncExitStack() as stack:
            arguments |= await provided(handler.dependencies, ctx, stack)
            return await handler.function(**arguments)

    def on_main_thread(self, handler: Handler, ctx: Context) -> object:
        """Runs a plain function outside of the event loop, so that it may run its own."""
        arguments = prepared(handler, ctx.task.payload, ctx)
        if isinstance(arguments, Failed):
            return arguments
        stack = AsyncExitStack()
        try:
            arguments |= self.run(provided(handler.dependencies, ctx, stack))
            value = plainly(handler.function, **arguments)
        except BaseException:
            # As `async with` does: the dependencies get the exception.
            if not self.run(stack.__aexit__(*sys.exc_info())):
                raise
            return None
        self.run(stack.aclose())
        return value


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
    """The context backend of a subprocess: sends each request to the worker."""

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
