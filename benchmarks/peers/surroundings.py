"""What a peer's file finds around it: the server, its slots, its programs."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

URL = os.environ.get("BENCH_URL", "redis://127.0.0.1:6379")
SLOTS = int(os.environ.get("BENCH_SLOTS", "10"))
CHUNK = 500


class Unable(Exception):
    """A peer has no such shape; the reason is printed in its place."""


def program(name: str, *words: str) -> list[str]:
    """A command of the environment that this interpreter belongs to."""
    return [str(Path(sys.executable).parent / name), *words]


def module(name: str) -> list[str]:
    """A module run by this interpreter."""
    return [sys.executable, "-m", name]


def chunks(numbers: list[int], size: int = CHUNK) -> list[list[int]]:
    """The numbers in pieces, for what is sent in bulk."""
    return [numbers[at : at + size] for at in range(0, len(numbers), size)]


def use_uvloop() -> None:
    """Loops made from here on are uvloop's; for programs that offer no option for it."""
    import uvloop  # noqa: PLC0415 - not every environment has it

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
