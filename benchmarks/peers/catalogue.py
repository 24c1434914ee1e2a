"""The measured queues, the packages of each, and the shapes of their fleets."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
HOMES = ROOT / ".bench"
OURS, RAW = "rqueue", "raw"


@dataclass(frozen=True, slots=True)
class Shape:
    """The number of processes and of slots in each; 0 and 0: the peer's best configuration."""

    name: str
    title: str
    processes: int
    slots: int


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("1x10", "one process, 10 slots", 1, 10),
        Shape("2x5", "two processes, 5 slots each", 2, 5),
        Shape("1x100", "one process, 100 slots", 1, 100),
        Shape("own", "the peer's best configuration", 0, 0),
    )
}


@dataclass(frozen=True, slots=True)
class Peer:
    """One measured queue.

    `share` scales the number of tasks, so that fast and slow queues are measured for seconds.
    """

    name: str
    packages: tuple[str, ...]
    share: float
    home: str = ""

    @property
    def module(self) -> str:
        return f"{self.name.replace('-', '_')}_app"

    @property
    def python(self) -> Path:
        """Its interpreter; rqueue and the raw loop use this one."""
        if not self.packages:
            return Path(sys.executable)
        return HOMES / (self.home or self.name) / "bin" / "python"


PEERS = {
    peer.name: peer
    for peer in (
        Peer(RAW, (), 10),
        Peer(OURS, (), 5),
        Peer("taskiq-list", ("taskiq", "taskiq-redis", "hiredis", "uvloop"), 1, home="taskiq"),
        Peer("taskiq-stream", ("taskiq", "taskiq-redis", "hiredis", "uvloop"), 1, home="taskiq"),
        Peer("dramatiq", ("dramatiq[redis]", "hiredis"), 1),
        Peer("huey", ("huey", "redis", "hiredis"), 1),
        Peer("arq", ("arq", "hiredis", "uvloop"), 0.5),
        Peer("celery", ("celery[redis]", "hiredis"), 0.25),
        Peer("rq", ("rq", "hiredis"), 0.1),
        # saq imports typing_extensions and does not depend on it.
        Peer("saq", ("saq[redis,hiredis]", "uvloop", "typing_extensions"), 0.5),
        Peer("streaq", ("streaq", "uvloop"), 0.5),
        Peer("bullmq", ("bullmq", "hiredis", "uvloop"), 0.5),
    )
}


def install(peer: Peer, *, upgrade: bool) -> None:
    """Creates a peer's environment with the newest releases, unless it exists."""
    home = peer.python.parent.parent
    stamp = home / ".installed"
    wanted = json.dumps(peer.packages)
    if not peer.packages or (not upgrade and stamp.is_file() and stamp.read_text() == wanted):
        return
    if not peer.python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    pip = [str(peer.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", *peer.packages], check=True)
    stamp.write_text(wanted)


def version(peer: Peer) -> str:
    """The measured release; for the raw loop, that of redis-py."""
    package = "redis" if peer.name == RAW else peer.home or peer.name
    ask = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([str(peer.python), "-c", ask], check=True, capture_output=True, text=True)
    return f"redis-py {done.stdout.strip()}" if peer.name == RAW else done.stdout.strip()
