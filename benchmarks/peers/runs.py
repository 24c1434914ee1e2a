"""The order of the measurements: alternating, or concurrently while peers only wait."""

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
from benchmarks.peers.catalogue import OURS, Peer, Shape
from benchmarks.peers.environment import Skipped

if TYPE_CHECKING:
    from benchmarks.peers.measures import Recovery

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """One measurement of every peer, and the figure by which its runs are ranked."""

    name: str
    measure: Callable[[Peer], T]
    rank: Callable[[T], float]

    def medians(self, peers: Sequence[Peer], runs: int) -> dict[str, T]:
        """The median run of each peer. The peers alternate, as the load of the machine varies."""
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
    """The recovery of each: rqueue first, then the others, which are killed one after the other and
    wait concurrently.
    """
    lock = Lock()

    def recovered(peer: Peer) -> Recovery | None:
        return tried(peer.name, "kill", partial(measures.recover, shape, peer, lock))

    first = [peer for peer in peers if peer.name == OURS]
    others = [peer for peer in peers if peer.name != OURS]
    found = [(peer.name, recovered(peer)) for peer in first]
    with ThreadPoolExecutor(max(len(others), 1)) as pool:
        found += zip([peer.name for peer in others], pool.map(recovered, others), strict=True)
    return {name: recovery for name, recovery in found if recovery is not None}


def tried(name: str, what: str, measure: Callable[[], T]) -> T | None:
    """The result, or None with the reason on stderr."""
    try:
        found = measure()
    except (Skipped, subprocess.TimeoutExpired) as error:
        log(name, what, f"left out: {error}")
        return None
    log(name, what, str(found))
    return found


def log(name: str, what: str, message: str) -> None:
    print(f"{name:14} {what:9} {message}", file=sys.stderr, flush=True)
