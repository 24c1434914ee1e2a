"""The fast paths of a connection, compared with a general call."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.store.connection import Connection, connect
from tests import servers
from tests.store.dropping_server import a_server_that_drops

# The replies and errors of functions, made by scripts.
SCRIPTS = {
    "number": "return 7",
    "text": "return ARGV[1]",
    "nothing": "return false",
    "no rows": "return {}",
    "rows": "return { 'OK', 1, { 'a', { 2, false } } }",
    "status": "return redis.status_reply('FINE')",
    "no such command": "return redis.call('NOPE', ARGV[1])",
    "a key of another type": "redis.call('SET', KEYS[1], 1) return redis.call('LLEN', KEYS[1])",
    "an error of the script": "return nil .. 'x'",
    "a full server": "return redis.error_reply('OOM command not allowed')",
    "a replica": 'return redis.error_reply("READONLY You can\'t write")',
    "a server that loads": "return redis.error_reply('LOADING the dataset')",
    "a busy server": "return redis.error_reply('BUSY running a script')",
    "a refused command": "return redis.error_reply('NOPERM hush')",
    "an unknown code": "return redis.error_reply('NEVERHEARD hush')",
    "no code": "return redis.error_reply('hush hush')",
}


async def outcome(reply: Awaitable[Any]) -> Any:
    """The reply, or the class of the error and its text."""
    try:
        return await reply
    except RQueueError as error:
        # A cluster's client searches the cluster again, which the time may end or not.
        searched = "redis+cluster" in str(error) and isinstance(error, StoreUnavailable)
        return type(error), "" if searched else str(error)


async def first(replies: Awaitable[list[Any]]) -> Any:
    """The only one of the replies."""
    (reply,) = await replies
    return reply


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_the_fast_paths_return_the_replies_and_raise_the_errors_of_a_general_call(
    connection: Connection, script: str
) -> None:
    words = ("EVAL", script, 1, "k", "a word")
    await connection.execute_one(("PING",), what="open")
    connection.timeout_sec = 0.3

    general = await outcome(connection.call(lambda to: to.execute_command(*words), what="move"))

    assert await outcome(connection.execute_one(words, what="move")) == general
    assert await outcome(first(connection.execute([words], what="move"))) == general
    if not connection.cluster:
        assert await outcome(first(connection.execute_together([words], what="move"))) == general


@pytest.mark.parametrize("lost", [0, 2])
async def test_a_lost_reply_is_replaced_on_the_fast_paths_as_in_a_general_call(lost: int) -> None:
    found = []
    words = ("INCR", "n")
    for send in (
        lambda by: by.call(lambda to: to.execute_command(*words)),
        lambda by: by.execute_one(words, what="move"),
        lambda by: first(by.execute([words], what="move")),
        lambda by: first(by.execute_together([words], what="move")),
    ):
        async with a_server_that_drops(first=lost) as (url, seen):
            connection = connect(url, timeout_sec=5)
            found.append((await send(connection), seen))
            await connection.aclose()

    assert found == [(1, ["INCR"] * (lost + 1))] * 4


async def test_an_unavailable_server_is_one_error_on_the_fast_paths_and_in_a_general_call() -> None:
    (port,) = servers.free_ports(1)
    connection, words = connect(f"redis://127.0.0.1:{port}", timeout_sec=0.2), ("INCR", "n")

    general = await outcome(connection.call(lambda to: to.execute_command(*words), what="move"))

    assert general[0] is StoreUnavailable
    assert await outcome(connection.execute_one(words, what="move")) == general
    assert await outcome(connection.execute([words], what="move")) == general
    assert await outcome(connection.execute_together([words], what="move")) == general
    await connection.aclose()
