"""The time that a test with `rqueue.testing` waits for its queue."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from benchmarks.table import Row
from rqueue import Queue
from rqueue.testing import memory

MS = 50
STARTS = 20


def rows() -> list[Row]:
    """The start of the second and later queues of a process; the first also starts the server."""
    queue = Queue("tests", url="redis://nowhere.invalid")
    start_ms(queue)
    each = median(start_ms(queue) for _ in range(STARTS))
    return [Row("start of a queue in a test", "ms", each, None, f"<= {MS}", each / MS, each <= MS)]


def start_ms(queue: Queue) -> float:
    """The milliseconds until the queue of a test has answered its first call."""
    began = perf_counter()
    with memory(queue):
        queue.sync.counts()
        return (perf_counter() - began) * 1000
