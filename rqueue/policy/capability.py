"""Who may run what: a lane's requirements must all be in a worker's offer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rqueue.model.lane import Lane


@dataclass(frozen=True, slots=True)
class Offer:
    """What a worker can do. No types means every type, no models any model."""

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
        """The offer of these names."""
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
