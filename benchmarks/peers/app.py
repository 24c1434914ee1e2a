"""What the file of each peer uses: the server's URL, the slots, the commands to run."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

URL = os.environ.get("BENCH_URL", "redis://127.0.0.1:6379")
SLOTS = int(os.environ.get("BENCH_SLOTS", "10"))
CHUNK = 500


class Unsupported(Exception):
    """A peer does not support a shape; the message is the reason."""


def program(name: str, *words: str) -> list[str]:
    """The command line of a program of this interpreter's environment."""
    return [str(Path(sys.executable).parent / name), *words]


def module(name: str) -> list[str]:
    """The command line of a module, run by this interpreter."""
    return [sys.executable, "-m", name]


def chunks(numbers: list[int], size: int = CHUNK) -> list[list[int]]:
    """The numbers in lists of at most `size`, for bulk calls."""
    return [numbers[at : at + size] for at in range(0, len(numbers), size)]


def use_uvloop() -> None:
    """Makes later event loops those of uvloop, for programs without an option for it."""
    import uvloop  # noqa: PLC0415 - not every environment has it

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
