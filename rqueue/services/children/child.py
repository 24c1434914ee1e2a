"""One child process as its worker sees it, from its start until it is gone."""

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

from rqueue.context import Suspended
from rqueue.errors import ConfigError, LeaseLost, RQueueError
from rqueue.model.attempt import Failed, Reason
from rqueue.model.note import Note
from rqueue.policy.fault import told
from rqueue.services.children.messages import (
    LENGTH,
    Answer,
    Ask,
    Attach,
    Begun,
    Ended,
    Logged,
    Order,
    Said,
    Spawn,
    Step,
    Stop,
    packed,
    unpacked,
)

if TYPE_CHECKING:
    from rqueue.context import Context
    from rqueue.model.subtask import Subtask
    from rqueue.model.task import Task

LOG = logging.getLogger("rqueue.worker")
# What a child said before it died is heard for so long, should others hold its line open.
LAST_WORDS_SEC = 1.0
# The start of a process and its imports are no part of an attempt's time, up to so long.
START_SEC = 10.0
# A SIGTERM to all processes of a service is its worker's to answer, from the first moment on.
BOOT = (
    "import json, signal, sys; signal.signal(signal.SIGTERM, lambda *_: None); "
    "parent, levels, sys.path[:] = json.loads(sys.argv[1]); "
    "from rqueue.services.children.inside import main; main(parent, levels)"
)


class Child:
    """Runs one attempt at a time. `life` ends when the process and all of it are gone."""

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
        self.life = asyncio.create_task(self.live())

    @classmethod
    async def start(cls) -> Self:
        """A fresh interpreter; never a fork, which would copy locks that other threads hold."""
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        levels = {name: logging.getLogger(name).level for name in ("", "rqueue")}
        facts = json.dumps([os.getpid(), levels, list(map(str, sys.path))])
        try:
            # A session of its own: Ctrl-C is for the worker, and a kill reaches all it started.
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", BOOT, facts, stdin=theirs.fileno(), start_new_session=True
            )
        except BaseException:
            # A cancel too: nobody else knows of this end of the line.
            writer.close()
            raise
        finally:
            theirs.close()
        return cls(process, reader, writer)

    @property
    def alive(self) -> bool:
        """Whether it can take an attempt."""
        gone = self.life.done() or self.process.returncode is not None
        return not gone and not self.retired

    @property
    def busy(self) -> bool:
        """Whether an attempt is under way."""
        return self.outcome is not None and not self.outcome.done()

    async def run(self, order: Order, ctx: Context) -> bytes | Failed | None:
        """How the attempt ended; the death of the process is one way. None where its task left."""
        self.tell(order)
        self.ctx = ctx
        self.ordered = time.monotonic()
        ctx.extended_sec += START_SEC
        self.outcome = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self.outcome)

    async def stop(self, grace_sec: float) -> None:
        """Has the attempt end by itself within the grace, else with its process; returns when it
        has ended. Cancelled, it waits no longer for the grace.
        """
        if self.ctx is None or self.outcome is None or self.outcome.done():
            return
        self.tell(Stop(self.ctx.token))
        self.signal(signal.SIGTERM)
        with suppress(asyncio.CancelledError):
            await asyncio.wait({self.outcome}, timeout=grace_sec)
        if self.busy:
            self.kill()
            await asyncio.wait({self.life})

    def close(self) -> None:
        """Lets an idle process end by itself."""
        with suppress(OSError, RuntimeError):
            self.writer.write_eof()

    def kill(self) -> None:
        """Ends the process and what it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process alone."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def tell(self, message: Order | Stop | Answer) -> None:
        """Says something to the process; one that is gone does not hear it."""
        if not self.writer.is_closing():
            self.writer.write(packed(message))

    async def live(self) -> None:
        """Listens until the process is gone; an attempt under way has then failed."""
        listening = asyncio.create_task(self.listen())
        waiting = asyncio.create_task(self.process.wait())
        await asyncio.wait({listening, waiting}, return_when=asyncio.FIRST_COMPLETED)
        # It is dead, or nobody can speak with it any more; what it has started goes with it.
        self.kill()
        await asyncio.wait({listening}, timeout=LAST_WORDS_SEC)
        listening.cancel()
        (fault,) = await asyncio.gather(listening, return_exceptions=True)
        if isinstance(fault, Exception):
            LOG.error("a process was not understood", extra={"pid": self.pid, **told(fault)})
        code = await waiting
        self.writer.close()
        if self.outcome is not None and not self.outcome.done():
            # One process, one task: nothing else was in it.
            self.outcome.set_result(Failed(Reason.CRASH, died(code), alone=True))

    async def listen(self) -> None:
        """Takes what the process says, until the end of its line."""
        try:
            while True:
                head = await self.reader.readexactly(LENGTH.size)
                (size,) = LENGTH.unpack(head)
                await self.take(unpacked(await self.reader.readexactly(size)))
        except (asyncio.IncompleteReadError, OSError):
            return

    async def take(self, message: Begun | Ended | Ask | Logged) -> None:
        """One message of the process."""
        match message:
            case Begun() | Ended():
                self.follow(message)
            case Ask():
                self.tell(await self.answer(message))
            case Logged(record):
                logger = logging.getLogger(record.name)
                if logger.isEnabledFor(record.levelno):
                    logger.handle(record)
            case _:
                assert_never(message)

    def follow(self, message: Begun | Ended) -> None:
        """The course of the attempt under way; what is said of another is not heard."""
        ctx = self.ctx
        # Both: the tasks of one claim share its token.
        said = (message.pid, message.task, message.token)
        if ctx is None or said != (self.pid, ctx.id, ctx.token):
            facts = {"pid": message.pid, "task": message.task, "child": self.pid}
            LOG.warning("a stray message was dropped", extra=facts)
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
        """What the store says to what the attempt under way says or asks."""
        ctx = self.ctx
        # Both: the tasks of one claim share its token.
        if ctx is None or (ctx.id, ctx.token) != (ask.task, ask.token):
            return Answer(ask.number, error=LeaseLost(ask.task, ask.token))
        try:
            return Answer(ask.number, await carried_out(ask.said, ctx))
        except (RQueueError, Suspended) as error:
            return Answer(ask.number, error=error)
        except Exception as error:
            # A step before a submit may raise anything, and not all of it could cross the line.
            fault = ConfigError("middleware", f"raised {type(error).__name__} before the submit")
            return Answer(ask.number, error=fault)


async def carried_out(said: Said | None, ctx: Context) -> Task | list[Subtask] | bytes | None:
    """What the worker does for an attempt in another process, in the name of its context."""
    match said:
        case None:
            return await ctx.scribe.current()
        case Note():
            await ctx.scribe.note(said)
            ctx.extended_sec += said.extend_sec
            return None
        case Spawn(wishes, wait):
            return await ctx.subtasks(wishes, wait)
        case Step(name, result):
            return await ctx.scribe.step(name, result)
        case Attach(artifact):
            await ctx.scribe.attach(artifact)
            return None
        case _:
            assert_never(said)


def died(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"the handler's process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ": perhaps it used too much memory" if -code == signal.SIGKILL else ""
    return f"the handler's process was killed by {name}{hint}"
