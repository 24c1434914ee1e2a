"""Measures rqueue beside the peers and prints the tables as Markdown.

Each measurement has a fresh Redis 7 and runs alone; the peers take turns within a run, and of
several runs the one with the median rate (or p50) is shown. A peer that cannot be installed or
started is left out with the reason on stderr.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from benchmarks.peers import measures, report, server
from benchmarks.peers.roster import PEERS, RAW, ROOT, SHAPES, Peer, Shape, install, version
from benchmarks.peers.stand import Skipped

PAGE = ROOT / "docs" / "performance.md"
LEAST = 100
T = TypeVar("T")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    parser.add_argument("--peers", default=",".join(PEERS), help="names, joined by commas")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="names, or nothing")
    parser.add_argument("--tasks", type=int, default=10_000, help="for a peer of share 1")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-dispatch", action="store_true", help="leave the latency out")
    parser.add_argument("--kill", action="store_true", help="also kill workers with -9 at work")
    parser.add_argument("--upgrade", action="store_true", help="install the newest releases anew")
    parser.add_argument("--write", action="store_true", help=f"also into {PAGE.name}")
    return parser.parse_args()


def chosen(names: str, known: dict[str, T]) -> list[T]:
    """The things with these names; an unknown name ends the program."""
    wanted = names.split(",") if names else []
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return [known[name] for name in wanted]


def ready(peers: list[Peer], found: report.Findings, *, upgrade: bool) -> list[Peer]:
    """The peers whose environments could be made."""
    able = []
    for peer in peers:
        try:
            install(peer, upgrade=upgrade)
            found.versions[peer.name] = version(peer)
            able.append(peer)
        except subprocess.CalledProcessError as error:
            say(peer, "install", f"left out: {error}")
    return able


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """One measurement that every peer takes, and what its runs are ranked by."""

    name: str
    measure: Callable[[Peer], T]
    rank: Callable[[T], float]

    def medians(self, peers: list[Peer], runs: int) -> dict[str, T]:
        """The median run of each peer; the peers take turns, so that all meet the same weather."""
        found: dict[str, list[T]] = {}
        left = list(peers)
        for _ in range(runs):
            for peer in list(left):
                try:
                    result = self.measure(peer)
                except (Skipped, subprocess.TimeoutExpired) as error:
                    say(peer, self.name, f"left out: {error}")
                    left.remove(peer)
                else:
                    found.setdefault(peer.name, []).append(result)
                    say(peer, self.name, str(result))
        return {name: sorted(some, key=self.rank)[len(some) // 2] for name, some in found.items()}


def backlog(shape: Shape, tasks: int, peer: Peer) -> measures.Drained:
    return measures.drain(shape, peer, max(LEAST, int(tasks * peer.share)))


def say(peer: Peer, what: str, words: str) -> None:
    print(f"{peer.name:14} {what:9} {words}", file=sys.stderr, flush=True)


def main() -> None:
    options = arguments()
    found = report.Findings(server=server.version())
    shapes = chosen(options.shapes, SHAPES)
    peers = ready(chosen(options.peers, PEERS), found, upgrade=options.upgrade)
    for shape in shapes:
        row = Row(shape.name, partial(backlog, shape, options.tasks), lambda found: found.rate)
        found.drained[shape.name] = row.medians(peers, options.runs)
    if not options.no_dispatch:
        ten = partial(measures.dispatch, SHAPES["1x10"])
        found.dispatch = Row("dispatch", ten, lambda found: found.p50_ms).medians(
            peers, options.runs
        )
    if options.kill:
        queues = [peer for peer in peers if peer.name != RAW]
        ten_killed = partial(measures.recover, SHAPES["1x10"])
        found.recovery = Row("kill", ten_killed, lambda found: found.seconds).medians(queues, 1)
    text = report.markdown(found)
    print(text)
    if options.write:
        report.write(PAGE, text)


if __name__ == "__main__":
    main()
