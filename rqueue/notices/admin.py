"""What an operator sees of notices while a queue runs."""

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
        """The sinks that a notifier serves or has served lately, by name, with what they lack."""
        return await list_sinks(self._shard)
