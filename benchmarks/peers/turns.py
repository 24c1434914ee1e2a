"""In which order the peers are measured: in turns, or together where they only wait."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from benchmarks.peers import measures
from benchmarks.peers.roster import OURS, Peer, Shape
from benchmarks.peers.stand import Skipped

if TYPE_CHECKING:
    from benchmarks.peers.measures import Recovery

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """One measurement that every peer takes, and what its runs are ranked by."""

    name: str
    measure: Callable[[Peer], T]
    rank: Callable[[T], float]

    def medians(self, peers: Sequence[Peer], runs: int) -> dict[str, T]:
        """The median run of each peer; the peers take turns, so that all meet the same weather."""
        found: dict[str, list[T]] = {}
        left = list(peers)
        for _ in range(runs):
            for peer in list(left):
                result = tried(peer.name, self.name, partial(self.measure, peer))
                if result is None:
                    left.remove(peer)
                else:
                    found.setdefault(peer.name, []).append(result)
        return {name: sorted(some, key=self.rank)[len(some) // 2] for name, some in found.items()}


def recoveries(shape: Shape, peers: Sequence[Peer]) -> dict[str, Recovery]:
    """What each makes of a kill: ours alone, then the others, which are killed one by one and
    wait together.
    """
    alone = Lock()

    def recovered(peer: Peer) -> Recovery | None:
        return tried(peer.name, "kill", partial(measures.recover, shape, peer, alone))

    first = [peer for peer in peers if peer.name == OURS]
    others = [peer for peer in peers if peer.name != OURS]
    found = [(peer.name, recovered(peer)) for peer in first]
    with ThreadPoolExecutor(max(len(others), 1)) as pool:
        found += zip([peer.name for peer in others], pool.map(recovered, others), strict=True)
    return {name: recovery for name, recovery in found if recovery is not None}


def tried(name: str, what: str, measure: Callable[[], T]) -> T | None:
    """What was measured, or None and the reason on stderr."""
    try:
        found = measure()
    except (Skipped, subprocess.TimeoutExpired) as error:
        say(name, what, f"left out: {error}")
        return None
    say(name, what, str(found))
    return found


def say(name: str, what: str, words: str) -> None:
    print(f"{name:14} {what:9} {words}", file=sys.stderr, flush=True)
