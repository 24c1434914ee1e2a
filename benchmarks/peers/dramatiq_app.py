"""dramatiq: threads, a prefetch of 200, the default middleware.

Results are off, as they are by default. It has no bulk enqueue: messages are sent in a loop.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers import counters
from benchmarks.peers.app import URL, program

PREFETCH = 200

broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)
TASKS = {
    "noop": dramatiq.actor(counters.noop, actor_name="noop", queue_name="bench"),
    "stamp": dramatiq.actor(counters.stamp, actor_name="stamp", queue_name="bench"),
    "nap": dramatiq.actor(counters.nap, actor_name="nap", queue_name="bench"),
}


def workers(slots: int, processes: int) -> list[list[str]]:
    shape = ["--threads", str(slots), "--processes", str(processes)]
    start = program("dramatiq", "benchmarks.peers.dramatiq_app:broker", *shape)
    return [["env", f"dramatiq_queue_prefetch={PREFETCH}", *start]]


async def send_all(kind: str, numbers: list[int]) -> None:
    for number in numbers:
        TASKS[kind].send(number)


async def send_one(kind: str, number: int) -> None:
    TASKS[kind].send(number)
