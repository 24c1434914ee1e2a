"""The limits that an operator reads and changes at run time: breakers and slow-downs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.limits import breaker, slowdown
from rqueue.producer import arguments

if TYPE_CHECKING:
    from rqueue.limits.slowdown import Slowdown
    from rqueue.store.shard import Shard
    from rqueue.task.attempt.breaker import Breaker


class Limits:
    """`queue.limits`."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    async def breakers(self) -> list[Breaker]:
        """Returns the breakers that are not closed or have counted failures since the last
        completion.
        """
        return await breaker.breakers(self._shard)

    async def open_breaker(self, type: str, seconds: float = 300) -> None:
        """Opens the breaker of a type for `seconds`: none of its tasks is claimed. After this time
        it is half-open and one task is tried.
        """
        rest = arguments.seconds_of("seconds", seconds)
        name = arguments.name_of("type", type)
        await breaker.open_breaker(self._shard, name, for_ms=round(rest * 1000))

    async def close_breaker(self, type: str) -> None:
        """Closes the breaker of a type and resets its failure count. Answers waiting claims."""
        await breaker.close_breaker(self._shard, arguments.name_of("type", type))

    async def slowdowns(self) -> list[Slowdown]:
        """Returns the active slow-downs of types and tenants, types first."""
        return await slowdown.slowdowns(self._shard)

    async def lift_slowdown(self, type: str | None = None, *, key: str | None = None) -> bool:
        """Ends the slow-down of a type or of a tenant (`key`). Returns whether there was one.
        Answers waiting claims.
        """
        return await slowdown.lift(self._shard, **arguments.slowdown_target(type, key))
