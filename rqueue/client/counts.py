"""How many tasks there are, as people and metrics ask for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.model.scale import Tier
from rqueue.model.state import State

if TYPE_CHECKING:
    from rqueue.store.queue import Tally

# States of tasks that are there now; the ended ones are counted as they pass.
TOTALS = frozenset({State.COMPLETED, State.CANCELLED})


@dataclass(frozen=True, slots=True)
class Counts:
    """Tasks by state, by type and state, and the READY ones by the tier they have reached.

    COMPLETED and CANCELLED count all that ended so since the queue began.
    """

    by_state: dict[State, int] = field(default_factory=dict)
    by_type: dict[str, dict[State, int]] = field(default_factory=dict)
    by_tier: dict[Tier, int] = field(default_factory=dict)
    submitted: int = 0
    outbox: int = 0
    paused: frozenset[str] = frozenset()

    def __getitem__(self, state: State | str) -> int:
        """The number of tasks in a state."""
        return self.by_state.get(State(state), 0)

    @property
    def live(self) -> int:
        """The tasks that have not ended."""
        ended = (*TOTALS, State.DEAD_LETTERED)
        return sum(count for state, count in self.by_state.items() if state not in ended)


def counts_of(tally: Tally) -> Counts:
    """The lanes' counts, added up."""
    states: Counter[State] = Counter()
    tiers: Counter[Tier] = Counter()
    types: dict[str, Counter[State]] = {}
    for lane in tally.lanes:
        own = types.setdefault(lane.lane.type, Counter())
        own[State.READY] += sum(lane.ready.values())
        tiers.update(lane.ready)
        for name, count in lane.states.items():
            own[State(name)] += count
    for own in types.values():
        states.update(own)
    return Counts(
        by_state={state: states[state] for state in State if state is not State.FAILED},
        by_type={name: {s: n for s, n in own.items() if n} for name, own in types.items()},
        by_tier={tier: tiers[tier] for tier in Tier},
        submitted=tally.counters.get("submitted", 0),
        outbox=tally.counters.get("outbox", 0),
        paused=tally.paused,
    )
