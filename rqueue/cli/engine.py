"""What a process that serves runs on: the quickest event loop that is here, and a collector that
stays out of its way.
"""

from __future__ import annotations

import asyncio
import gc
import importlib

# New objects after which Python looks for circles among them. Those of a batch are let go of before
# and are never looked at; at Python's own 700 that took a fifth of the archiver's time.
YOUNG = 20_000


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop's where that is installed."""
    try:
        factory = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    loop: asyncio.AbstractEventLoop = factory()
    return loop


def calm() -> None:
    """Keeps Python's collector from what a process that serves has much of: modules, which stay as
    long as it does, and what a batch is made of, which is gone soon and holds no circles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
