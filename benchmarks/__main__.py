"""Prints the table for each server that is here; exits 1 where a target is missed."""

from __future__ import annotations

import argparse
import shutil
import sys

import uvloop

from benchmarks import archive, core, graphs, instructions, rows, startup, tests
from benchmarks.stand import RUNS, Row, Stand, server_of, stand_of
from rqueue.cli.processes.loop import calm

SECTIONS = ("life", "core", "instructions", "graphs", "archive", "backlog")
HEAD = ["", "ours", "raw", "unit", "ratio", "to reach", ""]


async def measure(kind: str, *, backlog: int, runs: int, only: str | None) -> list[Row]:
    """All rows for one server, or those of one section."""
    with server_of(kind) as server:
        stand = stand_of(server)
        found = []
        for section in SECTIONS if only is None else [only]:
            found += await section_rows(section, stand, runs, backlog)
        await stand.queue.aclose()
        await stand.client.aclose()
    return found


async def section_rows(section: str, stand: Stand, runs: int, backlog: int) -> list[Row]:
    """The rows of one section."""
    match section:
        case "life":
            return await rows.all_rows(stand, runs)
        case "core":
            return core.rows(stand, runs)
        case "instructions":
            return instructions.rows(stand, runs)
        case "graphs":
            return await graphs.rows(stand, runs)
        case "archive":
            return await archive.rows(stand, runs)
        case _:
            return [await rows.backlog(stand, runs, backlog)]


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
    parser.add_argument(
        "--only", choices=("startup", "tests", *SECTIONS), help="print the rows of one section"
    )
    chosen = parser.parse_args()
    missed = False
    if chosen.only in (None, "startup"):
        starts = startup.rows(chosen.runs)
        print(table("start-up", starts), flush=True)
        missed = not all(row.reached for row in starts)
    if chosen.only in (None, "tests"):
        queues = tests.rows()
        print(table("users' tests, on a Valkey of their own", queues), flush=True)
        missed = missed or not all(row.reached for row in queues)
    if chosen.only in ("startup", "tests"):
        sys.exit(missed)
    # As in the processes of `rqueue`; raw commands have the same.
    calm()
    for kind in chosen.servers.split(","):
        if kind == "redis7" and shutil.which("redis-server") is None:
            print("redis-server is not installed: Redis 7 is not measured\n")
            continue
        work = measure(kind, backlog=chosen.backlog, runs=chosen.runs, only=chosen.only)
        found = uvloop.run(work)
        print(table(kind, found), flush=True)
        missed = missed or not all(row.reached for row in found)
    sys.exit(missed)


if __name__ == "__main__":
    main()
