"""How fast a worker is: what it may claim ahead of its free slots."""

from __future__ import annotations

import time

# A worker claims ahead what it will start within this time, and gives back what it did not.
AHEAD_SEC = 0.05
MOST_AHEAD = 500


class Pace:
    """Tasks finished a second, by what the last moments brought."""

    def __init__(self) -> None:
        self.finished = 0
        self.rate = 0.0
        self.lately = 0
        self.since = time.monotonic()

    def count(self, finished: int) -> None:
        """Learns that so many more have finished."""
        self.finished += finished
        self.lately += finished
        seconds = time.monotonic() - self.since
        if seconds >= AHEAD_SEC:
            self.rate = (self.rate + self.lately / seconds) / 2
            self.since, self.lately = time.monotonic(), 0

    def forget(self) -> None:
        """Begins anew: more was claimed than could be started."""
        self.rate = 0.0

    @property
    def ahead(self) -> int:
        """How many tasks will be started within a moment."""
        return min(int(self.rate * AHEAD_SEC), MOST_AHEAD)
