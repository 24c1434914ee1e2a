"""The function library on a server: loaded when it is missing, listed, deleted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import ResponseError

from rqueue import Queue, State
from rqueue.errors import FunctionsMissing, ScriptFault, StoreUnavailable
from rqueue.runtime import assemble
from rqueue.settings.load import Settings
from rqueue.store import functions
from rqueue.store.connection import Connection, connect
from rqueue.store.functions import (
    USED,
    Loaded,
    delete_functions,
    described,
    is_missing,
    list_functions,
    load_functions,
    unused,
)
from rqueue.store.library import Library, build, library
from tests.harness import NAME, Harness
from tests.servers import Server

LUA = Path(__file__).parent.parent.parent / "lua"
NO_OP = (
    "-- none: no move\n--\n-- Does nothing.\n--\n-- FLAGS no-writes\n-- REPLY OK\n\nreturn {'OK'}\n"
)


@contextmanager
def direct(server: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.plain_url, protocol=2) as client:
        yield client


@pytest.fixture
def no_functions(server: Server) -> None:
    """The server has no library."""
    with direct(server) as client:
        client.function_flush("SYNC")


@pytest.fixture(scope="module")
def other_release(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Another release: a build with one more function."""
    folder = tmp_path_factory.mktemp("other") / "lua"
    shutil.copytree(LUA, folder)
    (folder / "task" / "none.lua").write_text(NO_OP)
    return build(folder)


@asynccontextmanager
async def queue_of(connection: Connection, release: Library | None = None) -> AsyncIterator[Queue]:
    """A queue that calls the functions of a release."""
    queue = Queue(NAME, runtime=assemble(Settings(name=NAME, url="redis://x"), connection))
    if release is not None:
        queue._internals.shard.runner.library = release
        queue._internals.shard.runner.moves = release.moves
    try:
        yield queue
    finally:
        await queue.aclose()


async def test_missing_functions_are_loaded_and_the_call_is_carried_out_once(
    server: Server, no_functions: None, harness: Harness
) -> None:
    await harness.queue.enqueue("code")

    assert (await harness.queue.counts())["READY"] == 1
    assert await harness.client.xlen(harness.keys.ready()) == 1


async def test_concurrent_calls_with_missing_functions_are_carried_out_once_each(
    server: Server, no_functions: None, harness: Harness
) -> None:
    await asyncio.gather(*(harness.queue.enqueue("code") for _ in range(20)))
    await harness.queue.enqueue_many([{"type": "code"}] * 250)

    assert (await harness.queue.counts())["READY"] == 270


async def test_work_continues_after_the_functions_are_deleted(
    server: Server, harness: Harness
) -> None:
    lease = await harness.claimed()
    with direct(server) as client:
        client.function_flush("SYNC")
        await lease.start()
        client.function_flush("SYNC")
        await lease.renew()
        client.function_flush("SYNC")
        await lease.complete("done")

    assert (await harness.task(str(lease.id))).state is State.COMPLETED


