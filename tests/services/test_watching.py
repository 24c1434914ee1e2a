"""A process that is asked about itself, whatever it does just then."""

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
from rqueue.services import probing
from rqueue.services.gathering import Watched
from rqueue.services.listener import LOCAL, Address
from rqueue.services.probing import Health
from rqueue.services.watching import Ports, Watch
from tests.house import House
from tests.services.working import until, working


def get(url: str) -> tuple[int, str]:
    """A page and its status, asked for from a thread."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def probe(url: str) -> tuple[int, dict[str, Any]]:
    status, body = await asyncio.to_thread(get, url)
    return status, json.loads(body)


@asynccontextmanager
async def watched(
    house: House, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[tuple[Watch, str]]:
    """A worker that is watched on one port, and where that is."""
    caplog.set_level("INFO")
    local = Address(LOCAL, 0)
    async with working(house.queue) as worker:
        await until(worker.beat.thread.is_alive)
        one = Watched("house", house.queue.shard, worker)
        async with Watch([one], Ports(metrics=local, health=local)) as watch:
            (line,) = [line for line in caplog.records if line.message == "listening"]
            yield watch, f"http://{vars(line)['address']}"


async def test_it_answers_while_the_event_loop_is_blocked(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[tuple[int, str]] = []

    async with watched(house, caplog) as (_, url):
        asking = threading.Thread(target=lambda: found.append(get(f"{url}/metrics")))
        asking.start()
        # The very loop is blocked: nothing that is answered here comes from it.
        asking.join()

    ((status, text),) = found
    assert status == 200
    assert 'agent_utilization{agent_id="w1"} 0.0' in text
    assert 'task_queue_depth{priority_tier="any",status="RUNNING"} 0.0' in text


async def test_a_loop_that_does_not_turn_is_not_alive(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "STUCK_SEC", 0.05)
    found: list[tuple[int, str]] = []

    def ask(url: str) -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            found.append(get(url))
            if found[-1][0] != 200:
                return

    async with watched(house, caplog) as (_, url):
        asking = threading.Thread(target=ask, args=[f"{url}/healthz"])
        asking.start()
        asking.join()

        async with asyncio.timeout(30):
            while (await probe(f"{url}/healthz"))[0] != 200:
                continue

    assert found[-1][0] == 503
    assert json.loads(found[-1][1])["loop_lag_sec"] >= 0.05


async def test_a_worker_that_drains_is_alive_and_not_ready(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(house, caplog) as (watch, url):
        before = await probe(f"{url}/readyz")
        (worker,) = [one.worker for one in watch.watched if one.worker is not None]
        worker.drain()
        after = await probe(f"{url}/readyz")

    assert (before[0], before[1]["ready"]) == (200, True)
    assert (after[0], after[1]["ready"], after[1]["draining"]) == (503, False, True)


async def test_without_its_server_it_is_alive_and_not_ready(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(_: object) -> bool:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(probing, "clock", silent)
    monkeypatch.setattr(probing, "ASK_SEC", 0.05)
    async with watched(house, caplog) as (_, url):
        alive, ready = await probe(f"{url}/healthz"), await probe(f"{url}/readyz")

    assert (alive[0], ready[0], ready[1]["server"]) == (200, 503, False)


async def test_while_a_lifespan_opens_it_is_alive_and_not_ready(house: House) -> None:
    opening, opened = asyncio.Event(), asyncio.Event()

    @house.queue.lifespan
    async def model(state: dict[str, Any]) -> AsyncIterator[None]:
        opening.set()
        await opened.wait()
        yield

    async with working(house.queue) as worker:
        watch = Watch([Watched("house", house.queue.shard, worker)], Ports())
        await opening.wait()
        before = await watch.examined()
        opened.set()
        await until(worker.beat.thread.is_alive)
        after = await watch.examined()

    assert (before.alive, before.ready, before.started) == (True, False, False)
    assert (after.alive, after.ready, after.started) == (True, True, True)


async def test_one_that_has_ended_in_good_order_beside_others_is_alive(house: House) -> None:
    async with working(house.queue) as worker:
        await until(worker.beat.thread.is_alive)
        worker.drain()
        await until(lambda: not worker.beat.thread.is_alive())
        found = await Watch([Watched("house", house.queue.shard, worker)], Ports()).examined()

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
def test_what_follows_from_the_facts(health: Health, *, alive: bool, ready: bool) -> None:
    assert (health.alive, health.ready) == (alive, ready)


async def test_a_port_that_is_taken_ends_the_start(house: House) -> None:
    local = Address(LOCAL, 0)
    taken = await asyncio.start_server(lambda *_: None, *local)
    port = taken.sockets[0].getsockname()[1]
    watch = Watch([Watched("house", house.queue.shard)], Ports(metrics=Address(LOCAL, port)))

    with pytest.raises(ConfigError, match="cannot be listened on"):
        await watch.__aenter__()

    taken.close()


async def test_where_nobody_asks_there_is_no_thread(house: House) -> None:
    async with Watch([Watched("house", house.queue.shard)], Ports()) as watch:
        assert not watch.thread.is_alive()
        assert house.queue.shard.runner.observe is None
