"""The rules for a queue that asks its archive before a submit with a key."""

from __future__ import annotations

from rqueue.errors import ConfigError

# As long as an archiver may be behind before what has completed is known nowhere.
SHORTEST_WINDOW_SEC = 3600


def check_window(archive_known: bool, window_sec: float | None) -> None:
    """Raises ConfigError where the archive cannot be asked, or Redis may forget what has completed
    before it is there; without a window nobody asks.
    """
    if window_sec is None:
        return
    if not archive_known:
        raise ConfigError("dedupe_archive", "needs an archive and its server: set postgres_url")
    if window_sec < SHORTEST_WINDOW_SEC:
        rule = f"is at least {SHORTEST_WINDOW_SEC} with dedupe_archive"
        raise ConfigError("dedupe_window_sec", rule)
