"""More or fewer slots while it runs: SIGTTIN adds one, SIGTTOU takes one away."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from rqueue.services.forks import hush_forks

STEPS = {signal.SIGTTIN: 1, signal.SIGTTOU: -1}
FEWEST = 1


def on_steps(take: Callable[[int], object]) -> None:
    """Calls `take` with 1 or -1 for each such signal from now on, but not for those of forked
    copies; in the main thread only.
    """
    hush_forks()
    loop = asyncio.get_running_loop()
    for number, step in STEPS.items():
        loop.add_signal_handler(number, take, step)