async def test_functions_that_are_deleted_after_the_load_are_loaded_again(
    connection: Connection, no_functions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    async def load(to: Connection, release: Library) -> None:
        sent.append(1)
        if len(sent) > 1:
            await load_functions(to, release)

    monkeypatch.setattr("rqueue.store.runner.load_functions", load)
    async with queue_of(connection) as queue:
        await queue.enqueue("code")
        assert (await queue.counts())["READY"] == 1

    assert len(sent) == 2


async def test_functions_that_cannot_be_loaded_end_in_a_fault(
    connection: Connection, no_functions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load(to: Connection, release: Library) -> None:
        pass

    monkeypatch.setattr("rqueue.store.runner.load_functions", load)
    async with queue_of(connection) as queue:
        with pytest.raises(ScriptFault):
            await queue.enqueue("code")


async def test_a_user_who_may_not_load_functions_gets_an_error_with_the_command(
    server: Server, no_functions: None
) -> None:
    with direct(server) as client:
        rules = ("on", ">pw", "~*", "+@all", "-function|load")
        client.execute_command("ACL", "SETUSER", "probe", *rules)
        connection = connect(f"{server.url}?username=probe&password=pw")
        try:
            async with queue_of(connection) as queue:
                with pytest.raises(FunctionsMissing, match="`rqueue functions load`") as caught:
                    await queue.enqueue("code")
            assert caught.value.library == library().name
            assert caught.value.reason == "this user may not load them"
        finally:
            await connection.aclose()
            client.execute_command("ACL", "DELUSER", "probe")


async def test_a_server_without_memory_refuses_the_library(
    server: Server, no_functions: None, connection: Connection
) -> None:
    with direct(server) as client:
        client.config_set("maxmemory", 1)
        try:
            async with queue_of(connection) as queue:
                with pytest.raises(FunctionsMissing, match="`rqueue functions load`") as caught:
                    await queue.counts()
        finally:
            client.config_set("maxmemory", 0)

    assert caught.value.reason == "the server's memory is full"


async def test_a_load_is_retried_on_a_server_that_became_a_replica(
    valkey: Server, no_functions_on_valkey: None
) -> None:
    connection = valkey.connection(timeout_sec=5)
    with direct(valkey) as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")

        async def promote() -> None:
            await asyncio.sleep(0.3)
            await asyncio.to_thread(client.execute_command, "REPLICAOF", "NO", "ONE")

        promoting = asyncio.create_task(promote())
        try:
            sent = await load_functions(connection, library())
        finally:
            await promoting
            await connection.aclose()

    assert sent == (1, 0)


async def test_a_server_that_stays_a_replica_is_unavailable(
    valkey: Server, no_functions_on_valkey: None
) -> None:
    connection = valkey.connection(timeout_sec=0.3)
    with direct(valkey) as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            with pytest.raises(StoreUnavailable):
                await load_functions(connection, library())
        finally:
            client.execute_command("REPLICAOF", "NO", "ONE")
            await connection.aclose()


@pytest.fixture
def no_functions_on_valkey(valkey: Server) -> None:
    with direct(valkey) as client:
        client.function_flush("SYNC")


@pytest.mark.parametrize(
    ("cause", "missing"),
    [
        (ResponseError("Function not found"), True),
        (ResponseError("ERR Function not found"), True),
        (ResponseError("Library not found"), False),
        (ResponseError("the task's Function not found here"), False),
        (ValueError("Function not found"), False),
        (None, False),
    ],
)
def test_only_the_servers_error_means_that_functions_are_missing(
    cause: Exception | None, *, missing: bool
) -> None:
    fault = ScriptFault("task/claim", "x")
    fault.__cause__ = cause

    assert is_missing(fault) is missing


async def test_two_releases_work_on_one_queue(
    server: Server, no_functions: None, connection: Connection, other_release: Library
) -> None:
    second = server.connection()
    try:
        async with queue_of(connection) as old, queue_of(second, other_release) as new:
            for producer, worker_queue in ((old, new), (new, old)):
                handle = await producer.enqueue("code")
                (lease,) = await worker_queue.claim(worker="w1")
                await lease.start()
                await lease.complete("done")
                assert lease.id == handle.id
                assert (await producer.get(handle.id)).state is State.COMPLETED
            found = await list_functions(connection)
    finally:
        await second.aclose()

    assert other_release.name != library().name
    assert {one.name for one in found} == {other_release.name, library().name}
    sizes = {one.name: one.functions for one in found}
    assert sizes == {
        other_release.name: len(library().moves) + 1,
        library().name: len(library().moves),
    }


async def test_use_is_recorded_once_a_day(
    harness: Harness, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    record = functions.record_use

    async def recording(to: Connection, release: Library) -> None:
        written.append(release.name)
        await record(to, release)

    monkeypatch.setattr("rqueue.store.runner.record_use", recording)
    runner = harness.queue._internals.shard.runner

    for _ in range(3):
        await harness.queue.enqueue("code")
        await harness.queue.enqueue_many([{"type": "code"}] * 3)
    assert written == [library().name]
    assert list(await harness.client.hgetall(USED)) == [library().name.encode()]

    runner.recorded -= 86_401
    await harness.queue.enqueue("code")
    assert len(written) == 2


async def test_a_user_who_may_not_record_the_use_can_call_functions(server: Server) -> None:
    with direct(server) as client:
        client.execute_command("ACL", "SETUSER", "probe", "on", ">pw", "~rq:*", "+@all")
        connection = connect(f"{server.url}?username=probe&password=pw")
        try:
            async with queue_of(connection) as queue:
                await queue.enqueue("code")
                assert (await queue.counts())["READY"] == 1
        finally:
            await connection.aclose()
            client.execute_command("ACL", "DELUSER", "probe")
        assert not client.exists(USED)


def test_a_library_is_unused_after_so_many_days_without_a_record() -> None:
    rows = [Loaded(f"rqueue_{days}", 1, 1, days) for days in (None, 0, 29, 30, 400)]
    own = Loaded("rqueue_own", 1, 1, 400)

    def names(**how: Any) -> list[str]:
        return [one.name for one in unused([*rows, own], own.name, **how)]

    assert names(days=30) == ["rqueue_30", "rqueue_400"]
    assert names(days=30, unrecorded=True) == ["rqueue_None", "rqueue_30", "rqueue_400"]


async def test_a_library_is_deleted_with_its_record(
    server: Server, connection: Connection, other_release: Library
) -> None:
    await load_functions(connection, other_release)
    await functions.record_use(connection, other_release)

    await delete_functions(connection, other_release.name)
    await delete_functions(connection, other_release.name)

    assert other_release.name not in {one.name for one in await list_functions(connection)}
    with direct(server) as client:
        assert not client.hexists(USED, other_release.name)


@pytest.mark.parametrize(
    "row",
    [
        [b"library_name", b"rqueue_1", b"engine", b"LUA", b"functions", [[b"name", b"a"]]],
        {b"library_name": b"rqueue_1", b"engine": b"LUA", b"functions": [{b"name": b"a"}]},
        {"library_name": "rqueue_1", "functions": [{"name": "a"}]},
    ],
)
def test_a_list_of_functions_is_read_in_resp2_and_resp3(row: Any) -> None:
    assert described([row]) == [("rqueue_1", 1)]
