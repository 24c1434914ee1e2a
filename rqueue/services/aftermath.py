"""Tells the middleware what became of attempts, when the server has written it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rqueue.artifacts.results import Stowed
from rqueue.model.attempt import Completed, Failed
from rqueue.model.codec import decode
from rqueue.model.state import State
from rqueue.services.slots import LOST, RELEASED

if TYPE_CHECKING:
    from rqueue.context import Context
    from rqueue.hooks import Hooks
    from rqueue.services.slots import Running
    from rqueue.store.claims import Grant
    from rqueue.store.leases import Settled

LOG = logging.getLogger("rqueue.worker")
# Longer than this the steps after a settle may not take: they would gather without end.
PATIENCE_SEC = 10.0
FAILED = frozenset({State.RETRYING, State.DEAD_LETTERED})

Ended = tuple["Context", bytes | Failed]
Told = tuple["Context", bytes | Failed, State | None]


class Aftermath:
    """The attempts of one worker between their end and the server's answer. Only where there is
    middleware is anything kept. The steps run beside the worker, which does not wait for them.
    """

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        # A claim gives all its tasks the same token if they are as often claimed.
        self.ended: dict[tuple[str, str], Ended] = {}
        self.telling: set[asyncio.Task[None]] = set()

    def keep(self, running: Running, outcome: bytes | Failed | None) -> None:
        """An attempt ended so: it is told of when it is settled, or now where nothing is written
        because its task is another's.
        """
        if not self.hooks.middleware or outcome is None or running.ctx is None:
            return
        if running.stopped == RELEASED:
            return
        if running.stopped == LOST:
            self.tell([(running.ctx, outcome, None)])
        else:
            self.ended[running.grant.task, running.grant.token] = running.ctx, outcome

    def settled_first(self, ctx: Context, outcome: bytes | Failed) -> None:
        """An attempt ended so whose task was completed before it ran."""
        self.tell([(ctx, outcome, State.COMPLETED)])

    def completed(self, done: Sequence[Settled], words: Sequence[str]) -> None:
        """What was to be completed, and what the server said to each."""
        if self.ended:
            states = [State.COMPLETED if word == "OK" else None for word in words]
            self.settled([(row.task, row.token) for row in done], states)

    def failed(self, failed: Sequence[tuple[Grant, Failed]], words: Sequence[str]) -> None:
        """What was to be failed, and what the server said to each."""
        if self.ended:
            states = [State(word) if word in FAILED else None for word in words]
            self.settled([(grant.task, grant.token) for grant, _ in failed], states)

    def settled(self, leases: Sequence[tuple[str, str]], states: Sequence[State | None]) -> None:
        """Tells what is known of each."""
        found = zip(leases, states, strict=True)
        self.tell(
            [(*self.ended.pop(lease), state) for lease, state in found if lease in self.ended]
        )

    def tell(self, told: Sequence[Told]) -> None:
        """Begins to tell of some attempts, all at the same time."""
        if told and self.hooks.middleware:
            task = asyncio.get_running_loop().create_task(self.tell_all(told))
            self.telling.add(task)
            task.add_done_callback(self.telling.discard)

    async def tell_all(self, told: Sequence[Told]) -> None:
        """Runs the steps for each; those that take too long are cancelled."""
        try:
            async with asyncio.timeout(PATIENCE_SEC):
                steps = (self.hooks.after_settle(ctx, seen(end), at) for ctx, end, at in told)
                await asyncio.gather(*steps, return_exceptions=True)
        except TimeoutError:
            LOG.error("after_settle took longer than %g s and was cancelled", PATIENCE_SEC)

    async def aclose(self) -> None:
        """Waits until all is told."""
        await asyncio.gather(*self.telling, return_exceptions=True)


def seen(end: bytes | Failed) -> Completed | Failed:
    """The end of an attempt as it was written; a large result as its handler gave it."""
    if isinstance(end, Failed):
        return end
    data = end.whole if isinstance(end, Stowed) else end
    return Completed(decode(data, field="result") if data else None)
