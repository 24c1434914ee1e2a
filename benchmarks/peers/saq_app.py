"""saq: as many slots as the shape has, uvloop, hiredis; logs from WARNING on (its default).

Jobs are kept for ten minutes after their end, as they are by default.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
from typing import Any

from saq import Queue

from benchmarks.peers import counters
from benchmarks.peers.app import SLOTS, URL, chunks, program, use_uvloop

AT_ONCE = 20

use_uvloop()
queue = Queue.from_url(URL, name="bench")


async def noop(ctx: Any, *, number: int) -> None:
    counters.noop(number)


async def stamp(ctx: Any, *, number: int) -> None:
    counters.stamp(number)


async def nap(ctx: Any, *, number: int) -> None:
    await counters.nap_async(number)


settings = {"queue": queue, "functions": [noop, stamp, nap], "concurrency": SLOTS}


def workers(slots: int, processes: int) -> list[list[str]]:
    return [program("saq", "benchmarks.peers.saq_app.settings", "--workers", str(processes))]


async def send_all(kind: str, numbers: list[int]) -> None:
    for some in chunks(numbers, AT_ONCE):
        await asyncio.gather(*(queue.enqueue(kind, number=number) for number in some))


async def send_one(kind: str, number: int) -> None:
    await queue.enqueue(kind, number=number)
