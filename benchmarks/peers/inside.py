"""Run by a peer's own interpreter: says how its workers start, and sends its tasks.

`python -m benchmarks.peers.inside MODULE workers SLOTS PROCESSES`  commands as JSON
`python -m benchmarks.peers.inside MODULE send KIND COUNT`          all at once, seconds as JSON
`python -m benchmarks.peers.inside MODULE pace COUNT`               stamps, 10 ms apart
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import sys
import time
from typing import Any, Protocol, cast

from benchmarks.peers.surroundings import Unable, use_uvloop

PACE_SEC = 0.01


class App(Protocol):
    """What a peer's file offers."""

    def workers(self, slots: int, processes: int) -> list[list[str]]:
        """The commands that make up one fleet of this shape; raises Unable."""

    async def send_all(self, kind: str, numbers: list[int]) -> None:
        """Enqueues many tasks as quickly as the peer can."""

    async def send_one(self, kind: str, number: int) -> None:
        """Enqueues one task."""


def commands(app: App, slots: int, processes: int) -> dict[str, Any]:
    """The fleet of a shape, or why there is none. No slots: the peer's own best arrangement."""
    try:
        if slots:
            return {"commands": app.workers(slots, processes)}
        arrange = getattr(app, "own", None)
        if arrange is None:
            raise Unable("has no arrangement of its own")
        return {"commands": arrange()}
    except Unable as error:
        return {"unable": str(error)}


async def send(app: App, kind: str, count: int) -> dict[str, Any]:
    """How long many tasks take to enqueue, after the connection is there."""
    numbers = list(range(1, count + 1))
    await app.send_all(kind, numbers[:1])
    start = time.perf_counter()
    await app.send_all(kind, numbers[1:])
    return {"seconds": time.perf_counter() - start}


async def pace(app: App, count: int) -> dict[str, Any]:
    """One stamp at a time; each carries the moment before its call."""
    for _ in range(count):
        await asyncio.sleep(PACE_SEC)
        await app.send_one("stamp", time.monotonic_ns())
    return {}


def answer(app: App, verb: str, words: list[str]) -> dict[str, Any]:
    match verb, words:
        case "workers", [slots, processes]:
            return commands(app, int(slots), int(processes))
        case "send", [kind, count]:
            return asyncio.run(send(app, kind, int(count)))
        case "pace", [count]:
            return asyncio.run(pace(app, int(count)))
        case _:
            raise SystemExit(__doc__)


def main() -> None:
    name, verb, *words = sys.argv[1:]
    if importlib.util.find_spec("uvloop"):
        use_uvloop()
    app = cast("App", importlib.import_module(f"benchmarks.peers.{name}"))
    print(json.dumps(answer(app, verb, words)))


if __name__ == "__main__":
    main()
