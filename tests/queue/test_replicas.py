"""wait_replicas: a submit returns when enough replicas have confirmed it, or raises."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from rqueue import Queue, State
from rqueue.errors import StoreUnavailable
from tests.servers import Server, free_ports, start_port, wait


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Starts a server and a replica that is in sync."""
    one, two = free_ports(2)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first = start_port("valkey", tmp_path / "first", one, "--repl-diskless-sync-delay", "0")
    second = start_port("valkey", tmp_path / "second", two, "--replicaof", f"127.0.0.1 {one}")
    with redis.Redis.from_url(second.url) as client:
        wait(lambda: client.info("replication")["master_link_status"] == "up", second)
    yield first, second
    for server in (first, second):
        server.process.send_signal(signal.SIGCONT)
        server.stop()


async def test_a_submit_waits_for_its_replica(pair: tuple[Server, Server]) -> None:
    first, second = pair
    async with Queue("safe", url=first.url, wait_replicas=1) as queue:
        handle = await queue.enqueue("code", {"n": 1}, tags=["a"])
        many = await queue.enqueue_many([{"type": "code"}] * 120)

        async with Queue("safe", url=second.url) as copy:
            with redis.Redis.from_url(second.url) as client:
                client.config_set("replica-read-only", "no")
            assert (await copy.get(handle.id)).payload == {"n": 1}
            assert (await copy.get(many[-1].id)).state is State.READY


async def test_a_missing_replica_is_reported(pair: tuple[Server, Server]) -> None:
    first, second = pair
    async with Queue("safe", url=first.url, wait_replicas=1, call_timeout_sec=3) as queue:
        await queue.enqueue("code")
        os.kill(second.process.pid, signal.SIGSTOP)

        with pytest.raises(StoreUnavailable) as caught:
            await queue.enqueue("code")
        with pytest.raises(StoreUnavailable):
            await queue.enqueue_many([{"type": "code"}] * 3)

        assert "0 of 1 replicas" in caught.value.what
        # It may have been carried out: the server itself has it.
        assert (await queue.counts())["READY"] == 5


async def test_other_calls_do_not_wait_for_replicas(pair: tuple[Server, Server]) -> None:
    first, second = pair
    async with Queue("safe", url=first.url, wait_replicas=1, call_timeout_sec=3) as queue:
        handle = await queue.enqueue("code")
        os.kill(second.process.pid, signal.SIGSTOP)

        (lease,) = await queue.claim(worker="w1")
        await lease.start()
        await lease.complete("done")

        assert await handle.result(timeout=5) == "done"
