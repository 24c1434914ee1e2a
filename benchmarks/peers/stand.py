"""One run's stand: a fresh Redis 7, an empty tally, and a peer's fleet on them."""

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

from benchmarks.peers import server, tally
from benchmarks.peers.fleet import Fleet
from benchmarks.peers.roster import ROOT, Peer, Shape

if TYPE_CHECKING:
    import redis

SEND_SEC = 600.0
POLL_SEC = 0.005
TAIL = 300


class Skipped(Exception):
    """A peer could not be measured; says why."""


@dataclass(slots=True)
class Stand:
    """Where one measurement of one peer happens."""

    peer: Peer
    shape: Shape
    url: str
    client: redis.Redis
    board: tally.Board
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        own = {
            "BENCH_URL": self.url,
            "BENCH_SLOTS": str(self.shape.slots or 10),
            tally.PATH: str(self.board.path),
            "PYTHONPATH": str(ROOT),
            "RQUEUE_REDIS_URL": self.url,
        }
        return {**os.environ, **own}

    def inside(self, verb: str, *words: object) -> dict[str, Any]:
        """What the peer's own interpreter answers."""
        said = self.run("benchmarks.peers.inside", self.peer.module, verb, *words)
        answer = json.loads(said.splitlines()[-1])
        if "unable" in answer:
            raise Skipped(answer["unable"])
        return dict(answer)

    def run(self, module: str, *words: object) -> str:
        """What a module says that the peer's own interpreter runs."""
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
            called = " ".join(map(str, [module, *words]))
            raise Skipped(f"{called} failed: {' '.join(done.stderr[-TAIL:].split())}")
        return done.stdout

    def fleet(self) -> Fleet:
        """The peer's workers, not started yet."""
        answer = self.inside("workers", self.shape.slots, self.shape.processes)
        return Fleet(answer["commands"], self.env, self.folder)

    def server_cpu(self) -> float:
        """The server's processor time so far, in seconds."""
        info: Any = self.client.info("cpu")
        return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])


@contextmanager
def stand_for(peer: Peer, shape: Shape) -> Iterator[Stand]:
    """A stand of its own for one measurement; nothing is left of it."""
    folder = Path(tempfile.mkdtemp(prefix="rqueue-peers-"))
    try:
        with server.fresh(folder) as client:
            board = tally.Board.lay(folder)
            yield Stand(peer, shape, server.address(client), client, board, folder)
    finally:
        shutil.rmtree(folder)


@contextmanager
def at_work(fleet: Fleet) -> Iterator[Fleet]:
    """A fleet that runs for as long as it is looked at."""
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
            raise Skipped(fleet.fallen() or f"stands still at {seen:,} of {enough:,} tasks")
        elif now == 0 and (reason := fleet.fallen()):
            raise Skipped(reason)
