"""What of a queue belongs to one event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.client.gatherer import Gatherer
from rqueue.client.watcher import Watcher

if TYPE_CHECKING:
    from rqueue.archive.reader import ArchiveReader
    from rqueue.store.shard import Shard


class Local:
    """The parts that many callers of one event loop share."""

    def __init__(self, shard: Shard, earlier: ArchiveReader | None = None) -> None:
        self.gatherer = Gatherer(shard, earlier)
        self.watcher = Watcher(shard)

    async def aclose(self) -> None:
        """Ends what runs in the background; who waits for a result gets StoreUnavailable."""
        await self.watcher.aclose()
