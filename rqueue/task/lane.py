"""A lane: tasks that compete with each other, and what a worker must offer to serve them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


# Scores are whole numbers of millionths of a priority point: exact, and cheap for the server.
POINT = 1_000_000


@dataclass(frozen=True, slots=True)
class Lane:
    """The type, agent and capabilities that a task requires, how fast it ages, and its cost class.

    `rate` is points per minute. A task that lost its worker more than once moves to a lane that is
    `exclusive`. Tasks with a limit key are in lanes that are `keyed`. `price` is the cost of a task
    that enters the lane; it is not part of the lane's name.
    """

    type: str
    rate: float
    agent: str | None = None
    capabilities: tuple[str, ...] = ()
    exclusive: bool = False
    keyed: bool = False
    cost: int = 0
    price: str = ""

    def __post_init__(self) -> None:
        # Equal lanes must have one name: -0.0 equals 0.0 and is written differently.
        object.__setattr__(self, "rate", self.rate + 0.0)

    @property
    def micro_rate(self) -> int:
        """The rate in millionths."""
        return micro(self.rate)


def micro(points: float) -> int:
    """Points in millionths, the unit of moves."""
    return round(points * POINT)


@lru_cache(maxsize=4096)
def signature(lane: Lane) -> str:
    """The lane's name in the hash of lanes."""
    found: dict[str, object] = {"type": lane.type, "rate": lane.rate}
    if lane.agent is not None:
        found["agent"] = lane.agent
    if lane.capabilities:
        found["capabilities"] = sorted(lane.capabilities)
    if lane.exclusive:
        found["alone"] = True
    if lane.keyed:
        found["keyed"] = True
    if lane.cost:
        found["cost"] = lane.cost
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=4096)
def lane_of(text: str) -> Lane:
    """The lane of a signature."""
    found = json.loads(text)
    return Lane(
        type=found["type"],
        rate=found["rate"],
        agent=found.get("agent"),
        capabilities=tuple(found.get("capabilities", ())),
        exclusive=found.get("alone", False),
        keyed=found.get("keyed", False),
        cost=found.get("cost", 0),
    )


@dataclass(frozen=True, slots=True)
class Offer:
    """What a worker can run. `types` None means every type; without models, any model."""

    types: frozenset[str] | None = None
    capabilities: frozenset[str] = field(default_factory=frozenset)
    agents: frozenset[str] = field(default_factory=frozenset)
    models: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(
        cls,
        types: Iterable[str] | None = None,
        capabilities: Iterable[str] = (),
        agents: Iterable[str] = (),
        models: Iterable[str] = (),
    ) -> Offer:
        """An offer of these names."""
        return cls(
            None if types is None else frozenset(types),
            frozenset(capabilities),
            frozenset(agents),
            frozenset(models),
        )


def serves(offer: Offer, lane: Lane) -> bool:
    """Whether the offer covers the lane's type, agent and capabilities."""
    if offer.types is not None and lane.type not in offer.types:
        return False
    if lane.agent is not None and lane.agent not in offer.agents:
        return False
    return offer.capabilities.issuperset(lane.capabilities)
