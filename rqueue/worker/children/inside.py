"""The child's side: runs the attempts that its worker sends, on the main thread."""

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
from contextlib import AsyncExitStack, suppress
from queue import SimpleQueue
from typing import Any

from rqueue.task.attempt.outcome import Failed, Reason
from rqueue.worker.attempt import (
    FROM_WITHIN,
    encoded,
    failure_of,
    is_suspension,
    prepared,
    provided,
)
from rqueue.worker.children.importable import function_at
from rqueue.worker.children.messages import Answer, Begun, Ended, Order, Stop
from rqueue.worker.children.pipe import Pipe, PipeBackend, PipeLogHandler
from rqueue.worker.context import Context
from rqueue.worker.context.steps import plainly
from rqueue.worker.handler import Handler, kind_of
from rqueue.worker.threads import reset_signals_in_forks

PR_SET_PDEATHSIG = 1
LAST_SEC = 5.0


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
    child = Child(pipe)
    threading.Thread(target=child.listen, name="rqueue", daemon=True).start()
    child.work(levels)


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


class Child:
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
