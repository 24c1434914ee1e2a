"""Calls moves by name on one shard's server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from redis.asyncio import RedisCluster
from redis.exceptions import OutOfMemoryError

from rqueue.errors import ConfigError, RQueueError, ScriptFault, StoreUnavailable
from rqueue.store.errors import translate
from rqueue.store.functions import is_missing, load_functions, record_use
from rqueue.store.library import Argument, Library, Move, library

if TYPE_CHECKING:
    from rqueue.store.connection import Connection
    from rqueue.store.url import Client

Reply = list[Any]
T = TypeVar("T")

WAIT_MS = 1000
RECORD_SEC = 86_400.0
LOADS = 3


class Runner:
    """Calls the moves of one build of the library; a call names its keys and arguments.

    Functions that the server does not have are loaded where this user may, and the call is
    repeated.
    """

    def __init__(self, connection: Connection, functions: Library | None = None) -> None:
        self.connection = connection
        self.library = functions or library()
        self.moves = self.library.moves
        # Called with the duration of each call, where a metrics backend is set.
        self.observe: Callable[[str, float], object] | None = None
        self.recorded = float("-inf")

    async def run(
        self,
        name: str,
        *,
        keys: Mapping[str, str],
        args: Mapping[str, Argument],
        rows: Iterable[Sequence[Argument]] = (),
        replicas: int = 0,
    ) -> Reply:
        """The move's reply, its first word included; repeated when a reply is lost.

        With `replicas`, returns only after so many replicas have the writes; StoreUnavailable when
        they do not.
        """
        move = self.moves[name]
        words = move.pack(keys, args, rows)
        if replicas:
            reply = await self.run_replicated(move, words, replicas)
        else:
            reply = await self.run_words(name, words)
        if not isinstance(reply, list) or not reply:
            raise ScriptFault(name, reply)
        return reply

    async def run_words(self, name: str, words: Sequence[Argument]) -> Reply:
        """`run` for a caller that has packed the arguments itself."""
        move, execute = self.moves[name], self.connection.execute_one
        command = (move.verb, move.function, *words)
        began = monotonic()
        try:
            reply: Reply = await execute(command, what=name)
        except ScriptFault as fault:
            reply = await self.send_again(fault, lambda: execute(command, what=name))
        if self.observe is not None:
            self.observe(name, monotonic() - began)
        if began - self.recorded > RECORD_SEC:
            await self.record()
        return reply

    async def run_all(
        self, name: str, calls: Sequence[Callable[[], Sequence[Argument]]]
    ) -> list[Reply | RQueueError]:
        """The replies to several calls of one move, sent without waiting in between; Overloaded for
        those that a full server refused.

        Each call's arguments are made just before it is sent: the server works meanwhile.
        """
        execute, commands = self.connection.execute, Commands(self.moves[name], calls)
        try:
            replies = await execute(commands, what=name)
        except ScriptFault as fault:
            replies = await self.send_again(fault, lambda: execute(commands, what=name))
        await self.record()
        return [translate(r, name) if isinstance(r, OutOfMemoryError) else r for r in replies]

    async def run_replicated(self, move: Move, words: Sequence[Argument], replicas: int) -> Reply:
        """`run` that returns only when so many replicas have what the call wrote."""

        async def send(client: Client) -> Reply:
            return await execute_replicated(client, move, words, replicas)

        call = self.connection.call
        try:
            reply = await call(send, what=move.name)
        except ScriptFault as fault:
            reply = await self.send_again(fault, lambda: call(send, what=move.name))
        await self.record()
        return reply

    async def send_again(self, fault: ScriptFault, send: Callable[[], Awaitable[T]]) -> T:
        """The result of `send` after the functions are loaded; any other fault is raised. They may
        be deleted again meanwhile, or the call may go to another primary: it is tried a few times.
        """
        for _ in range(LOADS):
            if not is_missing(fault):
                break
            await load_functions(self.connection, self.library)
            try:
                return await send()
            except ScriptFault as error:
                fault = error
        raise fault

    async def record(self) -> None:
        """Records once a day that this client uses its library."""
        now = monotonic()
        if now - self.recorded > RECORD_SEC:
            self.recorded = now
            await record_use(self.connection, self.library)


@dataclass(frozen=True, slots=True)
class Commands:
    """Calls of one move as commands, made again for each iteration."""

    move: Move
    calls: Sequence[Callable[[], Sequence[Argument]]]

    def __iter__(self) -> Iterator[list[Argument]]:
        for call in self.calls:
            yield [self.move.verb, self.move.function, *call()]


async def execute_replicated(
    client: Client, move: Move, words: Sequence[Argument], replicas: int
) -> Reply:
    """The call, and WAIT on the same connection: it counts that connection's writes only."""
    if isinstance(client, RedisCluster):
        raise ConfigError("wait_replicas", "is not offered on a cluster yet")
    pipe = client.pipeline(transaction=False)
    pipe.execute_command(move.verb, move.function, *words)
    pipe.execute_command("WAIT", replicas, WAIT_MS)
    # Raised here: the driver's pipeline would add words of its own before the server's.
    reply, reached = await pipe.execute(raise_on_error=False)
    for answered in (reply, reached):
        if isinstance(answered, Exception):
            raise answered
    if int(reached) < replicas:
        raise StoreUnavailable(f"{reached} of {replicas} replicas have {move.name}")
    answer: Reply = reply
    return answer
