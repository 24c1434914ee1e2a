"""Why a task does not run yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.client.explaining import explain
from rqueue.errors import WrongState
from rqueue.model.state import IN_HAND, LIVE, State
from rqueue.policy.fleet import asks_for, serving
from rqueue.policy.reasons import ALL_WORKERS, BUDGET, NO_WORKER, Hold, earliest
from rqueue.store.budgets import budgets
from rqueue.store.fleet import read_fleet
from rqueue.store.reasons import holds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rqueue.client.desk import Desk
    from rqueue.model.ids import TaskId
    from rqueue.store.shard import Shard


@dataclass(frozen=True, slots=True)
class Why:
    """What holds a task back, all of it, and when it may begin at the earliest: None where that is
    no matter of time alone. `ahead` is how many tasks come before it by priority, None for one in
    hand; `turns` how many of its lane have their turn before it, where it has one with its key.
    """

    task: TaskId
    state: State
    holds: Sequence[Hold]
    earliest: datetime | None
    ahead: int | None
    turns: int | None = None


async def why(desk: Desk, task: str) -> Why:
    """Why a task that has not ended does not run; raises TaskNotFound and WrongState."""
    place = await explain(desk, task)
    found = await holds(desk.shard, place.task)
    if found.state not in LIVE:
        raise WrongState(place.task, found=found.state, wanted=LIVE)
    held = list(found.holds)
    if found.state not in IN_HAND and found.state is not State.CREATED:
        capable = serving(await read_fleet(desk.shard), found.lane)
        if not capable:
            held.append(Hold(NO_WORKER, asks_for(found.lane)))
        elif not await any_pays(desk.shard, capable, found.price_usd):
            held.append(Hold(BUDGET, ALL_WORKERS))
    start = earliest(held, found.now)
    return Why(place.task, found.state, held, start, place.ahead, found.turns)


async def any_pays(shard: Shard, workers: Sequence[str], usd: float) -> bool:
    """Whether one of these workers can pay so much of its own budget, or has none."""
    found = await budgets(shard)
    lefts = [one.remaining_usd for name in workers if (one := found.of_worker(name)) is not None]
    return len(lefts) < len(workers) or any(left is None or left >= usd for left in lefts)
