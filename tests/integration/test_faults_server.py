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
from tests.integration.conftest import site_on
from tests.integration.processes import POLL_SEC, RECOVERY_SEC, Site, now
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


async def produced(site: Site, seconds: float) -> list[str]:
    """Submits tasks one after the other for some seconds; none may be refused."""
    until, tasks = now() + seconds, []
    while now() < until:
        handle = await site.harness.queue.enqueue("nap", {"seconds": 0.05}, max_attempts=3)
        tasks.append(handle.id.ulid)
        await asyncio.sleep(POLL_SEC / 4)
    return tasks


async def test_f21_functions_that_are_deleted_all_the_time_are_loaded_again(
    each_site: Site,
) -> None:
    each_site.fleet.worker()
    await each_site.up(1)

    async with storm(0.1, each_site.harness.client.function_flush):
        tasks = await produced(each_site, STORM_SEC)

    await each_site.ended(tasks)
    assert await each_site.reclaimed() == {}
    each_site.once_a_lease()


async def test_f25_connections_that_are_cut_all_the_time_lose_no_task(
    each_site: Site,
) -> None:
    each_site.fleet.worker(), each_site.fleet.worker()
    await each_site.up(2)
    client = each_site.harness.client

    async with storm(0.05, lambda: client.client_kill_filter(_type="normal", skipme=True)):
        tasks = await produced(each_site, STORM_SEC)

    over_at = now()
    await each_site.ended(tasks)
    assert now() - over_at < RECOVERY_SEC
    each_site.once_a_lease()


async def test_f23_a_full_server_refuses_new_work_and_drains_the_old(each_site: Site) -> None:
    harness = each_site.harness
    calls = [harness.queue.call("nap", {"seconds": 0.01}, max_attempts=3) for _ in range(200)]
    handles = await harness.queue.enqueue_many(calls)
    try:
        await harness.client.config_set("maxmemory", 1)
        each_site.fleet.worker()
        with pytest.raises(Overloaded):
            await harness.queue.enqueue("nap")

        await each_site.ended(handle.id.ulid for handle in handles)
    finally:
        await harness.client.config_set("maxmemory", 0)

    handles.append(await harness.queue.enqueue("nap"))
    await each_site.ended(handle.id.ulid for handle in handles)


@contextlib.asynccontextmanager
async def proxied_worker(site: Site) -> AsyncIterator[tuple[Proxy, Callable[[Words], bool]]]:
    """A proxy for one worker, and a test for its exchanges; the library is loaded."""
    scripts = site.harness.queue._internals.shard.runner.moves
    library = site.harness.queue._internals.shard.runner.library
    await site.harness.client.function_load(library.source, replace=True)
    sha = scripts["task/exchange"].function.encode()
    async with proxy_to(site.fleet.url) as proxy:
        yield proxy, lambda words: sha in words[:2]


async def test_f8_exchanges_with_lost_replies_run_no_task_twice(site: Site) -> None:
    async with proxied_worker(site) as (proxy, is_turn):
        site.fleet.worker(url=proxy.url)
        await site.up(1)

        async def lose() -> None:
            proxy.lose(is_turn, "close")

        async with storm(0.05, lose):
            tasks = await produced(site, STORM_SEC)
        await site.ended(tasks)

    assert await site.reclaimed() == {}
    assert len(site.events.lines("begin")) == len(tasks)


async def test_f8_a_worker_killed_before_it_received_its_tasks_loses_none(
    site: Site,
) -> None:
    queue = site.harness.queue
    async with proxied_worker(site) as (proxy, _):
        site.fleet.worker("--type", "deed")
        deaf = site.fleet.worker("--no-scheduler", url=proxy.url)
        await site.up(2)
        first = await queue.enqueue("nap")
        await first.result(timeout=20)

        proxy.lose(lambda words: True, "close", times=1_000_000)
        calls = [queue.call("nap", max_attempts=2) for _ in range(4)]
        tasks = [handle.id.ulid for handle in await queue.enqueue_many(calls)]
        await site.counted(lambda counts: counts[State.RUNNING] == 4)
        killed_at = now()
        deaf.kill()
        await site.counted(lambda counts: counts[State.READY] == 4)

    assert now() - killed_at < RECOVERY_SEC
    assert [line.task for line in site.events.lines("begin")] == [first.id.ulid]
    site.fleet.worker()
    await site.ended([first.id.ulid, *tasks])
    site.once_a_lease()


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
        async with site_on(server, tmp_path) as site:
            site.fleet.worker(), site.fleet.worker()
            await site.up(2)
            before = await produced(site, STORM_SEC / 2)

            server.stop()
            server = servers.start(kind, folder, "--appendonly", "yes")
            back_at = now()
            during = await produced(site, STORM_SEC / 2)
            await site.ended(before + during)

            begun = site.events.lines("begin")
            assert min(line.at for line in begun if line.at > back_at) - back_at < 5.0
            assert len(begun) == len(before + during)
            assert [process.poll() for process in site.fleet.processes] == [None, None]
    finally:
        server.stop()
