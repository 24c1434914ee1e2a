"""The Valkey of a test process, and the thread on whose event loop all tests speak with it."""

from __future__ import annotations

import os
import threading
from heapq import heapify, heappop, heappush

from rqueue import embedded
from rqueue.errors import RQueueError
from rqueue.sync import LoopThread

# As many queues may be in tests at the same time, of one process.
DATABASES = 256


class Databases:
    """The databases of one server, which is started at the first use and ends with the process.
    Each queue has one for itself while it is tested.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets the server: a forked child has its own."""
        self.guard = threading.Lock()
        self.server = ""
        self.free = list(range(DATABASES))
        heapify(self.free)

    def take(self) -> tuple[str, int]:
        """The URL of an empty database, and its number, to be given back."""
        with self.guard:
            if not self.server:
                self.server = embedded.start_temporary(databases=DATABASES)
            if not self.free:
                raise RQueueError(f"{DATABASES} queues are in tests already")
            number = heappop(self.free)
        return f"{self.server}?db={number}", number

    def give_back(self, number: int) -> None:
        """Another queue may have the database, which is empty again."""
        with self.guard:
            heappush(self.free, number)


DATABASE = Databases()
THREAD = LoopThread("rqueue-testing")
os.register_at_fork(after_in_child=DATABASE.reset)
os.register_at_fork(after_in_child=THREAD.reset)
