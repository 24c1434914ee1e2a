"""What was asked for is not taken; nothing was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rqueue.errors.root import RQueueError

# What a role may forbid.
Deed = Literal["create this", "change roles"]


class SubmitError(RQueueError):
    """The task was not taken; nothing was written."""


class InvalidTask(SubmitError):
    """A field of the task breaks a rule."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(field, rule)
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}"


class InvalidGraph(SubmitError):
    """The dependencies cannot be met: `path` names the tasks that show it."""

    def __init__(self, rule: str, path: Sequence[str]) -> None:
        super().__init__(rule, tuple(path))
        self.rule = rule
        self.path = tuple(path)

    def __str__(self) -> str:
        return f"{self.rule}: {' -> '.join(self.path)}"


class SpawnRefused(SubmitError):
    """A task may not add what it asks for to its DAG."""

    def __init__(self, task: str, rule: str) -> None:
        super().__init__(task, rule)
        self.task = task
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.task} may not spawn this: {self.rule}"


class Forbidden(SubmitError):
    """A principal's role does not let it create tasks, or change roles."""

    def __init__(self, principal: str, role: str, deed: Deed = "create this") -> None:
        super().__init__(principal, role, deed)
        self.principal = principal
        self.role = role
        self.deed = deed

    def __str__(self) -> str:
        refused = f"{self.principal} has the role {self.role} and may not {self.deed}"
        if self.deed == "change roles":
            return f"{refused}, its own or another's: let an orchestrator or a human do it"
        return (
            f"{refused}: it may spawn"
            " tasks, in its own name, in the DAG of the task that it runs (ctx.spawn). Let an"
            " orchestrator or a human submit it, or have them give it another role:"
            f" rqueue role set {self.principal} orchestrator"
        )


class TooManyLanes(SubmitError):
    """The shard has as many kinds of task (type, agent, capabilities, rate) as it may."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the queue has {self.limit} lanes already; use fewer different types, "
            "capability sets and ageing rates, or raise max_lanes"
        )


class Overloaded(SubmitError):
    """The server takes no new work now; what it holds goes on draining."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"no new work is taken: {self.reason}; try again when the queue has drained"
