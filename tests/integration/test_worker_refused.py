"""Workers whose server refuses them, at their start and later."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import servers
from tests.harness import Harness, opened
from tests.integration.test_worker_processes import LEASE_SEC, worker
from tests.servers import Server


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    """A server of its own, whose password a test may change."""
    (port,) = servers.free_ports(1)
    server = servers.start_port("valkey", tmp_path, port)
    yield server
    server.stop()


async def nap(harness: Harness) -> int:
    """Returns the process that ran the task."""
    found = await (await harness.queue.enqueue("nap", {"seconds": 0})).result(timeout=30)
    assert isinstance(found, int)
    return found


async def test_running_workers_survive_a_server_that_refuses_new_connections(
    guarded: Server, tmp_path: Path
) -> None:
    async with opened(guarded, lease_sec=LEASE_SEC) as harness:
        with worker(guarded, tmp_path, "--processes", "2") as process:
            first, other = await nap(harness), 0
            while other in (0, first):
                other = await nap(harness)
            await harness.client.config_set("requirepass", "rotated")
            os.kill(first, signal.SIGKILL)

            assert {await nap(harness) for _ in range(3)} == {other}
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(3)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


def test_workers_that_never_connected_exit(guarded: Server, tmp_path: Path) -> None:
    refused = replace(guarded, url=guarded.url.replace("//", "//nobody:wrong@"))

    with worker(refused, tmp_path, "--processes", "2") as process:
        assert process.wait(30) == 5
