"""Roles: what a principal may do to a queue."""

from __future__ import annotations

from typing import Literal

# An orchestrator or a human creates any task; an agent what it spawns in the DAG of its own.
Role = Literal["orchestrator", "human", "agent"]
ROLES: tuple[Role, ...] = ("orchestrator", "human", "agent")
# Those who may create any task, in the name of anybody.
CREATORS: tuple[Role, ...] = ("orchestrator", "human")
# Who the scheduler is to the queue when it submits what came by the inbox.
INBOX = "service:inbox"
