"""`queue.notices`: the state of the sinks for an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.notices.store import list_sinks

if TYPE_CHECKING:
    from rqueue.notices.store import SinkState
    from rqueue.store.shard import Shard


class Notices:
    """`queue.notices`."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    async def sinks(self) -> list[SinkState]:
        """Returns the sinks that a notifier serves or has served recently, sorted by name, each
        with the notices that it has not received yet.
        """
        return await list_sinks(self._shard)
