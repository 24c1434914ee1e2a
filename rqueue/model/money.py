"""Money as scripts count it: whole millionths of a dollar, and classes of prices for lanes."""

from __future__ import annotations

import math

MICRO = 1_000_000


def micro_usd(usd: float) -> int:
    """Dollars as scripts count them."""
    return round(usd * MICRO)


def set_aside(usd: float) -> int:
    """What is set aside for an estimate: never less than it says."""
    return math.ceil(round(usd * MICRO, 6))


def cost_class(micro: int) -> int:
    """The class of a price: k for what costs at least 2^(k-1) and less than 2^k, 0 for nothing.

    Tasks of one class share a lane: a worker that cannot pay the dear ones passes them by whole.
    """
    return micro.bit_length()


def price_of(estimate_usd: float, most_usd: float | None) -> str:
    """What a task is expected and allowed to cost, as scripts read it; "" where it says neither."""
    estimate, most = set_aside(estimate_usd), micro_usd(most_usd or 0.0)
    return f"{estimate}:{most}" if estimate or most else ""
