"""A server in memory: moves are run on the model, at the time of its clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqueue.errors import ScriptFault
from rqueue.store.library import library
from tests.reference.moves import MODEL_MOVES, NO_OPS
from tests.reference.moves.call import encoded, parse_call
from tests.reference.turns import update_turns

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.testing.timeline import ManualClock
    from tests.reference.model import Model

Reader = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class ModelServer:
    """One shard. Calls may come from several threads and event loops, one at a time."""

    def __init__(self, model: Model, clock: ManualClock) -> None:
        self.model = model
        self.clock = clock
        self.lock = threading.RLock()
        self.readers: dict[str, list[Reader]] = {}
        self.moves = {move.function: move for move in library().moves.values()}

    def run(self, function: str, words: Sequence[Argument]) -> Any:
        """Runs a move. Returns its reply, and wakes readers of mailboxes."""
        move = self.moves[function]
        if move.name in NO_OPS:
            return encoded(NO_OPS[move.name])
        if move.name not in MODEL_MOVES:
            raise ScriptFault(move.name, "no server: the queue is in memory")
        with self.lock:
            self.model.now_ms = self.clock.now_ms()
            call = parse_call(move, words)
            reply = MODEL_MOVES[move.name](self.model, call)
            update_turns(self.model)
            self.wake_readers()
        return encoded(reply)

    def wake_readers(self) -> None:
        """Wakes the readers of mailboxes that have lines."""
        for box in [box for box in self.readers if self.model.mailboxes.get(box)]:
            for loop, event in self.readers.pop(box):
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)

    async def next_mail(self, boxes: Sequence[str], wait_sec: float) -> bytes | None:
        """The next line of one of the mailboxes, or None after the wait; the wait is real time."""
        event = asyncio.Event()
        reader = (asyncio.get_running_loop(), event)
        try:
            async with asyncio.timeout(wait_sec):
                while (line := self.take_mail(boxes, reader)) is None:
                    await event.wait()
                    event.clear()
                return line
        except TimeoutError:
            return None
        finally:
            with self.lock:
                for box in boxes:
                    left = [one for one in self.readers.pop(box, []) if one is not reader]
                    self.readers |= {box: left} if left else {}

    def take_mail(self, boxes: Sequence[str], reader: Reader) -> bytes | None:
        """Takes the first line of the mailboxes; if there is none, registers the reader."""
        with self.lock:
            for box in boxes:
                lane_turns = self.model.mailboxes.get(box)
                if lane_turns:
                    return lane_turns.pop(0).encode()
            for box in boxes:
                self.readers.setdefault(box, []).append(reader)
            return None
