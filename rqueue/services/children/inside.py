"""The inside of a child process: runs the attempts its worker sends, on its main thread."""

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

from rqueue.context import Context
from rqueue.context.steps import plainly
from rqueue.model.attempt import Failed, Reason
from rqueue.registry import Handler, kind_of
from rqueue.services.attempt import (
    FROM_WITHIN,
    encoded,
    failure_of,
    makes_way,
    prepared,
    provided,
)
from rqueue.services.children.line import Line, LineScribe, Teller
from rqueue.services.children.messages import Answer, Begun, Ended, Order, Stop
from rqueue.services.children.place import function_at
from rqueue.services.forks import hush_forks

PR_SET_PDEATHSIG = 1
LAST_SEC = 5.0


def main(parent: int, levels: dict[str, int]) -> None:
    """Runs what comes on standard input, which is a socket; returns when the worker closes it."""
    tie_to(parent)
    # Not SIG_IGN: what handlers start would inherit it.
    signal.signal(signal.SIGINT, lambda *_: None)
    line = Line(taken_from(sys.stdin.fileno()))
    os.register_at_fork(after_in_child=line.leave)
    hush_forks()
    child = Child(line)
    threading.Thread(target=child.listen, name="rqueue", daemon=True).start()
    child.work(levels)


def tie_to(parent: int) -> None:
    """Has the kernel end this process with its parent, where it can, whatever the code does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def taken_from(number: int) -> socket.socket:
    """The socket of a file descriptor, which reads nothing from now on; not inherited further."""
    line = socket.socket(fileno=os.dup(number))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, number)
    os.close(nothing)
    return line


class Child:
    """One attempt after the other. Its thread listens while the main thread works."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.orders: SimpleQueue[tuple[Order, Context] | None] = SimpleQueue()
        self.ctx: Context | None = None
        self.task: asyncio.Task[Any] | None = None
        self.runner = asyncio.Runner()
        self.broken = False

    def listen(self) -> None:
        """Takes what the worker says, until it is gone or has no more."""
        while (message := self.line.receive()) is not None:
            match message:
                case Order():
                    scribe = LineScribe(self.line, message.task, message.token, message.model)
                    self.ctx = ctx = Context(message.token, scribe, worker=message.worker, state={})
                    ctx.shelf = message.shelf
                    self.orders.put((message, ctx))
                case Stop():
                    self.stop(message)
                case Answer():
                    self.line.answered(message)
        if self.ctx is not None:
            os._exit(1)
        self.orders.put(None)
        # What the application does at its exit may take so long, and no longer.
        time.sleep(LAST_SEC)
        os._exit(1)

    def stop(self, message: Stop) -> None:
        """Sets the flag of the attempt under way; a coroutine is cancelled."""
        ctx = self.ctx
        if ctx is None or ctx.token != message.token:
            return
        ctx.stopped = True
        if self.task is not None:
            self.runner.get_loop().call_soon_threadsafe(self.task.cancel)

    def work(self, levels: dict[str, int]) -> None:
        """Runs what is ordered, until the worker has closed its line or the loop is broken."""
        with self.runner:
            # Made here, since both threads use it.
            self.runner.get_loop()
            while not self.broken and (found := self.orders.get()) is not None:
                outcome = self.attempt(*found, levels)
                self.task = self.ctx = None
                with suppress(OSError, ValueError, AttributeError):
                    sys.stdout.flush()
                if not self.line.ours:
                    # A copy that the handler has forked: the original says how it ended.
                    os._exit(0)
                order, _ = found
                self.line.send(
                    Ended(outcome, order.task.id, order.token, os.getpid(), last=self.broken)
                )

    def attempt(self, order: Order, ctx: Context, levels: dict[str, int]) -> bytes | Failed | None:
        """The encoded result of an attempt, or how it failed; None where its task has left."""
        try:
            function = function_at(order.module, order.name)
            handler = Handler(order.type, function, kind_of(function, None))
            self.set_up_logs(levels)
            self.line.send(Begun(order.task.id, order.token, os.getpid()))
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
            # Whatever it is, an import that fails included, the next attempt may do better.
            return None if ctx.suspended and makes_way(error) else failure_of(error)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What it gives. A task beside it may stop the loop or raise SystemExit through it: what
        was under way then would raise into the next attempt, so there is none.
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
        """Lets the worker log what is logged here, unless the application has set up its own."""
        root = logging.getLogger()
        if not root.handlers:
            root.addHandler(Teller(self.line))
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)

    async def on_loop(self, handler: Handler, ctx: Context) -> object:
        """Runs a coroutine function; a stop that came before it is not lost."""
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
        """Runs a plain function outside of the loop, so that it may run one of its own."""
        arguments = prepared(handler, ctx.task.payload, ctx)
        if isinstance(arguments, Failed):
            return arguments
        stack = AsyncExitStack()
        try:
            arguments |= self.run(provided(handler.dependencies, ctx, stack))
            value = plainly(handler.function, **arguments)
        except BaseException:
            # As `async with` does: what is provided sees whatever the handler raised.
            if not self.run(stack.__aexit__(*sys.exc_info())):
                raise
            return None
        self.run(stack.aclose())
        return value
