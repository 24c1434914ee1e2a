"""Why a task is as urgent as it is, and who comes before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.client.drafts import to_ms
from rqueue.errors import WrongState
from rqueue.model.lane import POINT
from rqueue.model.scale import tier
from rqueue.model.state import IN_HAND, LIVE
from rqueue.policy.explaining import Terms, Written, terms_of
from rqueue.store.standing import standing

if TYPE_CHECKING:
    from rqueue.client.desk import Desk
    from rqueue.model.ids import TaskId
    from rqueue.model.lane import Lane
    from rqueue.model.scale import Tier
    from rqueue.model.state import State
    from rqueue.model.task import Task
    from rqueue.store.standing import Standing


@dataclass(frozen=True, slots=True)
class Explanation:
    """A task's effective priority in its terms, and its place.

    `position` is 1 for the next one of its lane, `ahead` how many tasks of all lanes a worker that
    serves them all would take before it. Where it does not `stand` in its lane, since it waits for
    something, both say what they would be if it were READY now; for a task in hand they are None.
    """

    task: TaskId
    state: State
    terms: Terms
    tier: Tier
    lane: Lane
    lane_number: int
    stands: bool
    position: int | None
    ahead: int | None
    worker: str | None = None


async def explain(desk: Desk, task: str) -> Explanation:
    """The explanation of a task that has not ended; raises TaskNotFound and WrongState."""
    found = await desk.get(task)
    if found.ended:
        raise WrongState(found.id, found=found.state, wanted=LIVE)
    place = await standing(desk.shard, found.id)
    if place.state not in LIVE:
        raise WrongState(found.id, found=place.state, wanted=LIVE)
    terms = terms_of(written(found, place), place.lane.rate, place.now_ms)
    waits = place.state not in IN_HAND
    return Explanation(
        task=found.id,
        state=place.state,
        terms=terms,
        tier=tier(terms.effective),
        lane=place.lane,
        lane_number=place.number,
        stands=place.stands,
        position=place.before + 1 if waits else None,
        ahead=place.ahead if waits else None,
        worker=found.claim.agent_id if found.claim and not waits else None,
    )


def written(task: Task, place: Standing) -> Written:
    """What is kept of its urgency."""
    spec = task.spec
    late_ms = None
    if spec.deadline is not None:
        late_ms = to_ms(spec.deadline) - round((spec.expected_duration_sec or 0.0) * 1000)
    return Written(
        score=place.score,
        base=spec.priority if place.priority is None else place.priority / POINT,
        path_boost=place.path_boost / POINT,
        created_ms=to_ms(task.created_at),
        late_ms=late_ms,
    )
