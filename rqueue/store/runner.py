"""Runs scripts by name on one shard's server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.asyncio import RedisCluster
from redis.exceptions import NoScriptError, OutOfMemoryError

from rqueue.errors import ConfigError, RQueueError, ScriptFault, StoreUnavailable
from rqueue.store.faults import translate
from rqueue.store.scripts import Argument, Script, folder, load, names

if TYPE_CHECKING:
    from rqueue.store.connection import Client, Connection

Reply = list[Any]

WAIT_MS = 1000


class Runner:
    """Every script, read once at start; a call names its keys and arguments.

    `strict` is off for fakeredis alone, which cannot read the `#!lua` line.
    """

    def __init__(self, connection: Connection, *, strict: bool = True) -> None:
        where = folder()
        self.connection = connection
        self.scripts = {name: load(name, where, strict=strict) for name in names(where)}
        # Told how long each call took, where somebody wants to know.
        self.observe: Callable[[str, float], object] | None = None

    async def run(
        self,
        name: str,
        *,
        keys: Mapping[str, str],
        args: Mapping[str, Argument],
        rows: Iterable[Sequence[Argument]] = (),
        replicas: int = 0,
    ) -> Reply:
        """The script's reply, its first word included; sent again as it is when a reply is lost.

        With `replicas`, only after so many of them have it; StoreUnavailable when they do not.
        """
        script = self.scripts[name]
        words = script.pack(keys, args, rows)
        if replicas:
            reply = await self.connection.call(
                lambda client: execute_replicated(client, script, words, replicas), what=name
            )
        else:
            reply = await self.run_words(name, words)
        if not isinstance(reply, list) or not reply:
            raise ScriptFault(name, reply)
        return reply

    async def run_words(self, name: str, words: Sequence[Argument]) -> Reply:
        """`run` for a caller that has packed the words itself."""
        script, ask = self.scripts[name], self.connection.ask_one
        began = monotonic()
        try:
            reply: Reply = await ask(("EVALSHA", script.sha, *words), what=name)
        except ScriptFault as fault:
            if not isinstance(fault.__cause__, NoScriptError):
                raise
            reply = await ask(("EVAL", script.source, *words), what=name)
        if self.observe is not None:
            self.observe(name, monotonic() - began)
        return reply

    async def run_all(
        self, name: str, calls: Sequence[Callable[[], Sequence[Argument]]]
    ) -> list[Reply | RQueueError]:
        """The replies to several calls of one script, sent one behind the other; Overloaded for
        those that a full server refused.

        Each call's words are made only when it is its turn: the server works meanwhile.
        """
        script, ask = self.scripts[name], self.connection.ask
        try:
            replies = await ask(Commands("EVALSHA", script.sha, calls), what=name)
        except ScriptFault as fault:
            if not isinstance(fault.__cause__, NoScriptError):
                raise
            replies = await ask(Commands("EVAL", script.source, calls), what=name)
        return [translate(r, name) if isinstance(r, OutOfMemoryError) else r for r in replies]


@dataclass(frozen=True, slots=True)
class Commands:
    """Calls of one script as commands, made anew each time they are gone through."""

    verb: str
    script: str
    calls: Sequence[Callable[[], Sequence[Argument]]]

    def __iter__(self) -> Iterator[list[Argument]]:
        for call in self.calls:
            yield [self.verb, self.script, *call()]


async def execute_replicated(
    client: Client, script: Script, words: list[Argument], replicas: int
) -> Reply:
    """The script, and WAIT on the same connection: it speaks of that connection's writes only."""
    if isinstance(client, RedisCluster):
        raise ConfigError("wait_replicas", "is not offered on a cluster yet")
    # Loaded first: a text sent in a pipeline could not be sent again when it is unknown.
    await client.script_load(script.source)
    pipe = client.pipeline(transaction=False)
    pipe.execute_command("EVALSHA", script.sha, *words)
    pipe.execute_command("WAIT", replicas, WAIT_MS)
    reply, reached = await pipe.execute()
    if int(reached) < replicas:
        raise StoreUnavailable(f"{reached} of {replicas} replicas have {script.name}")
    answer: Reply = reply
    return answer
