"""Runs scripts by name on one shard's server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redis.asyncio import RedisCluster
from redis.exceptions import NoScriptError

from rqueue.errors import ConfigError, ScriptFault, StoreUnavailable
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

        async def send(client: Client) -> Reply:
            if replicas:
                return await execute_replicated(client, script, words, replicas)
            return await execute(client, script, words)

        reply = await self.connection.call(send, what=name)
        if not isinstance(reply, list) or not reply:
            raise ScriptFault(name, reply)
        return reply


async def execute(client: Client, script: Script, words: list[Argument]) -> Reply:
    """The script by its name; its text only where the server does not know it yet."""
    try:
        reply: Reply = await client.execute_command("EVALSHA", script.sha, *words)
    except NoScriptError:
        reply = await client.execute_command("EVAL", script.source, *words)
    return reply


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
