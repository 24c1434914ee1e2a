"""Tasks that were claimed ahead of a free slot: until one has begun, its attempt is not spent."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rqueue.store import leases
from rqueue.store.leases import Held

if TYPE_CHECKING:
    from rqueue.services.slots import Running
    from rqueue.store.claims import Grant
    from rqueue.store.shard import Shard

# One that ends within this time is completed as it is; of a longer one its start is told.
SHORT_SEC = 0.1


class Ahead:
    """What the server does not know to have begun. Most such tasks end before it need be told."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.tokens: dict[str, str] = {}

    def note(self, grants: Sequence[Grant], begin: int) -> None:
        """Of what was given, all but the first `begin` wait for a slot."""
        for grant in grants[max(begin, 0) :]:
            self.tokens[grant.task] = grant.token

    async def tell(self, running: Mapping[str, Running]) -> None:
        """Tells the server of those that have begun and go on."""
        if not self.tokens:
            return
        since = time.monotonic() - SHORT_SEC
        begun = [
            Held(task, one.grant.token)
            for task, one in running.items()
            if self.tokens.get(task) == one.grant.token and one.begun and one.began <= since
        ]
        if begun:
            await leases.start(self.shard, begun)
        for lease in begun:
            self.tokens.pop(lease.task, None)
