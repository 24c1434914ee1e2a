"""What an embedding worker takes up: a completed task that is to be found again by its meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.model.ids import TaskId


@dataclass(frozen=True, slots=True)
class Embedding:
    """One claim of a completed task that is to be embedded, with the token that ends it. `payload`
    and `output` are as the task had them, None where PostgreSQL cannot hold them as JSON.
    """

    id: int
    task: TaskId
    life: int
    token: str
    attempts: int
    claimed_until: datetime
    type: str
    agent: str | None = None
    title: str | None = None
    payload: Any = None
    output: Any = None
    tags: tuple[str, ...] = ()
