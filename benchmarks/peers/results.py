"""The results of one run, and the size of the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.peers.growth import Growth
    from benchmarks.peers.idle import IdleCost
    from benchmarks.peers.measures import Dispatch, Drained, Recovery


@dataclass(frozen=True, slots=True)
class Size:
    """The runs of each measurement, tasks of a peer with share 1, tasks of the long backlog."""

    runs: int
    tasks: int
    backlog: int


FULL = Size(runs=3, tasks=8_000, backlog=1_000_000)
QUICK = Size(runs=1, tasks=3_000, backlog=200_000)


@dataclass(slots=True)
class Results:
    """Results by shape, by peer, or by what was measured; empty where nothing was measured."""

    server: str = "7"
    size: Size = FULL
    versions: dict[str, str] = field(default_factory=dict)
    drained: dict[str, dict[str, Drained]] = field(default_factory=dict)
    dispatch: dict[str, Dispatch] = field(default_factory=dict)
    recovery: dict[str, Recovery] = field(default_factory=dict)
    idle: dict[str, IdleCost] = field(default_factory=dict)
    growth: list[Growth] = field(default_factory=list)
