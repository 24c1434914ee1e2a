"""Prints the tables, one for each installed server; exits 1 if a target is missed."""

from __future__ import annotations

import argparse
import shutil
import sys

import uvloop

from benchmarks import archive, core, dags, instructions, plain_tasks, startup, tests
from benchmarks.environment import RUNS, Environment, environment_of, server_of
from benchmarks.table import Row, table
from rqueue.cli.processes.loop import tune_gc

SECTIONS = ("plain", "core", "instructions", "dags", "archive", "backlog")


async def measure(kind: str, *, backlog: int, runs: int, only: str | None) -> list[Row]:
    """All rows for one server, or those of one section."""
    with server_of(kind) as server:
        env = environment_of(server)
        found = []
        for section in SECTIONS if only is None else [only]:
            found += await section_rows(section, env, runs, backlog)
        await env.queue.aclose()
        await env.client.aclose()
    return found


async def section_rows(section: str, env: Environment, runs: int, backlog: int) -> list[Row]:
    """The rows of one section."""
    match section:
        case "plain":
            return await plain_tasks.rows(env, runs)
        case "core":
            return core.rows(env, runs)
        case "instructions":
            return instructions.rows(env, runs)
        case "dags":
            return await dags.rows(env, runs)
        case "archive":
            return await archive.rows(env, runs)
        case _:
            return [await plain_tasks.backlog(env, runs, backlog)]


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
        print(table("start-up time", starts), flush=True)
        missed = not all(row.met for row in starts)
    if chosen.only in (None, "tests"):
        queues = tests.rows()
        print(table("tests of users, on the embedded Valkey of rqueue.testing", queues), flush=True)
        missed = missed or not all(row.met for row in queues)
    if chosen.only in ("startup", "tests"):
        sys.exit(missed)
    # The collector is set as in the processes of `rqueue`, for both sides.
    tune_gc()
    for kind in chosen.servers.split(","):
        if kind == "redis7" and shutil.which("redis-server") is None:
            print("redis-server is not installed: Redis 7 is not measured\n")
            continue
        work = measure(kind, backlog=chosen.backlog, runs=chosen.runs, only=chosen.only)
        found = uvloop.run(work)
        print(table(kind, found), flush=True)
        missed = missed or not all(row.met for row in found)
    sys.exit(missed)


if __name__ == "__main__":
    main()
