"""The functions that the tasks call, which count without Redis.

The driver creates one file and maps it. Each worker process takes a slot of it at its first task
and writes its count there. A no-op is counted by one addition and one store. Stamps and naps, which
are few, are appended to a second file, one record in one write.
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

PATH = "BENCH_COUNTERS"
SLOTS = 1024
TAKEN = struct.Struct("@Q")
SLOT = struct.Struct("@QQQQQ")  # pid, processor time at the first task, first, last, count
FIRST, LAST, COUNT = 2, 3, 4
RECORD = struct.Struct("@QQQ")  # kind, number, now
HEAD = 64
STAMP, BEGUN, DONE = 1, 2, 3
NAP_SEC = 1.0
# How many dozing tasks a worker completes in a second, whatever its number of slots.
DOZES_PER_SEC = 2000
# Spreads consecutive numbers, so that tasks which start together do not end together.
STRIDE = 617
HOLD_SEC = 600.0


class Slot:
    """The slot of one process in the mapped file."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.Lock()
        self.records = os.open(records_of(path), os.O_WRONLY | os.O_APPEND)
        with path.open("r+b") as file:
            self.page = mmap.mmap(file.fileno(), 0)
            fcntl.flock(file, fcntl.LOCK_EX)
            (taken,) = TAKEN.unpack_from(self.page)
            if taken == SLOTS:
                raise RuntimeError(f"more than {SLOTS} processes have counted")
            TAKEN.pack_into(self.page, 0, taken + 1)
            # Closing the file would not unlock it: the mapping has a copy of its descriptor.
            fcntl.flock(file, fcntl.LOCK_UN)
        at = HEAD + taken * SLOT.size
        SLOT.pack_into(self.page, at, os.getpid(), time.process_time_ns(), 0, 0, 0)
        # Each cell is written by one store: pack_into clears all cells first, and readers see that.
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


class ProcessSlot:
    """The slot of this process, taken at its first task. A forked process takes another."""

    slot: Slot | None = None
    lock = threading.Lock()


def process_slot() -> Slot:
    if ProcessSlot.slot is None:
        with ProcessSlot.lock:
            ProcessSlot.slot = ProcessSlot.slot or Slot(Path(os.environ[PATH]))
    return ProcessSlot.slot


def forget() -> None:
    ProcessSlot.slot, ProcessSlot.lock = None, threading.Lock()


os.register_at_fork(after_in_child=forget)


def noop(number: int) -> None:
    """Counts one task."""
    process_slot().add()


def stamp(number: int) -> None:
    """Records when the task started; its number is the time when it was sent."""
    process_slot().note(STAMP, number)


def nap(number: int) -> None:
    """Sleeps for a second; records begin and end."""
    process_slot().note(BEGUN, number)
    time.sleep(NAP_SEC)
    process_slot().note(DONE, number)


async def nap_async(number: int) -> None:
    """The same on an event loop."""
    process_slot().note(BEGUN, number)
    await asyncio.sleep(NAP_SEC)
    process_slot().note(DONE, number)


async def doze(number: int, slots: int) -> None:
    """Sleeps for 0.5 to 1.5 of the mean, depending on its number, and counts one task."""
    slot = process_slot()
    await asyncio.sleep(slots / DOZES_PER_SEC * (0.5 + number * STRIDE % 1000 / 1000))
    slot.add()


async def hold(number: int) -> None:
    """Counts one task, and does not end during the measurement."""
    process_slot().add()
    await asyncio.sleep(HOLD_SEC)


@dataclass(frozen=True, slots=True)
class Count:
    """The count of one process."""

    pid: int
    cpu_ns: int
    first_ns: int
    last_ns: int
    count: int


@dataclass(frozen=True, slots=True)
class CounterFile:
    """The driver's view of a run's files."""

    path: Path

    @classmethod
    def create(cls, folder: Path) -> CounterFile:
        """Empty files for a new run."""
        counter_file = cls(folder / "counters")
        counter_file.path.write_bytes(bytes(HEAD + SLOTS * SLOT.size))
        records_of(counter_file.path).write_bytes(b"")
        return counter_file

    def emptied(self) -> CounterFile:
        """The same files, emptied, for workers that start after the others have ended."""
        return self.create(self.path.parent)

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
    """The file of records that belongs to a counter file."""
    return path.with_suffix(".records")
