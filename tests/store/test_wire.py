"""The shared connection: an error of one caller does not affect others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError

from rqueue.errors import ScriptFault
from rqueue.store.connection import Connection
from rqueue.store.pool import Clients
from rqueue.store.wire import checked
from tests.harness import Harness


async def test_a_command_that_cannot_be_packed_does_not_affect_other_replies(
    harness: Harness,
) -> None:
    handles = await harness.queue.enqueue_many([harness.queue.call("code", n) for n in range(3)])
    bad: Any = object()

    with pytest.raises((TypeError, ScriptFault)):
        await harness.queue._internals.shard.run(
            "queue/pause", {"what": bad, "request": "r", "memo_ms": 1}
        )
    found = await asyncio.gather(*(harness.task(handle.id) for handle in handles))

    assert [task.payload for task in found] == [0, 1, 2]


def test_the_error_of_a_server_that_loads_its_data_is_raised() -> None:
    with pytest.raises(BusyLoadingError):
        checked([BusyLoadingError("Redis is loading the dataset in memory")])


def test_the_clients_of_a_closed_loop_are_dropped() -> None:
    def opener() -> Clients:
        # As a client that is connected: its transport holds its loop.
        client: Any = Redis()
        client.loop = asyncio.get_running_loop()
        return Clients(client, client)

    connection = Connection("nowhere", opener, timeout_sec=1)

    async def use() -> None:
        connection.clients()

    for _ in range(3):
        asyncio.run(use())

    assert len(connection.loops) == 1


async def test_replies_to_reads_of_one_write_are_in_order(connection: Connection) -> None:
    commands = [("SET", f"{{t}}{n}", n) for n in range(50)] + [
        ("GET", f"{{t}}{n}") for n in range(50)
    ]

    found = await connection.execute_together(commands, what="many")

    assert [bytes(one) for one in found[50:]] == [b"%d" % n for n in range(50)]
    assert await connection.execute_together([], what="none") == []


async def test_an_error_among_reads_of_one_write_is_raised_and_affects_no_later_reply(
    connection: Connection,
) -> None:
    await connection.execute_together([("RPUSH", "{t}list", "x")], what="many")

    with pytest.raises(ScriptFault, match="WRONGTYPE"):
        await connection.execute_together([("GET", "{t}list"), ("LLEN", "{t}list")], what="many")

    assert await connection.execute_together([("LLEN", "{t}list")], what="one") == [1]
