"""A worker's claim that waits at the server, and when it has to be made anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqueue.services.slots import Slots

# A claim is renewed before its time is up.
SHARE = 0.8


class Parking:
    """Whether a claim waits. While it does, the worker need not ask, and others on its seats may;
    `ended` is called when it waits no more.
    """

    def __init__(self, slots: Slots, ended: Callable[[], object]) -> None:
        self.slots = slots
        self.ended = ended
        self.parked = False
        self.timer: asyncio.TimerHandle | None = None

    def begin(self, wait_sec: float) -> None:
        """A claim was answered, and waits for so long from now on; 0 where it does not."""
        self.forget()
        self.parked = wait_sec > 0
        self.slots.seats.wants(self.slots, more=not self.parked)
        if self.parked:
            self.timer = asyncio.get_running_loop().call_later(wait_sec * SHARE, self.end)

    def end(self) -> None:
        """It was answered, or its time is nearly over: the next turn makes another."""
        self.forget()
        self.slots.seats.wants(self.slots, more=True)
        self.ended()

    def forget(self) -> None:
        """No claim waits."""
        self.parked = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
