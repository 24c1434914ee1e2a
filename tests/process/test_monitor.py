"""Metrics and health of a process, also while its event loop is blocked."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue.errors import ConfigError
from rqueue.gauges import GAUGES
from rqueue.process import monitor as monitor_module
from rqueue.process.http_listener import LOCAL, Address
from rqueue.process.monitor import Health, Monitor, Ports, ServedQueue
from tests.harness import Harness
from tests.worker.running import until, working


def get(url: str) -> tuple[int, str]:
    """A page and its status, requested from a thread."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def probe(url: str) -> tuple[int, dict[str, Any]]:
    status, body = await asyncio.to_thread(get, url)
    return status, json.loads(body)


@asynccontextmanager
async def monitored(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[tuple[Monitor, str]]:
    """A worker with one port for metrics and health, and its URL."""
    caplog.set_level("INFO")
    local = Address(LOCAL, 0)
    async with working(harness.queue) as worker:
        await until(worker.beat.thread.is_alive)
        one = ServedQueue("sales", harness.queue._internals.shard, worker)
        async with Monitor([one], Ports(metrics=local, health=local), gauges=GAUGES) as monitor:
            (line,) = [line for line in caplog.records if line.message == "listening"]
            yield monitor, f"http://{vars(line)['address']}"


async def test_a_monitor_answers_while_the_event_loop_is_blocked(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[tuple[int, str]] = []

    async with monitored(harness, caplog) as (_, url):
        asking = threading.Thread(target=lambda: found.append(get(f"{url}/metrics")))
        asking.start()
        # The event loop of the test is blocked, so the answer comes from another thread.
        asking.join()

    ((status, text),) = found
    assert status == 200
    assert 'agent_utilization{agent_id="w1"} 0.0' in text
    assert 'task_queue_depth{priority_tier="any",status="RUNNING"} 0.0' in text


async def test_a_blocked_event_loop_is_not_alive(
    harness: Harness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "STUCK_SEC", 0.05)
    found: list[tuple[int, str]] = []

    def ask(url: str) -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            found.append(get(url))
            if found[-1][0] != 200:
                return

    async with monitored(harness, caplog) as (_, url):
        asking = threading.Thread(target=ask, args=[f"{url}/healthz"])
        asking.start()
        asking.join()

        async with asyncio.timeout(30):
            while (await probe(f"{url}/healthz"))[0] != 200:
                continue

    assert found[-1][0] == 503
    assert json.loads(found[-1][1])["loop_lag_sec"] >= 0.05


async def test_a_worker_that_drains_is_alive_and_not_ready(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    async with monitored(harness, caplog) as (monitor, url):
        before = await probe(f"{url}/readyz")
        (worker,) = [one.worker for one in monitor.served_queues if one.worker is not None]
        worker.drain()
        after = await probe(f"{url}/readyz")

    assert (before[0], before[1]["ready"]) == (200, True)
    assert (after[0], after[1]["ready"], after[1]["draining"]) == (503, False, True)


async def test_a_process_without_redis_is_alive_and_not_ready(
    harness: Harness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(_: object) -> bool:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(monitor_module, "clock", silent)
    monkeypatch.setattr(monitor_module, "ANSWER_SEC", 0.05)
    async with monitored(harness, caplog) as (_, url):
        alive, ready = await probe(f"{url}/healthz"), await probe(f"{url}/readyz")

    assert (alive[0], ready[0], ready[1]["server"]) == (200, 503, False)


async def test_a_process_whose_lifespan_opens_is_alive_and_not_ready(harness: Harness) -> None:
    opening, opened = asyncio.Event(), asyncio.Event()

    @harness.queue.lifespan
    async def model(state: dict[str, Any]) -> AsyncIterator[None]:
        opening.set()
        await opened.wait()
        yield

    async with working(harness.queue) as worker:
        monitor = Monitor(
            [ServedQueue("sales", harness.queue._internals.shard, worker)], Ports(), gauges=GAUGES
        )
        await opening.wait()
        before = await monitor.current_health()
        opened.set()
        await until(worker.beat.thread.is_alive)
        after = await monitor.current_health()

    assert (before.alive, before.ready, before.started) == (True, False, False)
    assert (after.alive, after.ready, after.started) == (True, True, True)


async def test_a_process_with_a_drained_worker_is_alive(harness: Harness) -> None:
    async with working(harness.queue) as worker:
        await until(worker.beat.thread.is_alive)
        worker.drain()
        await until(lambda: not worker.beat.thread.is_alive())
        found = await Monitor(
            [ServedQueue("sales", harness.queue._internals.shard, worker)], Ports(), gauges=GAUGES
        ).current_health()

    assert (found.alive, found.ready) == (True, False)


@pytest.mark.parametrize(
    ("health", "alive", "ready"),
    [
        (Health(0.0, started=True, heartbeats=True, server=True, draining=False), True, True),
        (Health(31.0, started=True, heartbeats=True, server=True, draining=False), False, False),
        (Health(0.0, started=True, heartbeats=False, server=True, draining=False), False, False),
        (Health(0.0, started=True, heartbeats=True, server=False, draining=False), True, False),
        (Health(0.0, started=True, heartbeats=True, server=True, draining=True), True, False),
        (Health(0.0, started=False, heartbeats=True, server=True, draining=False), True, False),
    ],
)
def test_alive_and_ready_follow_from_the_health_fields(
    health: Health, *, alive: bool, ready: bool
) -> None:
    assert (health.alive, health.ready) == (alive, ready)


async def test_a_port_in_use_ends_the_start(harness: Harness) -> None:
    local = Address(LOCAL, 0)
    taken = await asyncio.start_server(lambda *_: None, *local)
    port = taken.sockets[0].getsockname()[1]
    monitor = Monitor(
        [ServedQueue("sales", harness.queue._internals.shard)],
        Ports(metrics=Address(LOCAL, port)),
        gauges=GAUGES,
    )

    with pytest.raises(ConfigError, match="cannot be listened on"):
        await monitor.__aenter__()

    taken.close()


async def test_without_ports_there_is_no_thread(harness: Harness) -> None:
    async with Monitor(
        [ServedQueue("sales", harness.queue._internals.shard)], Ports(), gauges=GAUGES
    ) as monitor:
        assert not monitor.thread.is_alive()
        assert harness.queue._internals.shard.runner.observe is None
