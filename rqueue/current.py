"""Settings that may change while a process runs: read again when rqueue.yaml has changed."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from rqueue.errors import ConfigError
from rqueue.model.breaker import NO_BREAKERS, Breakers
from rqueue.model.limit import Limit, doubled
from rqueue.model.turns import Rules, Turns
from rqueue.settings import Settings
from rqueue.sources import FILE, from_file

if TYPE_CHECKING:
    from rqueue.model.blame import PoisonRule
    from rqueue.model.profile import Profile
    from rqueue.model.retry import RetryPolicy

LOG = logging.getLogger("rqueue.settings")
# How often at most the file is looked at.
LOOK_SEC = 1.0
# The settings that may change, and how each is read.
READERS: dict[str, TypeAdapter[Any]] = {
    "breakers": TypeAdapter(Breakers),
    "limits": TypeAdapter(tuple[Limit, ...]),
    "turns": TypeAdapter(Turns),
}


class Current:
    """What a queue's settings say of failures, limits and turns, as of now. What an argument or a
    variable of the environment has decided, no file changes; a file that cannot be read changes
    nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.found: dict[str, Any] = {name: getattr(settings, name) for name in READERS}
        self.known = Rules(settings.limits, settings.turns)
        self.changed_at = stamp()
        self.looked_at = time.monotonic()
        written = self.written() or {}
        self.from_file = {name for name in READERS if written.get(name) == self.found[name]}

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
        self.look()
        breakers: Breakers = self.found["breakers"]
        return breakers

    @property
    def rules(self) -> Rules:
        """Limits and turns, as the file has them now: the same object while they are the same."""
        self.look()
        return self.known

    def look(self) -> None:
        """Reads the file, now and then, if it is another than before."""
        now = time.monotonic()
        if not self.from_file or now - self.looked_at < LOOK_SEC:
            return
        self.looked_at = now
        seen = stamp()
        if seen == self.changed_at:
            return
        self.changed_at = seen
        for name, written in (self.written() or {}).items():
            if name in self.from_file and written != self.found[name]:
                self.found[name] = written
                LOG.info("%s changed", name, extra={"queue": self.settings.name})
        rules = Rules(self.found["limits"], self.found["turns"])
        self.known = self.known if rules == self.known else rules

    def written(self) -> dict[str, Any] | None:
        """What the file says of each, and where it says nothing the profile; None where it cannot
        be read.
        """
        found: dict[str, Any] = {
            "breakers": Breakers() if self.preset.breakers else NO_BREAKERS,
            "limits": (),
            "turns": Turns(),
        }
        name = ""
        try:
            for source in reversed(from_file(Settings, self.settings.name)):
                for name in source.keys() & READERS.keys():
                    found[name] = READERS[name].validate_python(source[name])
            if doubled(found["limits"]):
                raise ConfigError("limits", "has two for the same")
        except (ConfigError, ValidationError) as error:
            told = str(error) if isinstance(error, ConfigError) else f"{name} cannot be so"
            LOG.warning("settings not changed", extra={"file": FILE, "error": told})
            return None
        return found


def stamp() -> tuple[int, int]:
    """When the file was changed last, and how large it is; nothing where there is none."""
    try:
        found = Path(FILE).stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
