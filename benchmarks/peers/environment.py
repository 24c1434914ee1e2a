"""What one measurement runs on: a fresh Redis 7, an empty counter file, and a peer's fleet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers import counters, server
from benchmarks.peers.catalogue import ROOT, Peer, Shape
from benchmarks.peers.fleet import Fleet

if TYPE_CHECKING:
    import redis

SEND_SEC = 600.0
POLL_SEC = 0.005
TAIL = 300


class Skipped(Exception):
    """A peer could not be measured; the message is the reason."""


@dataclass(slots=True)
class Environment:
    """The server, counter file and folder of one measurement of one peer."""

    peer: Peer
    shape: Shape
    url: str
    client: redis.Redis
    counter_file: counters.CounterFile
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        own = {
            "BENCH_URL": self.url,
            "BENCH_SLOTS": str(self.shape.slots or 10),
            counters.PATH: str(self.counter_file.path),
            "PYTHONPATH": str(ROOT),
            "RQUEUE_REDIS_URL": self.url,
        }
        return {**os.environ, **own}

    def call(self, verb: str, *words: object) -> dict[str, Any]:
        """The JSON answer of `benchmarks.peers.client`, run by the peer's interpreter."""
        output = self.run("benchmarks.peers.client", self.peer.module, verb, *words)
        answer = json.loads(output.splitlines()[-1])
        if "unsupported" in answer:
            raise Skipped(answer["unsupported"])
        return dict(answer)

    def run(self, module: str, *words: object) -> str:
        """The output of a module, run by the peer's interpreter."""
        done = subprocess.run(
            [str(self.peer.python), "-m", module, *map(str, words)],
            check=False,
            capture_output=True,
            text=True,
            env=self.env,
            cwd=ROOT,
            timeout=SEND_SEC,
        )
        if done.returncode:
            command = " ".join(map(str, [module, *words]))
            raise Skipped(f"{command} failed: {' '.join(done.stderr[-TAIL:].split())}")
        return done.stdout

    def fleet(self) -> Fleet:
        """The peer's workers, not started yet."""
        answer = self.call("workers", self.shape.slots, self.shape.processes)
        return Fleet(answer["commands"], self.env, self.folder)

    def server_cpu(self) -> float:
        """The server's processor time so far, in seconds."""
        info: Any = self.client.info("cpu")
        return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])


@contextmanager
def environment_for(peer: Peer, shape: Shape) -> Iterator[Environment]:
    """A new environment for one measurement, removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="rqueue-peers-"))
    try:
        with server.fresh(folder) as client:
            counter_file = counters.CounterFile.create(folder)
            yield Environment(peer, shape, server.address(client), client, counter_file, folder)
    finally:
        shutil.rmtree(folder)


@contextmanager
def running_fleet(fleet: Fleet) -> Iterator[Fleet]:
    """A fleet that runs until the end of the block."""
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()


def wait_for(value: Callable[[], int], enough: int, fleet: Fleet, *, quiet_sec: float) -> None:
    """Returns when a growing number is large enough; raises Skipped when it no longer grows."""
    seen, since = value(), time.monotonic()
    while seen < enough:
        time.sleep(POLL_SEC)
        now = value()
        if now > seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > quiet_sec:
            raise Skipped(fleet.exited() or f"no progress after {seen:,} of {enough:,} tasks")
        elif now == 0 and (reason := fleet.exited()):
            raise Skipped(reason)
