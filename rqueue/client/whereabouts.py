"""What a process may not do that does not know where the archive of its queue is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.errors import ConfigError
from rqueue.store.outbox import is_joined

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

WAY_OUT = (
    "set RQUEUE_POSTGRES_URL, or postgres_url in rqueue.yaml; a queue that has no archive any more"
    " is told so by `rqueue archive leave`, with `archive: none`"
)


async def check_none(shard: Shard, otherwise: str) -> None:
    """Raises ConfigError where the queue has an archive; `otherwise` is what that may do then."""
    if shard.terms.archive or await is_joined(shard):
        rule = f"is not set, and the archive of this queue may {otherwise}: {WAY_OUT}"
        raise ConfigError("postgres_url", rule)
