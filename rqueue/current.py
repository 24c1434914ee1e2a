"""Settings that may change while a process runs: read again when rqueue.yaml has changed."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from rqueue.errors import ConfigError
from rqueue.model.breaker import NO_BREAKERS, Breakers
from rqueue.settings import Settings
from rqueue.sources import FILE, from_file

if TYPE_CHECKING:
    from rqueue.model.blame import PoisonRule
    from rqueue.model.profile import Profile
    from rqueue.model.retry import RetryPolicy

LOG = logging.getLogger("rqueue.settings")
# How often at most the file is looked at.
LOOK_SEC = 1.0


class Current:
    """What a queue's settings say about failures, as of now. What an argument or a variable of the
    environment has decided, no file changes; a file that cannot be read changes nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.found = settings.breakers
        self.changed_at = stamp()
        self.looked_at = time.monotonic()
        self.from_file = self.written() == settings.breakers

    @property
    def retry(self) -> RetryPolicy | None:
        """The queue's own policy."""
        return self.settings.retry

    @property
    def preset(self) -> Profile:
        """The queue's profile."""
        return self.settings.preset

    @property
    def lost_worker_counts(self) -> bool:
        """Whether a lost worker spends an attempt."""
        return self.settings.lost_worker_counts

    @property
    def max_reclaims(self) -> int:
        """How often a task may lose its worker."""
        return self.settings.max_reclaims

    @property
    def poison(self) -> PoisonRule:
        """When a task is a poison pill."""
        return self.settings.poison

    @property
    def breakers(self) -> Breakers:
        """The rules of the breakers, as the file has them now."""
        now = time.monotonic()
        if self.from_file and now - self.looked_at >= LOOK_SEC:
            self.looked_at = now
            self.look()
        return self.found

    def look(self) -> None:
        """Reads the file, if it is another than before."""
        seen = stamp()
        if seen == self.changed_at:
            return
        self.changed_at = seen
        written = self.written()
        if written is not None and written != self.found:
            self.found = written
            LOG.info("breakers changed", extra={"queue": self.settings.name})

    def written(self) -> Breakers | None:
        """What the file says of breakers, and where it says nothing the profile; None where it
        cannot be read.
        """
        try:
            for source in from_file(Settings, self.settings.name):
                if "breakers" in source:
                    return Breakers.model_validate(source["breakers"])
        except (ConfigError, ValidationError) as error:
            told = (
                str(error) if isinstance(error, ConfigError) else "breakers are not as they can be"
            )
            LOG.warning("settings not changed", extra={"file": FILE, "error": told})
            return None
        return Breakers() if self.preset.breakers else NO_BREAKERS


def stamp() -> tuple[int, int]:
    """When the file was changed last, and how large it is; nothing where there is none."""
    try:
        found = Path(FILE).stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
