"""The tasks of both taskiq brokers.

Chosen: async tasks, uvloop (used automatically when installed), no parsing of arguments, logs from
WARNING on; no prefetch beyond the slots (its default; 100 was not better). Results are off, as
they are by default.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.peers import counters
from benchmarks.peers.app import chunks, program

AT_ONCE = 20


async def noop(number: int) -> None:
    counters.noop(number)


async def stamp(number: int) -> None:
    counters.stamp(number)


class Tasks:
    """The three tasks on one broker."""

    def __init__(self, broker: Any, home: str) -> None:
        self.broker, self.home, self.started = broker, home, False
        self.of = {
            "noop": broker.register_task(noop, task_name="noop"),
            "stamp": broker.register_task(stamp, task_name="stamp"),
            "nap": broker.register_task(counters.nap_async, task_name="nap"),
        }

    def workers(self, slots: int, processes: int) -> list[list[str]]:
        shape = ["--workers", str(processes), "--max-async-tasks", str(slots)]
        tuned = ["--no-parse", "--log-level", "WARNING"]
        return [program("taskiq", "worker", f"benchmarks.peers.{self.home}:broker", *shape, *tuned)]

    async def send_all(self, kind: str, numbers: list[int]) -> None:
        await self.start()
        for some in chunks(numbers, AT_ONCE):
            await asyncio.gather(*(self.of[kind].kiq(number) for number in some))

    async def send_one(self, kind: str, number: int) -> None:
        await self.start()
        await self.of[kind].kiq(number)

    async def start(self) -> None:
        """Starts the broker once, as a producer should."""
        if not self.started:
            await self.broker.startup()
            self.started = True
