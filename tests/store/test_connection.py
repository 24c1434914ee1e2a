"""Connections: settings of the driver, re-sending, faults, loops and forks."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from redis import asyncio as aredis
from redis import exceptions as driver

from rqueue.errors import ConfigError, Overloaded, RQueueError, ScriptFault, StoreUnavailable
from rqueue.store.connection import Connection, connect, read_info, wrap
from rqueue.store.errors import translate, translated
from rqueue.store.url import Client, parse
from tests import servers
from tests.servers import Server
from tests.store.dropping_server import a_server_that_drops


async def ping(client: Client) -> Any:
    return await client.execute_command("PING")


async def test_a_call_reaches_every_kind_of_server(connection: Connection) -> None:
    info = await connection.server_info()

    assert info.name in {"redis", "valkey"}
    assert info.version >= (7, 0)
    assert info.cluster == connection.cluster


async def test_the_driver_is_configured_explicitly(server: Server) -> None:
    connection = server.connection(timeout_sec=10)
    await connection.call(ping)

    for client in (connection.client, connection.clients().blocking):
        if isinstance(client, aredis.RedisCluster):
            assert client.retry.get_retries() == 0
            options = client.nodes_manager.connection_kwargs
        else:
            pool = client.connection_pool
            assert isinstance(pool, aredis.BlockingConnectionPool)
            assert pool.connection_kwargs["retry"].get_retries() == 0
            options = pool.connection_kwargs
        assert options["protocol"] == 2
        assert options["decode_responses"] is False
        assert options["health_check_interval"] > 0
    assert timeout_of(connection.client) == 5
    assert timeout_of(connection.clients().blocking) == 10
    await connection.aclose()


def timeout_of(client: Client) -> float:
    if isinstance(client, aredis.RedisCluster):
        return float(client.nodes_manager.connection_kwargs["socket_timeout"])
    return float(client.connection_pool.connection_kwargs["socket_timeout"])


async def test_a_block_longer_than_the_reply_timeout_is_no_error(valkey: Server) -> None:
    connection = connect(valkey.url, timeout_sec=0.4, block_sec=0.6)

    answer = await connection.clients().blocking.execute_command("BLPOP", "nothing", 0.5)

    assert answer is None
    await connection.aclose()


async def test_a_call_whose_reply_is_lost_is_sent_again() -> None:
    async with a_server_that_drops(first=2) as (url, seen):
        connection = connect(url, timeout_sec=5)

        assert await connection.call(lambda client: client.execute_command("INCR", "n")) == 1
        await connection.aclose()

    assert seen == ["INCR"] * 3


async def test_an_unavailable_server_raises_store_unavailable_in_time() -> None:
    (port,) = servers.free_ports(1)
    connection = connect(f"redis://user:hush@127.0.0.1:{port}", timeout_sec=0.3)
    begin = asyncio.get_running_loop().time()

    with pytest.raises(StoreUnavailable, match=r"Connect call failed|refused") as caught:
        await connection.call(ping)

    assert asyncio.get_running_loop().time() - begin < 1
    assert "hush" not in str(caught.value) + repr(connection)
    await connection.aclose()


async def test_a_server_that_does_not_reply_raises_store_unavailable_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = connect(f"redis://127.0.0.1:{silent.getsockname()[1]}", timeout_sec=0.3)

        with pytest.raises(StoreUnavailable):
            await connection.call(ping)

        await connection.aclose()


async def test_an_unavailable_cluster_raises_store_unavailable() -> None:
    (port,) = servers.free_ports(1)
    connection = connect(f"redis+cluster://127.0.0.1:{port}", timeout_sec=0.2)

    with pytest.raises(StoreUnavailable):
        await connection.call(ping)

    await connection.aclose()


async def test_an_unavailable_sentinel_raises_store_unavailable() -> None:
    (port,) = servers.free_ports(1)
    connection = connect(f"redis+sentinel://127.0.0.1:{port}/main?db=0", timeout_sec=0.2)

    with pytest.raises(StoreUnavailable):
        await connection.call(ping)

    await connection.aclose()


async def test_a_connection_by_sentinel_uses_the_master(redis7: Server, tmp_path: Path) -> None:
    port, watch = servers.free_ports(2)
    config = tmp_path / "sentinel.conf"
    config.write_text(f"sentinel monitor main 127.0.0.1 {port} 1\n")
    master = servers.start_port("redis7", tmp_path, port)
    sentinel = servers.start_port("redis7", tmp_path, watch, str(config), "--sentinel")
    connection = connect(f"redis+sentinel://127.0.0.1:{watch}/main?db=2")
    try:
        client_info = await connection.call(lambda client: client.execute_command("CLIENT", "INFO"))

        assert f"laddr=127.0.0.1:{port} ".encode() in client_info
        assert b" db=2 " in client_info
    finally:
        await connection.aclose()
        sentinel.stop()
        master.stop()


async def test_a_wrong_command_is_sent_once_and_not_quoted_in_the_error(
    connection: Connection,
) -> None:
    sent = 0

    async def send(client: Client) -> Any:
        nonlocal sent
        sent += 1
        return await client.execute_command("EVAL", "return redis.call('NOPE', 'hush')", 1, "k")

    with pytest.raises(ScriptFault) as caught:
        await connection.call(send, what="task/submit")

    assert sent == 1
    assert "hush" not in str(caught.value)
    assert "task/submit" in caught.value.script


async def test_a_full_server_is_overloaded(valkey: Server) -> None:
    connection = valkey.connection()
    client = connection.client
    await client.execute_command("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(Overloaded):
            await connection.call(lambda to: to.execute_command("SET", "key", "value"))
    finally:
        await client.execute_command("CONFIG", "SET", "maxmemory", "0")
        await connection.aclose()


async def test_the_url_of_a_cluster_node_needs_the_cluster_scheme(cluster: Server) -> None:
    connection = connect(cluster.plain_url)

    with pytest.raises(ConfigError, match=r"redis\+cluster://"):
        await connection.server_info()

    await connection.aclose()


async def test_an_old_server_is_refused() -> None:
    client = aredis.Redis()
    connection = wrap(client)

    async def info() -> dict[str, str]:
        return {"redis_version": "6.2.14"}

    client.info = info  # type: ignore[method-assign, assignment]  # the server's answer is played
    with pytest.raises(ConfigError, match=r"Redis 7\.0 or later"):
        await connection.server_info()

    await connection.aclose()


def test_the_version_of_valkey_is_read() -> None:
    info = read_info({"server_name": "valkey", "redis_version": "7.2.4", "valkey_version": "9.1.2"})

    assert (info.name, info.version) == ("valkey", (9, 1))


async def test_a_closed_connection_can_be_used_again(connection: Connection) -> None:
    await connection.call(ping)
    await connection.aclose()

    assert await connection.call(ping)


def test_each_loop_has_its_own_clients(valkey: Server) -> None:
    connection = valkey.connection()

    async def use() -> int:
        await connection.call(ping)
        found = id(connection.client)
        await connection.aclose()
        return found

    asyncio.run(use())
    asyncio.run(use())


async def test_a_forked_process_opens_its_own_connection(valkey: Server) -> None:
    connection = valkey.connection()
    mine = await client_id(connection)
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()

    child = fork.Process(target=lambda: answers.put(asyncio.run(client_id(connection))))
    child.start()
    theirs = await asyncio.to_thread(answers.get, timeout=20)
    await asyncio.to_thread(child.join)

    assert theirs != mine
    assert await client_id(connection) == mine
    await connection.aclose()


async def client_id(connection: Connection) -> int:
    return int(await connection.call(lambda client: client.execute_command("CLIENT", "ID")))


async def test_a_client_of_fakeredis_can_be_wrapped(fake: aredis.Redis) -> None:
    connection = wrap(fake)

    assert await connection.call(ping)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (driver.ConnectionError("x"), StoreUnavailable),
        (driver.TimeoutError("x"), StoreUnavailable),
        (driver.BusyLoadingError("x"), StoreUnavailable),
        (driver.ReadOnlyError("x"), StoreUnavailable),
        (driver.ClusterDownError("x"), StoreUnavailable),
        (driver.TryAgainError("x"), StoreUnavailable),
        (driver.MaxConnectionsError("x"), StoreUnavailable),
        (aredis.sentinel.MasterNotFoundError("x"), StoreUnavailable),
        (driver.ResponseError("BUSY a script runs"), StoreUnavailable),
        (driver.ResponseError("MISCONF disk"), StoreUnavailable),
        (driver.RedisClusterException("Redis Cluster cannot be connected."), StoreUnavailable),
        (ConnectionResetError("x"), StoreUnavailable),
        (TimeoutError(), StoreUnavailable),
        (driver.OutOfMemoryError("command not allowed"), Overloaded),
        (driver.AuthenticationError("x"), ConfigError),
        (driver.NoPermissionError("x"), ConfigError),
        (driver.ResponseError("ACL failure in script: No permissions"), ConfigError),
        (driver.ResponseError("ERR ACL failure in script: No permissions"), ConfigError),
        (driver.ResponseError("The user executing the script can't run this"), ConfigError),
        (driver.ResponseError("WRONGTYPE hush"), ScriptFault),
        (driver.ResponseError("unknown command 'hush'"), ScriptFault),
        (driver.ClusterCrossSlotError("hush"), ScriptFault),
        (driver.RedisClusterException("EVALSHA - all keys must map"), ScriptFault),
        (driver.DataError("hush"), ScriptFault),
    ],
)
def test_every_error_of_the_driver_is_translated(
    error: Exception, expected: type[RQueueError]
) -> None:
    with pytest.raises(expected) as caught, translated("task/claim"):
        raise error

    assert type(caught.value) is expected
    assert caught.value.__cause__ is error
    assert "hush" not in str(caught.value)


def test_an_error_of_rqueue_is_not_translated() -> None:
    expected = StoreUnavailable("x")

    assert translate(expected) is expected


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h", "redis://h:6379"),
        ("redis://u:hush@h:1/2", "redis://h:1"),
        ("rediss://:hush@h?ssl_ca_certs=/ca.pem", "rediss://h:6379"),
        ("unix:///run/r.sock?db=3&password=hush", "unix:///run/r.sock"),
        ("redis+sentinel://a:1,b/main?db=4", "redis+sentinel://a:1,b:26379/main"),
        ("redis+cluster://a:1,[::1]:2", "redis+cluster://a:1,::1:2"),
        ("rediss+cluster://u:hush@a:1", "rediss+cluster://a:1"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert str(parse(url)) == shown
    assert "hush" not in repr(parse(url))


def test_an_address_has_the_parts_of_the_url() -> None:
    address = parse("redis+sentinel://us%3Aer:p%40ss@a:1/main?db=4")

    assert address.db == 4
    assert address.login == {"username": "us:er", "password": "p@ss"}


@pytest.mark.parametrize(
    "url",
    [
        "http://hush",
        "hush",
        "unix://",
        "redis+sentinel://hush:1",
        "redis+cluster://h?db=1",
        "redis://h/hush",
        "redis://h:hush",
        "redis://h?retry_on_timeout=hush",
        "redis://[hush",
    ],
)
def test_an_invalid_url_is_refused_and_not_quoted_in_the_error(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(url)

    assert caught.value.setting == "url"
    assert "hush" not in str(caught.value)


async def test_tls_is_verified() -> None:
    connection = connect("rediss://localhost:1")
    client = connection.client
    assert isinstance(client, aredis.Redis)

    context = client.connection_pool.make_connection().ssl_context.get()

    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname is True
    await connection.aclose()
