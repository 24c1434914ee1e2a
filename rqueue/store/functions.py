"""The function libraries on a server: load this release's, list all, delete unused ones.

A library belongs to the whole server, all databases and queues. Each client records once a day
that it uses its library, in one key of the server; `rqueue functions prune` deletes what no client
recorded for a time. Nothing else deletes a library.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from redis import exceptions as driver
from redis.asyncio import RedisCluster

from rqueue.errors import ConfigError, FunctionsMissing, Overloaded, RQueueError, ScriptFault
from rqueue.store.errors import DRIVER_ERRORS
from rqueue.store.replies import text

if TYPE_CHECKING:
    from rqueue.store.connection import Connection
    from rqueue.store.library import Library
    from rqueue.store.url import Client

PREFIX = "rqueue_"
# Belongs to the whole server, not to a queue.
USED = "rqueue:functions"
DAY_MS = 86_400_000
RECORD_SEC = 1.0
NOT_FOUND = "Function not found"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One library of ours on a server, and how many days ago a client last recorded its use."""

    name: str
    functions: int
    primaries: int
    idle_days: int | None


class Sent(NamedTuple):
    """On how many primaries a library was loaded, and how many had it already."""

    loaded: int
    present: int


def is_missing(fault: ScriptFault) -> bool:
    """Whether a call failed because the server does not have the function."""
    cause = fault.__cause__
    # The driver removes the word ERR, fakeredis does not.
    return isinstance(cause, driver.ResponseError) and str(cause).removeprefix("ERR ") == NOT_FOUND


async def load_functions(connection: Connection, library: Library) -> Sent:
    """Loads the library on every primary that does not have it.

    Raises FunctionsMissing where this user may not load it, or the server's memory is full. A
    server that has just become a replica is retried like an unavailable one, and raises
    StoreUnavailable in the end.
    """

    async def load(client: Client) -> Sent:
        return await load_each(client, library)

    try:
        return await connection.call(load, what="FUNCTION LOAD")
    except ConfigError as error:
        if not isinstance(error.__cause__, driver.NoPermissionError):
            raise
        raise FunctionsMissing(library.name, "this user may not load them") from error
    except Overloaded as error:
        raise FunctionsMissing(library.name, "the server's memory is full") from error


async def load_each(client: Client, library: Library) -> Sent:
    """Sends the library to each primary. One that fails does not keep it from the others."""
    loaded = present = 0
    failed: Exception | None = None
    for node in await primaries(client):
        try:
            await node("FUNCTION LOAD", library.source)
            loaded += 1
        except driver.ResponseError as error:
            if str(error).endswith("already exists"):
                present += 1
            else:
                failed = failed or error
        except DRIVER_ERRORS as error:
            failed = failed or error
    if failed is None:
        return Sent(loaded, present)
    if isinstance(client, RedisCluster) and isinstance(failed, driver.ReadOnlyError):
        # A failover: the next try uses the new primaries.
        await client.nodes_manager.initialize()
    raise failed


async def primaries(client: Client) -> list[Callable[..., Awaitable[Any]]]:
    """A way to send a command to each primary."""
    if not isinstance(client, RedisCluster):
        return [client.execute_command]

    # A client that has sent nothing yet has no list of nodes.
    await client.initialize()

    def to(node: Any) -> Callable[..., Awaitable[Any]]:
        return lambda *words: client.execute_command(*words, target_nodes=node)

    return [to(node) for node in client.get_primaries()]


async def record_use(connection: Connection, library: Library) -> None:
    """Records that a client uses its library. Errors are ignored, also of a user
    without the right.
    """

    async def record(client: Client) -> None:
        await client.hset(USED, library.name, str(await now_ms(client)))

    with suppress(RQueueError):
        await connection.call(record, what="HSET", timeout_sec=RECORD_SEC)


async def list_functions(connection: Connection) -> list[Loaded]:
    """Every library of ours that some primary has, by name."""

    async def read(client: Client) -> list[Loaded]:
        now = await now_ms(client)
        used: Any = await client.hgetall(USED)
        last = {text(name): int(at) for name, at in used.items()}
        found: dict[str, list[int]] = {}
        for node in await primaries(client):
            reply = await node("FUNCTION LIST", "LIBRARYNAME", f"{PREFIX}*")
            for name, functions in described(reply):
                found.setdefault(name, []).append(functions)
        return [
            Loaded(name, max(counts), len(counts), days_between(last.get(name), now))
            for name, counts in sorted(found.items())
        ]

    return await connection.call(read, what="FUNCTION LIST")


async def now_ms(client: Client) -> int:
    """The server's clock; in a cluster that of the first node."""
    answer: Any = await client.time()
    seconds, _ = next(iter(answer.values())) if isinstance(answer, dict) else answer
    return int(seconds) * 1000


def days_between(last_ms: int | None, now: int) -> int | None:
    """Whole days since a recorded use; None where there is none."""
    return None if last_ms is None else max(0, now - last_ms) // DAY_MS


def described(reply: Any) -> list[tuple[str, int]]:
    """Name and number of functions of each library that FUNCTION LIST answers, in RESP2 or RESP3:
    a flat list of names and values, or a map.
    """
    found = []
    for row in reply:
        pairs = row.items() if isinstance(row, dict) else zip(row[::2], row[1::2], strict=True)
        fields = {text(name): value for name, value in pairs}
        found.append((text(fields["library_name"]), len(fields["functions"])))
    return found


def unused(
    found: Iterable[Loaded], own: str, *, days: int, unrecorded: bool = False
) -> list[Loaded]:
    """The libraries that may be deleted: not this release's own, and not recorded for so many days;
    libraries without any record only with `unrecorded`.
    """
    return [
        one
        for one in found
        if one.name != own and (unrecorded if one.idle_days is None else one.idle_days >= days)
    ]


async def delete_functions(connection: Connection, name: str) -> None:
    """Deletes one library from every primary, and the record of its use."""

    async def delete(client: Client) -> None:
        for node in await primaries(client):
            try:
                await node("FUNCTION DELETE", name)
            except driver.ResponseError as error:
                if not str(error).endswith("Library not found"):
                    raise
        await client.hdel(USED, name)

    await connection.call(delete, what="FUNCTION DELETE")
