"""Names that differ between this tree and earlier ones, for programs that run with either."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def first_of(*places: str) -> Any:
    """The object at the first of these places, `module:name`, whose module exists."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(import_module(module), name)
        except ModuleNotFoundError:
            continue
    raise LookupError(f"none of {', '.join(places)} is in this tree")


# The second place of each is that of v0.1.0 and before.
WaitingClaim = first_of("rqueue.core.claim:WaitingClaim", "rqueue.store.claims:Waiter")
Settled = first_of("rqueue.core.leases:Settled", "rqueue.store.leases:Settled")
Offer = first_of("rqueue.task.lane:Offer", "rqueue.policy.capability:Offer")


def exchange_of(claim: Any) -> Any:
    """The method of a claim that settles and claims in one call."""
    return getattr(claim, "exchange", None) or claim.turn


def shard_of(queue: Any) -> Any:
    """The shard of a queue."""
    return getattr(queue, "_internals", queue).shard
