"""The critical path: the tasks that most of a DAG still waits for come first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.errors import InvalidGraph
from rqueue.model.graph import missing, ordered, remaining
from rqueue.policy.priority import dependency_boost

if TYPE_CHECKING:
    from rqueue.model.graph import Edges


def ranks(parents: Edges) -> dict[str, float]:
    """The boost of each task that has not ended, in points. Parents that are not among them have
    ended. A graph that waits for itself in a circle, as broken bytes may, has none.
    """
    try:
        order = ordered(parents, known=missing(parents))
    except InvalidGraph:
        return dict.fromkeys(parents, 0.0)
    ways = remaining(parents, order)
    longest = max(ways.values(), default=0)
    return {name: dependency_boost(way, longest) for name, way in ways.items()}
