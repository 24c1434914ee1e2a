"""Profiles: the three documents as defaults that belong together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rqueue.errors import ConfigError
from rqueue.task.attempt.retry import AUTOMECHANICA, FACTORY, REFERENCE, RetryPolicy

if TYPE_CHECKING:
    from rqueue.task.dag import SpawnRule
    from rqueue.task.forms import Form
    from rqueue.task.priority import Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A queue's defaults. The values given here are those of K4 and K5, common to all."""

    name: str
    scale: Scale = "native"
    view: Form = "native"
    retry: RetryPolicy = FACTORY
    max_attempts: int = 3
    ageing_per_minute: float = 0.1
    lease_sec: float = 30.0
    claim_ttl_sec: float = 60.0
    timeout_sec: float = 3600.0
    dedupe: Literal["content"] | None = None
    spawn_policy: SpawnRule = "own_dag"
    decision_report: bool = False
    breakers: bool = False
    poison: bool = True
    agent_events: bool = False
    embedding_jobs: bool = False


# Document A: strict order, deduplication by content, no completion without a decision report, and a
# breaker for each type.
REFERENCE_PROFILE = Profile(
    name="reference",
    scale="1-10",
    view="A",
    retry=REFERENCE,
    ageing_per_minute=0.0,
    dedupe="content",
    decision_report=True,
    breakers=True,
    poison=False,
)

# Document B, the default: its names and scale are the native ones.
FACTORY_PROFILE = Profile(name="factory")

# Document C: its four priorities in strict order, its statuses, events and embeddings.
AUTOMECHANICA_PROFILE = Profile(
    name="automechanica",
    scale="0-3",
    view="C",
    retry=AUTOMECHANICA,
    ageing_per_minute=0.0,
    spawn_policy="same_agent",
    poison=False,
    agent_events=True,
    embedding_jobs=True,
)

PROFILES = {
    profile.name: profile for profile in (REFERENCE_PROFILE, FACTORY_PROFILE, AUTOMECHANICA_PROFILE)
}
DEFAULT_PROFILE = FACTORY_PROFILE


def profile_of(name: str) -> Profile:
    """The profile with this name, or ConfigError."""
    if name not in PROFILES:
        raise ConfigError("profile", f"is one of {', '.join(PROFILES)}")
    return PROFILES[name]
