"""arq: a poll every millisecond instead of 500, because polls limit its rate and its latency.

uvloop, logs from WARNING on; results are kept, as they are by default. Two processes are two
workers.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
from typing import Any

from arq import create_pool, func
from arq.connections import RedisSettings

from benchmarks.peers import counters
from benchmarks.peers.app import SLOTS, URL, chunks, program, use_uvloop

POLL_SEC = 0.001
AT_ONCE = 20
QUIET = {"version": 1, "root": {"level": "WARNING"}}

use_uvloop()


async def noop(ctx: Any, number: int) -> None:
    counters.noop(number)


async def stamp(ctx: Any, number: int) -> None:
    counters.stamp(number)


async def nap(ctx: Any, number: int) -> None:
    await counters.nap_async(number)


class WorkerSettings:
    """The settings that the arq command reads."""

    functions = [func(noop, name="noop"), func(stamp, name="stamp"), func(nap, name="nap")]  # noqa: RUF012 - arq's form
    redis_settings = RedisSettings.from_dsn(URL)
    max_jobs = SLOTS
    poll_delay = POLL_SEC


class Pool:
    """The producer's connections, made at the first call."""

    redis: Any = None


async def pool() -> Any:
    if Pool.redis is None:
        Pool.redis = await create_pool(WorkerSettings.redis_settings)
    return Pool.redis


def workers(slots: int, processes: int) -> list[list[str]]:
    home = "benchmarks.peers.arq_app"
    quiet = ["--custom-log-dict", f"{home}.QUIET"]
    return [program("arq", f"{home}.WorkerSettings", *quiet)] * processes


async def send_all(kind: str, numbers: list[int]) -> None:
    redis = await pool()
    for some in chunks(numbers, AT_ONCE):
        await asyncio.gather(*(redis.enqueue_job(kind, number) for number in some))


async def send_one(kind: str, number: int) -> None:
    await (await pool()).enqueue_job(kind, number)
