"""Measures rqueue and its peers, and prints the tables as Markdown.

Each measurement has a fresh Redis 7, and nothing else runs meanwhile. The peers alternate within a
run, and of several runs the one with the median rate (or p50) is shown. A peer that cannot be
installed or started is left out, with the reason on stderr.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from benchmarks.peers import growth, idle, measures, report, server
from benchmarks.peers.catalogue import OURS, PEERS, RAW, ROOT, SHAPES, Peer, Shape, install, version
from benchmarks.peers.results import FULL, QUICK, Results, Size
from benchmarks.peers.runs import Row, log, recoveries, tried

PAGE = ROOT / "docs" / "performance.md"
LEAST = 100
T = TypeVar("T")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    parser.add_argument("--peers", default=",".join(PEERS), help="names, joined by commas")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="names, or nothing")
    parser.add_argument(
        "--rows", default=",".join(ROWS), help="names, or nothing for the shapes only"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--tasks", type=int, help="for a peer of share 1")
    parser.add_argument("--backlog", type=int, help="length of the long backlog")
    parser.add_argument("--upgrade", action="store_true", help="reinstall the newest releases")
    parser.add_argument("--write", action="store_true", help=f"also into {PAGE.name}")
    return parser.parse_args()


def size_of(options: argparse.Namespace) -> Size:
    """How much is measured: the options, else the defaults."""
    given = {name: value for name in Size.__slots__ if (value := getattr(options, name))}
    size = replace(QUICK if options.quick else FULL, **given)
    if size.backlog < growth.SHORTEST_LONG:
        raise SystemExit(f"--backlog: at least {growth.SHORTEST_LONG:,}")
    return size


def chosen(names: str, known: dict[str, T]) -> list[T]:
    """The entries with these names; an unknown name ends the program."""
    wanted = names.split(",") if names else []
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return [known[name] for name in wanted]


def installed(peers: list[Peer], found: Results, *, upgrade: bool) -> list[Peer]:
    """The peers whose environments could be created."""
    usable = []
    for peer in peers:
        try:
            install(peer, upgrade=upgrade)
            found.versions[peer.name] = version(peer)
            usable.append(peer)
        except subprocess.CalledProcessError as error:
            log(peer.name, "install", f"left out: {error}")
    return usable


def drain(shape: Shape, tasks: int, peer: Peer) -> measures.Drained:
    return measures.drain(shape, peer, max(LEAST, int(tasks * peer.share)))


def dispatch(found: Results, peers: Sequence[Peer]) -> None:
    row = Row("dispatch", partial(measures.dispatch, SHAPES["1x10"]), lambda found: found.p50_ms)
    found.dispatch = row.medians(peers, found.size.runs)


def kill(found: Results, peers: Sequence[Peer]) -> None:
    found.recovery = recoveries(SHAPES["1x10"], [peer for peer in peers if peer.name != RAW])


def idle_costs(found: Results, peers: Sequence[Peer]) -> None:
    measured: dict[str, Callable[[], idle.IdleCost]] = {idle.IDLE: idle.waiting}
    for tasks in (idle.FEW, idle.MANY):
        measured[f"one process that runs {tasks:,} tasks"] = partial(idle.running, tasks)
    for what, measure in measured.items() if ours_in(peers) else ():
        if (cost := tried(OURS, "idle", measure)) is not None:
            found.idle[what] = cost


def growth_costs(found: Results, peers: Sequence[Peer]) -> None:
    measured = (
        partial(growth.in_flight, found.size.runs),
        partial(growth.backlog, found.size.backlog),
        growth.registered,
    )
    for measure in measured if ours_in(peers) else ():
        if (growth_cost := tried(OURS, "growth", measure)) is not None:
            found.growth.append(growth_cost)


def ours_in(peers: Sequence[Peer]) -> bool:
    return any(peer.name == OURS for peer in peers)


ROWS: dict[str, Callable[[Results, Sequence[Peer]], None]] = {
    "dispatch": dispatch,
    "kill": kill,
    "idle": idle_costs,
    "growth": growth_costs,
}


def main() -> None:
    options = arguments()
    found = Results(server=server.version(), size=size_of(options))
    shapes, rows = chosen(options.shapes, SHAPES), chosen(options.rows, ROWS)
    peers = installed(chosen(options.peers, PEERS), found, upgrade=options.upgrade)
    for shape in shapes:
        work = partial(drain, shape, found.size.tasks)
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
