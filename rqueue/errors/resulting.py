"""There is no result to give."""

from __future__ import annotations

from rqueue.errors.keeping import ArtifactError
from rqueue.errors.root import RQueueError


class ResultError(RQueueError):
    """There is no result to give."""


class TaskDead(ResultError):
    """The task failed for good and waits for a person."""

    def __init__(self, task: str, *, reason: str, message: str) -> None:
        super().__init__(task, reason, message)
        self.task = task
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.task} is dead ({self.reason}): {self.message}"


class TaskCancelled(ResultError):
    """The task was cancelled and will have no result."""

    def __init__(self, task: str, *, reason: str) -> None:
        super().__init__(task, reason)
        self.task = task
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.task} was cancelled: {self.reason or 'no reason given'}"


class SubtaskFailed(ResultError):
    """A task that another spawned and waited for is dead, was cancelled, or has expired.

    A handler that lets it pass fails for good: it would find the same task when it runs again.
    """

    def __init__(self, task: str, *, state: str, reason: str) -> None:
        super().__init__(task, state, reason)
        self.task = task
        self.state = state
        self.reason = reason

    def __str__(self) -> str:
        return f"the spawned {self.task} is {self.state}: {self.reason or 'no reason given'}"


class DagFailed(ResultError):
    """The DAG did not complete: a task of it is dead, or it was cancelled."""

    def __init__(self, dag: str, *, status: str, reason: str = "") -> None:
        super().__init__(dag, status, reason)
        self.dag = dag
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.dag} is {self.status}{': ' * bool(self.reason)}{self.reason}"


class ResultMissing(ResultError, ArtifactError):
    """The task has completed, and the artifact that holds its result is gone or damaged."""

    def __init__(self, task: str, *, artifact: str) -> None:
        super().__init__(task, artifact)
        self.task = task
        self.artifact = artifact

    def __str__(self) -> str:
        return (
            f"the result of {self.task} is {self.artifact}, which is gone or damaged: bring it back"
            f" from a backup of the artifact store, or have it done again"
            f" (`rqueue archive restore --task {self.task}`, or another enqueue)"
        )


class ResultTimeout(ResultError, TimeoutError):
    """The task did not end within the time the caller gave; it goes on."""

    def __init__(self, task: str, *, after: float) -> None:
        super().__init__(task, after)
        self.task = task
        self.after = after

    def __str__(self) -> str:
        return f"{self.task} has not ended within {self.after:g} s; it goes on"
