"""A peer's workers as processes: start, processor time, stop, kill."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
STOP_SEC = 5.0
TAIL = 400


@dataclass(slots=True)
class Fleet:
    """The processes that some commands started, and all their descendants."""

    commands: list[list[str]]
    env: Mapping[str, str]
    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / "workers.log"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.started = [
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=dict(self.env),
                    start_new_session=True,
                )
                for command in self.commands
            ]

    def exited(self) -> str | None:
        """Exit code and end of the log if a worker has exited by itself, else None."""
        codes = [code for process in self.started if (code := process.poll()) is not None]
        if not codes:
            return None
        last = " ".join(self.log.read_text(errors="replace")[-TAIL:].split())
        return f"worker exited with {codes[0]}: {last}"

    def pids(self) -> set[int]:
        """Every process of the fleet."""
        children: dict[int, list[int]] = {}
        for pid, (parent, _) in processes().items():
            children.setdefault(parent, []).append(pid)
        found: set[int] = set()
        todo = [process.pid for process in self.started]
        while todo:
            pid = todo.pop()
            found.add(pid)
            todo += children.get(pid, [])
        return found

    def cpu(self) -> dict[int, float]:
        """The processor time of each process so far, in seconds."""
        running = processes()
        return {pid: running[pid][1] for pid in self.pids() if pid in running}

    def stop(self) -> None:
        """SIGTERM, then SIGKILL after STOP_SEC."""
        for process in self.started:
            if process.poll() is None:
                process.terminate()
        until = time.monotonic() + STOP_SEC
        while any(process.poll() is None for process in self.started):
            if time.monotonic() > until:
                break
            time.sleep(0.02)
        self.kill()

    def kill(self) -> None:
        """SIGKILL for all, supervisors first, so that none is restarted."""
        pids = self.pids()
        for process in self.started:
            # The session also has the processes whose supervisor has exited.
            send(lambda at=process.pid: os.killpg(at, signal.SIGKILL))
        for pid in pids:
            send(lambda at=pid: os.kill(at, signal.SIGKILL))
        for process in self.started:
            process.wait()
        self.started = []


def send(signalling: object) -> None:
    """Sends a signal to processes that may have ended."""
    assert callable(signalling)
    try:
        signalling()
    except ProcessLookupError:
        return


def processes() -> dict[int, tuple[int, float]]:
    """The parent and the processor time of every process of this machine."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        # The name may contain spaces and brackets; what follows it does not.
        words = stat.rpartition(")")[2].split()
        found[int(entry.name)] = (int(words[1]), (int(words[11]) + int(words[12])) / TICKS)
    return found
