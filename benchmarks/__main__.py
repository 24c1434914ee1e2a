"""Prints the table for each server that is here; exits 1 where a target is missed."""

from __future__ import annotations

import argparse
import shutil
import sys

import uvloop

from benchmarks import archive, core, graphs, rows
from benchmarks.stand import RUNS, Row, server_of, stand_of
from rqueue.cli.engine import calm

HEAD = ["", "ours", "raw", "unit", "ratio", "to reach", ""]


async def measure(kind: str, *, backlog: int, runs: int) -> list[Row]:
    """All rows for one server."""
    with server_of(kind) as server:
        stand = stand_of(server)
        found = [
            await rows.bulk(stand, runs),
            await rows.life(stand, runs),
            await rows.memory(stand),
            await rows.single(stand, runs),
            *(await rows.lanes(stand, runs)),
            *core.rows(stand, runs),
            *(await graphs.rows(stand, runs)),
            *(await archive.rows(stand, runs)),
            await rows.backlog(stand, runs, backlog),
        ]
        await stand.queue.aclose()
        await stand.client.aclose()
    return found


def table(kind: str, found: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in found)]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"### {kind}\n\n{body}\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("--servers", default="valkey,redis7")
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=RUNS)
    chosen = parser.parse_args()
    missed = False
    # As in the processes of `rqueue`; raw commands have the same.
    calm()
    for kind in chosen.servers.split(","):
        if kind == "redis7" and shutil.which("redis-server") is None:
            print("redis-server is not installed: Redis 7 is not measured\n")
            continue
        found = uvloop.run(measure(kind, backlog=chosen.backlog, runs=chosen.runs))
        print(table(kind, found), flush=True)
        missed = missed or not all(row.reached for row in found)
    sys.exit(missed)


if __name__ == "__main__":
    main()
