"""Purses: what a worker can pay for tasks that it claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.budgets.accounts import DAY, WORKER
from tests.reference.money import DAY_MS, left_of

if TYPE_CHECKING:
    from rqueue.task.lane import Lane
    from tests.reference.model import Model

# Of a lane whose heads cannot be paid, so many are looked at.
DEAR = 100


@dataclass(slots=True)
class Purse:
    """What can be paid now, by the tighter of two accounts."""

    left: float
    account: str
    tight: bool = False
    short: bool = False


def purse_of(model: Model, consumer: str) -> Purse | None:
    """What a worker can pay now; None where nothing bounds it."""
    if not any(one.ceiling is not None for one in model.money.accounts.values()):
        return None
    found = [(left_of(model, name), name) for name in (WORKER + consumer, DAY)]
    bounds = [(left, name) for left, name in found if left is not None]
    if not bounds:
        return None
    left, name = min(bounds, key=lambda pair: pair[0])
    return Purse(left, name)


def run_short(model: Model, purse: Purse) -> None:
    """The account of a purse could not pay something."""
    purse.short = True
    model.money.short.add(purse.account)
    if purse.account == DAY:
        midnight = (model.now_ms // DAY_MS + 1) * DAY_MS
        model.wakes["$day"] = min(midnight, model.wakes.get("$day", midnight))


def affordable(model: Model, purse: Purse, lanes: dict[int, Lane], n: int) -> dict[int, Lane]:
    """The lanes of which something can be paid; the purse is tight where not all may be."""
    found = {}
    for number, lane in lanes.items():
        if purse.left < (2 ** (lane.cost - 1) if lane.cost else 0):
            # An empty lane keeps nobody.
            if model.lane(number):
                run_short(model, purse)
            continue
        purse.tight = purse.tight or bool(lane.cost and n * 2**lane.cost > purse.left)
        found[number] = lane
    return found
