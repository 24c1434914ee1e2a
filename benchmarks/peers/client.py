"""Run by the interpreter of a peer: prints how its workers start, and sends its tasks.

`python -m benchmarks.peers.client MODULE workers SLOTS PROCESSES`  commands as JSON
`python -m benchmarks.peers.client MODULE send KIND COUNT`          all at once, seconds as JSON
`python -m benchmarks.peers.client MODULE pace COUNT`               stamps, 10 ms apart
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import sys
import time
from typing import Any, Protocol, cast

from benchmarks.peers.app import Unsupported, use_uvloop

PACE_SEC = 0.01


class App(Protocol):
    """The functions of a peer's file."""

    def workers(self, slots: int, processes: int) -> list[list[str]]:
        """The commands that start a fleet of this shape; raises Unsupported."""

    async def send_all(self, kind: str, numbers: list[int]) -> None:
        """Enqueues many tasks as quickly as the peer can."""

    async def send_one(self, kind: str, number: int) -> None:
        """Enqueues one task."""


def commands(app: App, slots: int, processes: int) -> dict[str, Any]:
    """The commands of a shape, or why there are none. Slots 0: the peer's best configuration."""
    try:
        if slots:
            return {"commands": app.workers(slots, processes)}
        arrange = getattr(app, "own", None)
        if arrange is None:
            raise Unsupported("has no configuration of its own")
        return {"commands": arrange()}
    except Unsupported as error:
        return {"unsupported": str(error)}


async def send(app: App, kind: str, count: int) -> dict[str, Any]:
    """The seconds that many tasks take to enqueue, over an open connection."""
    numbers = list(range(1, count + 1))
    await app.send_all(kind, numbers[:1])
    start = time.perf_counter()
    await app.send_all(kind, numbers[1:])
    return {"seconds": time.perf_counter() - start}


async def pace(app: App, count: int) -> dict[str, Any]:
    """Sends one stamp at a time; its number is the time before the call."""
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
