"""A server that loses connections, replies, functions, memory or its process: no task is lost."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from rqueue import State
from rqueue.errors import Overloaded
from tests import servers
from tests.integration.conftest import env_on
from tests.integration.processes import POLL_SEC, RECOVERY_SEC, Env, now
from tests.integration.proxy import Proxy, Words, proxy_to

STORM_SEC = 2.0


@contextlib.asynccontextmanager
async def storm(every_sec: float, strike: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Repeats an action while the block runs."""

    async def strikes() -> None:
        while True:
            await strike()
            await asyncio.sleep(every_sec)

    striking = asyncio.create_task(strikes())
    try:
        yield
    finally:
        striking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await striking


async def produced(env: Env, seconds: float) -> list[str]:
    """Submits tasks one after the other for some seconds; none may be refused."""
    until, tasks = now() + seconds, []
    while now() < until:
        handle = await env.harness.queue.enqueue("nap", {"seconds": 0.05}, max_attempts=3)
        tasks.append(handle.id.ulid)
        await asyncio.sleep(POLL_SEC / 4)
    return tasks


async def test_f21_functions_that_are_deleted_all_the_time_are_loaded_again(
    each_env: Env,
) -> None:
    each_env.fleet.worker()
    await each_env.up(1)

    async with storm(0.1, each_env.harness.client.function_flush):
        tasks = await produced(each_env, STORM_SEC)

    await each_env.ended(tasks)
    assert await each_env.reclaimed() == {}
    each_env.once_a_lease()


async def test_f25_connections_that_are_cut_all_the_time_lose_no_task(
    each_env: Env,
) -> None:
    each_env.fleet.worker(), each_env.fleet.worker()
    await each_env.up(2)
    client = each_env.harness.client

    async with storm(0.05, lambda: client.client_kill_filter(_type="normal", skipme=True)):
        tasks = await produced(each_env, STORM_SEC)

    over_at = now()
    await each_env.ended(tasks)
    assert now() - over_at < RECOVERY_SEC
    each_env.once_a_lease()


async def test_f23_a_full_server_refuses_new_work_and_drains_the_old(each_env: Env) -> None:
    harness = each_env.harness
    calls = [harness.queue.call("nap", {"seconds": 0.01}, max_attempts=3) for _ in range(200)]
    handles = await harness.queue.enqueue_many(calls)
    try:
        await harness.client.config_set("maxmemory", 1)
        each_env.fleet.worker()
        with pytest.raises(Overloaded):
            await harness.queue.enqueue("nap")

        await each_env.ended(handle.id.ulid for handle in handles)
    finally:
        await harness.client.config_set("maxmemory", 0)

    handles.append(await harness.queue.enqueue("nap"))
    await each_env.ended(handle.id.ulid for handle in handles)


@contextlib.asynccontextmanager
async def proxied_worker(env: Env) -> AsyncIterator[tuple[Proxy, Callable[[Words], bool]]]:
    """A proxy for one worker, and a test for its exchanges; the library is loaded."""
    moves = env.harness.queue._internals.shard.runner.moves
    library = env.harness.queue._internals.shard.runner.library
    await env.harness.client.function_load(library.source, replace=True)
    sha = moves["task/exchange"].function.encode()
    async with proxy_to(env.fleet.url) as proxy:
        yield proxy, lambda words: sha in words[:2]


async def test_f8_exchanges_with_lost_replies_run_no_task_twice(env: Env) -> None:
    async with proxied_worker(env) as (proxy, is_turn):
        env.fleet.worker(url=proxy.url)
        await env.up(1)

        async def lose() -> None:
            proxy.lose(is_turn, "close")

        async with storm(0.05, lose):
            tasks = await produced(env, STORM_SEC)
        await env.ended(tasks)

    assert await env.reclaimed() == {}
    assert len(env.events.lines("begin")) == len(tasks)


async def test_f8_a_worker_killed_before_it_received_its_tasks_loses_none(
    env: Env,
) -> None:
    queue = env.harness.queue
    async with proxied_worker(env) as (proxy, _):
        env.fleet.worker("--type", "deed")
        deaf = env.fleet.worker("--no-scheduler", url=proxy.url)
        await env.up(2)
        first = await queue.enqueue("nap")
        await first.result(timeout=20)

        proxy.lose(lambda words: True, "close", times=1_000_000)
        calls = [queue.call("nap", max_attempts=2) for _ in range(4)]
        tasks = [handle.id.ulid for handle in await queue.enqueue_many(calls)]
        await env.counted(lambda counts: counts[State.RUNNING] == 4)
        killed_at = now()
        deaf.kill()
        await env.counted(lambda counts: counts[State.READY] == 4)

    assert now() - killed_at < RECOVERY_SEC
    assert [line.task for line in env.events.lines("begin")] == [first.id.ulid]
    env.fleet.worker()
    await env.ended([first.id.ulid, *tasks])
    env.once_a_lease()


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not tmp_path: the path of a socket must be short.
    found = Path(tempfile.mkdtemp(prefix="rqueue-tests-"))
    yield found
    shutil.rmtree(found)


async def test_f9_a_killed_and_restarted_server_has_lost_nothing(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    server = servers.start(kind, folder, "--appendonly", "yes")
    try:
        async with env_on(server, tmp_path) as env:
            env.fleet.worker(), env.fleet.worker()
            await env.up(2)
            before = await produced(env, STORM_SEC / 2)

            server.stop()
            server = servers.start(kind, folder, "--appendonly", "yes")
            back_at = now()
            during = await produced(env, STORM_SEC / 2)
            await env.ended(before + during)

            begun = env.events.lines("begin")
            assert min(line.at for line in begun if line.at > back_at) - back_at < 5.0
            assert len(begun) == len(before + during)
            assert [process.poll() for process in env.fleet.processes] == [None, None]
    finally:
        server.stop()
