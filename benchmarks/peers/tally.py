"""What the tasks do, and how it is counted without Redis.

The driver makes one file and maps it; each worker process takes a slot of it at its first task
and writes its own count there. A no-op is counted by one addition and one store. Stamps and naps,
which are few, are appended to a second file, one record in one write.
"""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

PATH = "BENCH_TALLY"
SLOTS = 1024
TAKEN = struct.Struct("@Q")
SLOT = struct.Struct("@QQQQQ")  # pid, processor time at the first task, first, last, count
FIRST, LAST, COUNT = 2, 3, 4
RECORD = struct.Struct("@QQQ")  # kind, number, now
HEAD = 64
STAMP, BEGUN, DONE = 1, 2, 3
NAP_SEC = 1.0
# What all slots of a worker together end in a second while they doze, however many they are.
DOZES_PER_SEC = 2000
# Spreads numbers that follow each other: tasks that start together shall not end together.
STRIDE = 617
HOLD_SEC = 600.0


class Slot:
    """One process's own place in the mapped file."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        self.records = os.open(records_of(path), os.O_WRONLY | os.O_APPEND)
        with path.open("r+b") as file:
            self.page = mmap.mmap(file.fileno(), 0)
            fcntl.flock(file, fcntl.LOCK_EX)
            (taken,) = TAKEN.unpack_from(self.page)
            if taken == SLOTS:
                raise RuntimeError(f"more than {SLOTS} processes took part")
            TAKEN.pack_into(self.page, 0, taken + 1)
            # Closing the file would not do: the mapping holds a copy of its descriptor.
            fcntl.flock(file, fcntl.LOCK_UN)
        at = HEAD + taken * SLOT.size
        SLOT.pack_into(self.page, at, os.getpid(), time.process_time_ns(), 0, 0, 0)
        # Cell by cell, each by one move: pack_into clears them all first, and a reader saw that.
        self.cells = memoryview(self.page)[at : at + SLOT.size].cast("Q")
        self.count = 0

    def add(self) -> None:
        """Counts one task."""
        with self.lock:
            now = self.cells[LAST] = time.monotonic_ns()
            if not self.count:
                self.cells[FIRST] = now
            self.count += 1
            self.cells[COUNT] = self.count

    def note(self, kind: int, number: int) -> None:
        """Appends one record."""
        os.write(self.records, RECORD.pack(kind, number, time.monotonic_ns()))


class Own:
    """The slot of this process, taken at its first task; a child of a fork takes another."""

    slot: Slot | None = None
    lock = threading.Lock()


def own() -> Slot:
    if Own.slot is None:
        with Own.lock:
            Own.slot = Own.slot or Slot(Path(os.environ[PATH]))
    return Own.slot


def forget() -> None:
    Own.slot, Own.lock = None, threading.Lock()


os.register_at_fork(after_in_child=forget)


def noop(number: int) -> None:
    """Counts itself, and nothing else."""
    own().add()


def stamp(number: int) -> None:
    """Notes when it started; its number is when it was sent."""
    own().note(STAMP, number)


def nap(number: int) -> None:
    """Works for a second without a processor."""
    own().note(BEGUN, number)
    time.sleep(NAP_SEC)
    own().note(DONE, number)


async def nap_async(number: int) -> None:
    """The same on an event loop."""
    own().note(BEGUN, number)
    await asyncio.sleep(NAP_SEC)
    own().note(DONE, number)


async def doze(number: int, slots: int) -> None:
    """Sleeps for a half to one and a half of its share, by its number, and counts itself."""
    slot = own()
    await asyncio.sleep(slots / DOZES_PER_SEC * (0.5 + number * STRIDE % 1000 / 1000))
    slot.add()


async def hold(number: int) -> None:
    """Counts itself, and does not end while it is looked at."""
    own().add()
    await asyncio.sleep(HOLD_SEC)


@dataclass(frozen=True, slots=True)
class Count:
    """What one process has counted."""

    pid: int
    cpu_ns: int
    first_ns: int
    last_ns: int
    count: int


@dataclass(frozen=True, slots=True)
class Board:
    """The driver's view of a run's files."""

    path: Path

    @classmethod
    def lay(cls, folder: Path) -> Board:
        """Empty files for a new run."""
        board = cls(folder / "tally")
        board.path.write_bytes(bytes(HEAD + SLOTS * SLOT.size))
        records_of(board.path).write_bytes(b"")
        return board

    def anew(self) -> Board:
        """The same files, empty, for workers that start after the others have ended."""
        return self.lay(self.path.parent)

    def counts(self) -> list[Count]:
        """Every process that has counted a task."""
        data = self.path.read_bytes()
        (taken,) = TAKEN.unpack_from(data)
        slots = (Count(*SLOT.unpack_from(data, HEAD + at * SLOT.size)) for at in range(taken))
        return [slot for slot in slots if slot.count]

    def total(self) -> int:
        return sum(slot.count for slot in self.counts())

    def records(self, kind: int) -> list[tuple[int, int]]:
        """The number and the time of every record of a kind."""
        found = RECORD.iter_unpack(records_of(self.path).read_bytes())
        return [(number, now) for what, number, now in found if what == kind]


def records_of(path: Path) -> Path:
    """The file of records beside a tally."""
    return path.with_suffix(".records")
