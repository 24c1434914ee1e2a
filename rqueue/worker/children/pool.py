"""The worker's side of subprocesses: one of them, and the pool that starts and reuses them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self, assert_never

from rqueue.errors import ConfigError, LeaseLost, RQueueError
from rqueue.task.attempt.classify import log_fields
from rqueue.task.attempt.outcome import Failed, Reason
from rqueue.task.task import Note
from rqueue.worker.attempt import Encoded
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
from rqueue.worker.context import Suspended

if TYPE_CHECKING:
    from rqueue.task.task import Task
    from rqueue.worker.context import Context
    from rqueue.worker.context.spawn import Subtask
    from rqueue.worker.handler import Handler

LOG = logging.getLogger("rqueue.worker")
# How long to read the last messages of a subprocess after its end; a process it started may keep
# the socket open.
LAST_OUTPUT_SEC = 1.0
# The start of the process and its imports do not count for the timeout, up to this time.
START_SEC = 10.0
# From its start the subprocess ignores a SIGTERM that is sent to all processes of a service: the
# worker decides when the attempt stops.
BOOT = (
    "import json, signal, sys; signal.signal(signal.SIGTERM, lambda *_: None); "
    "worker_pid, levels, sys.path[:] = json.loads(sys.argv[1]); "
    "from rqueue.worker.children.subprocess_program import main; main(worker_pid, levels)"
)


class Subprocess:
    """A subprocess, which runs one attempt at a time. `lifetime` ends when its process group is
    gone.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.process = process
        self.reader = reader
        self.writer = writer
        self.pid = process.pid
        self.ctx: Context | None = None
        self.outcome: asyncio.Future[bytes | Failed | None] | None = None
        self.ordered = 0.0
        self.retired = False
        self.lifetime = asyncio.create_task(self.supervise())

    @classmethod
    async def start(cls) -> Self:
        """Starts a new interpreter. Never a fork, which would copy locks that other
        threads hold.
        """
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        levels = {name: logging.getLogger(name).level for name in ("", "rqueue")}
        facts = json.dumps([os.getpid(), levels, list(map(str, sys.path))])
        try:
            # A new session: Ctrl-C reaches the worker only, and a kill reaches all that the
            # subprocess started.
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", BOOT, facts, stdin=theirs.fileno(), start_new_session=True
            )
        except BaseException:
            # On a cancel too, since nothing else closes this socket.
            writer.close()
            raise
        finally:
            theirs.close()
        return cls(process, reader, writer)

    @property
    def alive(self) -> bool:
        """Whether it can run another attempt."""
        gone = self.lifetime.done() or self.process.returncode is not None
        return not gone and not self.retired

    @property
    def busy(self) -> bool:
        """Whether it runs an attempt."""
        return self.outcome is not None and not self.outcome.done()

    async def run(self, order: Order, ctx: Context) -> bytes | Failed | None:
        """Runs an attempt and returns its outcome, also if the process dies. None if the task is
        suspended.
        """
        self.send(order)
        self.ctx = ctx
        self.ordered = time.monotonic()
        ctx.extended_sec += START_SEC
        self.outcome = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self.outcome)

    async def stop(self, grace_sec: float) -> None:
        """Requests the attempt to stop and kills the process after `grace_sec`; returns when the
        attempt has ended. A cancel skips the grace period.
        """
        if self.ctx is None or self.outcome is None or self.outcome.done():
            return
        self.send(Stop(self.ctx.token))
        self.signal(signal.SIGTERM)
        with suppress(asyncio.CancelledError):
            await asyncio.wait({self.outcome}, timeout=grace_sec)
        if self.busy:
            self.kill()
            await asyncio.wait({self.lifetime})

    def close(self) -> None:
        """Closes the socket, so that an idle process ends by itself."""
        with suppress(OSError, RuntimeError):
            self.writer.write_eof()

    def kill(self) -> None:
        """Kills the process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process, not to its group."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def send(self, message: Order | Stop | Answer) -> None:
        """Sends a message, unless the process is gone."""
        if not self.writer.is_closing():
            self.writer.write(packed(message))

    async def supervise(self) -> None:
        """Reads messages until the process is gone; a running attempt fails then."""
        listening = asyncio.create_task(self.listen())
        waiting = asyncio.create_task(self.process.wait())
        await asyncio.wait({listening, waiting}, return_when=asyncio.FIRST_COMPLETED)
        # It is dead or its socket is closed; the processes it started are killed too.
        self.kill()
        await asyncio.wait({listening}, timeout=LAST_OUTPUT_SEC)
        listening.cancel()
        (fault,) = await asyncio.gather(listening, return_exceptions=True)
        if isinstance(fault, Exception):
            LOG.error(
                "invalid message from subprocess", extra={"pid": self.pid, **log_fields(fault)}
            )
        code = await waiting
        self.writer.close()
        if self.outcome is not None and not self.outcome.done():
            # A subprocess runs one task at a time, so this task is the only suspect.
            self.outcome.set_result(Failed(Reason.CRASH, died(code), exclusive=True))

    async def listen(self) -> None:
        """Handles the messages of the process until its socket is closed."""
        try:
            while True:
                head = await self.reader.readexactly(LENGTH.size)
                (size,) = LENGTH.unpack(head)
                await self.take(unpacked(await self.reader.readexactly(size)))
        except (asyncio.IncompleteReadError, OSError):
            return

    async def take(self, message: Begun | Ended | Ask | Logged) -> None:
        """Handles one message."""
        match message:
            case Begun() | Ended():
                self.follow(message)
            case Ask():
                self.send(await self.answer(message))
            case Logged(record):
                logger = logging.getLogger(record.name)
                if logger.isEnabledFor(record.levelno):
                    logger.handle(record)
            case _:
                assert_never(message)

    def follow(self, message: Begun | Ended) -> None:
        """Follows the start and the end of the attempt; messages of another attempt are dropped."""
        ctx = self.ctx
        # Compares task and token: the tasks of one claim may share a token.
        sender = (message.pid, message.task, message.token)
        if ctx is None or sender != (self.pid, ctx.id, ctx.token):
            facts = {"pid": message.pid, "task": message.task, "subprocess": self.pid}
            LOG.warning("message of another attempt dropped", extra=facts)
        elif isinstance(message, Begun):
            ctx.extended_sec += time.monotonic() - self.ordered - START_SEC
        else:
            self.ctx = None
            if message.last:
                self.retired = True
                self.close()
            if self.outcome is not None and not self.outcome.done():
                self.outcome.set_result(message.outcome)

    async def answer(self, ask: Ask) -> Answer:
        """Answers a request of the attempt."""
        ctx = self.ctx
        # Compares task and token: the tasks of one claim may share a token.
        if ctx is None or (ctx.id, ctx.token) != (ask.task, ask.token):
            return Answer(ask.number, error=LeaseLost(ask.task, ask.token))
        try:
            return Answer(ask.number, await carry_out(ask.request, ctx))
        except (RQueueError, Suspended) as error:
            return Answer(ask.number, error=error)
        except Exception as error:
            # Middleware may raise anything, and not every exception can be pickled.
            fault = ConfigError("middleware", f"raised {type(error).__name__} before the submit")
            return Answer(ask.number, error=fault)


class SubprocessPool:
    """Runs each attempt in a subprocess; there are at most as many as attempts at one time."""

    def __init__(self, *, grace_sec: float, max_result_bytes: int) -> None:
        self.grace_sec = grace_sec
        self.max_result_bytes = max_result_bytes
        self.all: set[Subprocess] = set()
        self.spare: list[Subprocess] = []

    async def run(self, handler: Handler, ctx: Context) -> Encoded | Failed:
        """Runs an attempt and returns its outcome; raises Suspended if its task is suspended. If
        cancelled, returns when the attempt's code has ended.
        """
        subprocess = await self.acquire()
        try:
            outcome = await subprocess.run(self.order(handler, ctx), ctx)
        except asyncio.CancelledError:
            await subprocess.stop(self.grace_sec)
            raise
        finally:
            if subprocess.alive and not subprocess.busy:
                self.spare.append(subprocess)
        if outcome is None:
            raise Suspended
        return outcome if isinstance(outcome, Failed) else Encoded(outcome)

    def order(self, handler: Handler, ctx: Context) -> Order:
        """The order for a subprocess to run an attempt."""
        module, name = handler.import_path
        return Order(
            type=handler.type,
            module=module,
            name=name,
            task=ctx.task,
            token=ctx.token,
            worker=ctx.worker,
            max_result_bytes=self.max_result_bytes,
            model=ctx.model,
            shelf=ctx.shelf,
        )

    async def acquire(self) -> Subprocess:
        """An idle subprocess, or a new one."""
        while self.spare:
            subprocess = self.spare.pop()
            if subprocess.alive:
                return subprocess
        subprocess = await Subprocess.start()
        self.all.add(subprocess)
        subprocess.lifetime.add_done_callback(lambda _: self.all.discard(subprocess))
        return subprocess

    def kill(self) -> None:
        """Kills the subprocesses that run an attempt."""
        for subprocess in self.all:
            if subprocess.busy:
                subprocess.kill()

    async def aclose(self) -> None:
        """Ends all subprocesses; returns when they are gone."""
        processes = set(self.all)
        for subprocess in processes:
            subprocess.close()
        if not processes:
            return
        lifetimes = {subprocess.lifetime for subprocess in processes}
        await asyncio.wait(lifetimes, timeout=self.grace_sec)
        for subprocess in processes:
            subprocess.kill()
        await asyncio.wait(lifetimes)


async def carry_out(request: Request | None, ctx: Context) -> Task | list[Subtask] | bytes | None:
    """Carries out a request of a subprocess with the context of its attempt."""
    match request:
        case None:
            return await ctx.backend.current()
        case Note():
            await ctx.backend.note(request)
            ctx.extended_sec += request.extend_sec
            return None
        case Spawn(requests, wait):
            return await ctx.subtasks(requests, wait)
        case Step(name, result):
            return await ctx.backend.step(name, result)
        case Attach(artifact):
            await ctx.backend.attach(artifact)
            return None
        case _:
            assert_never(request)


def died(code: int) -> str:
    """How a process ended, for the failure message."""
    if code >= 0:
        return f"the handler's process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ": perhaps it used too much memory" if -code == signal.SIGKILL else ""
    return f"the handler's process was killed by {name}{hint}"
