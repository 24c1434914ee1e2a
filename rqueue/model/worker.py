"""A worker as it is registered: what it offers, how much it takes at once, and how it is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Self

from pydantic import TypeAdapter


class WorkerStatus(StrEnum):
    """Takes work, takes none any more, or is gone."""

    ACTIVE = "active"
    DRAINING = "draining"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Registration:
    """What a worker says of itself. `types` is None where it serves every type; `worked` is how
    many tasks of a type it has completed and failed lately, `blames` who has failed tasks that it
    then completed, and how many.
    """

    types: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    models_available: tuple[str, ...] = ()
    max_concurrent_tasks: int = 1
    poll_interval_sec: float = 0.0
    claim_ttl_sec: float = 0.0
    draining: bool = False
    worked: dict[str, tuple[int, int]] = field(default_factory=dict)
    blames: dict[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """The registration as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The registration of a text; None where it cannot be read. What only a newer release
        says is passed over.
        """
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValueError:
            return None
