"""A server in memory: the scripts' calls are answered by the model, at the time of its clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqueue.errors import ScriptFault
from rqueue.store.library import library
from tests.reference.rounds import line_up
from tests.reference.verbs import IDLE, VERBS
from tests.reference.verbs.words import asked, encoded

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.testing.clock import ManualClock
    from tests.reference.model import Model

Ear = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class MemoryServer:
    """One shard. Calls may come from several threads and event loops, one at a time."""

    def __init__(self, model: Model, clock: ManualClock) -> None:
        self.model = model
        self.clock = clock
        self.lock = threading.RLock()
        self.ears: dict[str, list[Ear]] = {}
        self.moves = {move.function: move for move in library().moves.values()}

    def run(self, function: str, words: Sequence[Argument]) -> Any:
        """A move's reply; those who wait for mail hear of what it wrote."""
        move = self.moves[function]
        if move.name in IDLE:
            return encoded(IDLE[move.name])
        if move.name not in VERBS:
            raise ScriptFault(move.name, "there is no server to ask: the queue is in memory")
        with self.lock:
            self.model.now_ms = self.clock.now_ms()
            call = asked(move, words)
            reply = VERBS[move.name](self.model, call)
            line_up(self.model)
            self.tell()
        return encoded(reply)

    def tell(self) -> None:
        """Wakes those whose box has mail."""
        for box in [box for box in self.ears if self.model.boxes.get(box)]:
            for loop, event in self.ears.pop(box):
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)

    async def next_mail(self, boxes: Sequence[str], wait_sec: float) -> bytes | None:
        """The next line in one of the boxes, or None when none came in time; the time is the real
        one.
        """
        event = asyncio.Event()
        ear = (asyncio.get_running_loop(), event)
        try:
            async with asyncio.timeout(wait_sec):
                while (line := self.take_mail(boxes, ear)) is None:
                    await event.wait()
                    event.clear()
                return line
        except TimeoutError:
            return None
        finally:
            with self.lock:
                for box in boxes:
                    left = [one for one in self.ears.pop(box, []) if one is not ear]
                    self.ears |= {box: left} if left else {}

    def take_mail(self, boxes: Sequence[str], ear: Ear) -> bytes | None:
        """The first line of the boxes, taken out; where there is none, their ear is pricked."""
        with self.lock:
            for box in boxes:
                lines = self.model.boxes.get(box)
                if lines:
                    return lines.pop(0).encode()
            for box in boxes:
                self.ears.setdefault(box, []).append(ear)
            return None
