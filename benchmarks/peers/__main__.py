"""Measures rqueue beside the peers and prints the tables as Markdown.

Each measurement has a fresh Redis 7 and runs alone; the peers take turns within a run, and of
several runs the one with the median rate (or p50) is shown. A peer that cannot be installed or
started is left out with the reason on stderr.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from benchmarks.peers import growth, measures, report, rest, server
from benchmarks.peers.findings import FULL, QUICK, Findings, Size
from benchmarks.peers.roster import OURS, PEERS, RAW, ROOT, SHAPES, Peer, Shape, install, version
from benchmarks.peers.turns import Row, recoveries, say, tried

PAGE = ROOT / "docs" / "performance.md"
LEAST = 100
T = TypeVar("T")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    parser.add_argument("--peers", default=",".join(PEERS), help="names, joined by commas")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="names, or nothing")
    parser.add_argument("--rows", default=",".join(ROWS), help="names, or nothing but the shapes")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--tasks", type=int, help="for a peer of share 1")
    parser.add_argument("--backlog", type=int, help="how long the long backlog is")
    parser.add_argument("--upgrade", action="store_true", help="install the newest releases anew")
    parser.add_argument("--write", action="store_true", help=f"also into {PAGE.name}")
    return parser.parse_args()


def size_of(options: argparse.Namespace) -> Size:
    """How much is measured: what was asked for, over what is usual."""
    given = {name: value for name in Size.__slots__ if (value := getattr(options, name))}
    size = replace(QUICK if options.quick else FULL, **given)
    if size.backlog < growth.SHORTEST_LONG:
        raise SystemExit(f"--backlog: at least {growth.SHORTEST_LONG:,}")
    return size


def chosen(names: str, known: dict[str, T]) -> list[T]:
    """The things with these names; an unknown name ends the program."""
    wanted = names.split(",") if names else []
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return [known[name] for name in wanted]


def ready(peers: list[Peer], found: Findings, *, upgrade: bool) -> list[Peer]:
    """The peers whose environments could be made."""
    able = []
    for peer in peers:
        try:
            install(peer, upgrade=upgrade)
            found.versions[peer.name] = version(peer)
            able.append(peer)
        except subprocess.CalledProcessError as error:
            say(peer.name, "install", f"left out: {error}")
    return able


def backlog(shape: Shape, tasks: int, peer: Peer) -> measures.Drained:
    return measures.drain(shape, peer, max(LEAST, int(tasks * peer.share)))


def dispatch(found: Findings, peers: Sequence[Peer]) -> None:
    row = Row("dispatch", partial(measures.dispatch, SHAPES["1x10"]), lambda found: found.p50_ms)
    found.dispatch = row.medians(peers, found.size.runs)


def kill(found: Findings, peers: Sequence[Peer]) -> None:
    found.recovery = recoveries(SHAPES["1x10"], [peer for peer in peers if peer.name != RAW])


def at_rest(found: Findings, peers: Sequence[Peer]) -> None:
    looks: dict[str, Callable[[], rest.Rest]] = {rest.IDLE: rest.idle}
    for tasks in (rest.FEW, rest.MANY):
        looks[f"one process that holds {tasks:,} tasks"] = partial(rest.held, tasks)
    for what, look in looks.items() if ours_in(peers) else ():
        if (seen := tried(OURS, "rest", look)) is not None:
            found.rest[what] = seen


def grown(found: Findings, peers: Sequence[Peer]) -> None:
    looks = (
        partial(growth.in_flight, found.size.runs),
        partial(growth.backlog, found.size.backlog),
        growth.registered,
    )
    for look in looks if ours_in(peers) else ():
        if (seen := tried(OURS, "growth", look)) is not None:
            found.growth.append(seen)


def ours_in(peers: Sequence[Peer]) -> bool:
    return any(peer.name == OURS for peer in peers)


ROWS: dict[str, Callable[[Findings, Sequence[Peer]], None]] = {
    "dispatch": dispatch,
    "kill": kill,
    "rest": at_rest,
    "growth": grown,
}


def main() -> None:
    options = arguments()
    found = Findings(server=server.version(), size=size_of(options))
    shapes, rows = chosen(options.shapes, SHAPES), chosen(options.rows, ROWS)
    peers = ready(chosen(options.peers, PEERS), found, upgrade=options.upgrade)
    for shape in shapes:
        work = partial(backlog, shape, found.size.tasks)
        row = Row(shape.name, work, lambda found: found.rate)
        found.drained[shape.name] = row.medians(peers, found.size.runs)
    for measure in rows:
        measure(found, peers)
    text = report.markdown(found)
    print(text)
    if options.write:
        report.write(PAGE, text)


if __name__ == "__main__":
    main()
