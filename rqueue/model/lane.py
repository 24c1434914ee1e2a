"""A lane: the tasks that compete on equal terms, and what a worker must offer to serve them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

# Scores are whole numbers of millionths of a priority point: exact, and cheap for the server.
POINT = 1_000_000


@dataclass(frozen=True, slots=True)
class Lane:
    """Type, agent and capabilities that a task asks for, how fast it ages, and its cost class.

    `rate` is points a minute; a task that lost its worker once moves to the lane that is `alone`.
    Tasks that have a limit key are in lanes that are `keyed`. `price` is what a task on its way
    into the lane costs, see model/money.py: it is no part of the lane's name.
    """

    type: str
    rate: float
    agent: str | None = None
    capabilities: tuple[str, ...] = ()
    alone: bool = False
    keyed: bool = False
    cost: int = 0
    price: str = ""

    def __post_init__(self) -> None:
        # Equal lanes must have one name: -0.0 equals 0.0 and is written otherwise.
        object.__setattr__(self, "rate", self.rate + 0.0)

    @property
    def micro_rate(self) -> int:
        """The rate as scripts count."""
        return micro(self.rate)


def micro(points: float) -> int:
    """Points as scripts count them."""
    return round(points * POINT)


@lru_cache(maxsize=4096)
def signature(lane: Lane) -> str:
    """The lane's name in the server's table of lanes."""
    found: dict[str, object] = {"type": lane.type, "rate": lane.rate}
    if lane.agent is not None:
        found["agent"] = lane.agent
    if lane.capabilities:
        found["capabilities"] = sorted(lane.capabilities)
    if lane.alone:
        found["alone"] = True
    if lane.keyed:
        found["keyed"] = True
    if lane.cost:
        found["cost"] = lane.cost
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=4096)
def lane_of(text: str) -> Lane:
    """The lane that a signature names."""
    found = json.loads(text)
    return Lane(
        type=found["type"],
        rate=found["rate"],
        agent=found.get("agent"),
        capabilities=tuple(found.get("capabilities", ())),
        alone=found.get("alone", False),
        keyed=found.get("keyed", False),
        cost=found.get("cost", 0),
    )
