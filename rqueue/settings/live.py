"""Settings that may change while a process runs: rqueue.yaml is read again when it has changed."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rqueue.errors import ConfigError
from rqueue.settings.load import FILE, Settings, from_file
from rqueue.task.attempt.breaker import NO_BREAKERS, Breakers
from rqueue.task.limits import Limit, Rules, Turns, has_duplicates

if TYPE_CHECKING:
    from rqueue.settings.profiles import Profile
    from rqueue.task.attempt.blame import PoisonRule
    from rqueue.task.attempt.retry import RetryPolicy

LOG = logging.getLogger("rqueue.settings")
# Minimum interval between checks of the file.
CHECK_SEC = 1.0
# The settings that may change, and their validators.
DEFERRED = ConfigDict(defer_build=True)
READERS: dict[str, TypeAdapter[Any]] = {
    "breakers": TypeAdapter(Breakers),
    "limits": TypeAdapter(tuple[Limit, ...], config=DEFERRED),
    "turns": TypeAdapter(Turns),
}


class LiveSettings:
    """A queue's current settings of failures, limits and turns. The file does not override an
    argument or an environment variable; a file that cannot be read changes nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.found: dict[str, Any] = {name: getattr(settings, name) for name in READERS}
        self.current_rules = Rules(settings.limits, settings.turns)
        self.changed_at = stamp()
        self.checked_at = time.monotonic()
        written = self.written() or {}
        self.from_file = {name for name in READERS if written.get(name) == self.found[name]}

    @property
    def retry(self) -> RetryPolicy | None:
        """The queue's retry policy."""
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
        """The current rules of the breakers."""
        self.reload_if_changed()
        breakers: Breakers = self.found["breakers"]
        return breakers

    @property
    def rules(self) -> Rules:
        """The current limits and turns; the same object while they are equal."""
        self.reload_if_changed()
        return self.current_rules

    def reload_if_changed(self) -> None:
        """Reads the file again if it has changed, at most once per CHECK_SEC."""
        now = time.monotonic()
        if not self.from_file or now - self.checked_at < CHECK_SEC:
            return
        self.checked_at = now
        seen = stamp()
        if seen == self.changed_at:
            return
        self.changed_at = seen
        for name, written in (self.written() or {}).items():
            if name in self.from_file and written != self.found[name]:
                self.found[name] = written
                LOG.info("%s changed", name, extra={"queue": self.settings.name})
        rules = Rules(self.found["limits"], self.found["turns"])
        self.current_rules = self.current_rules if rules == self.current_rules else rules

    def written(self) -> dict[str, Any] | None:
        """The file's values, with the profile's as defaults; None where it cannot be read."""
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
            if has_duplicates(found["limits"]):
                raise ConfigError("limits", "has two for the same")
        except (ConfigError, ValidationError) as error:
            reason = str(error) if isinstance(error, ConfigError) else f"{name} is invalid"
            LOG.warning("settings not changed", extra={"file": FILE, "error": reason})
            return None
        return found


def stamp() -> tuple[int, int]:
    """Modification time and size of the file; zeros where there is none."""
    try:
        found = Path(FILE).stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
