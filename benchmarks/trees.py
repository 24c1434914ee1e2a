"""What programs use of whichever rqueue they find: this one, or that of an earlier tree."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def part(*places: str) -> Any:
    """What the first of these places, `module:name`, has that is in the tree."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(import_module(module), name)
        except ModuleNotFoundError:
            continue
    raise LookupError(f"none of {', '.join(places)} is in this tree")


# The second place of each is that of v0.1.0 and before.
WaitingClaim = part("rqueue.core.claim:WaitingClaim", "rqueue.store.claims:Waiter")
Settled = part("rqueue.core.leases:Settled", "rqueue.store.leases:Settled")
Offer = part("rqueue.task.lane:Offer", "rqueue.policy.capability:Offer")


def exchange_of(claim: Any) -> Any:
    """The round trip of a worker's claim, under its name of then or now."""
    return getattr(claim, "exchange", None) or claim.turn


def shard_of(queue: Any) -> Any:
    """The shard of a queue."""
    return getattr(queue, "_internals", queue).shard
