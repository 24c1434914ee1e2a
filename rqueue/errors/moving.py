"""A task, a DAG or a worker is not as the caller believed; nothing was changed."""

from __future__ import annotations

from collections.abc import Iterable

from rqueue.errors.root import RQueueError


class TaskError(RQueueError):
    """The task is not as the caller believed; nothing was changed."""


class TaskNotFound(TaskError):
    """No such task, or its keys have expired."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return f"{self.task} is not here: never submitted, or ended and expired"


class WrongState(TaskError):
    """A move that the task's state forbids."""

    def __init__(self, task: str, *, found: str, wanted: Iterable[str]) -> None:
        self.task = task
        self.found = str(found)
        self.wanted = tuple(sorted(str(state) for state in wanted))
        super().__init__(task, self.found, self.wanted)

    def __str__(self) -> str:
        return f"{self.task} is {self.found}; this needs {' or '.join(self.wanted)}"


class AlreadyDecided(WrongState):
    """Another decision about a dead task came first; this one changed nothing.

    `life` is the one that was looked at. `by` and `resolution` are the other decision's; "" where
    the log has it no longer.
    """

    def __init__(
        self, task: str, *, found: str, life: int, by: str = "", resolution: str = ""
    ) -> None:
        super().__init__(task, found=found, wanted=["DEAD_LETTERED"])
        self.life = life
        self.by = by
        self.resolution = resolution

    def __str__(self) -> str:
        again = " again" if self.found in self.wanted else ""
        decided = f"decided {self.resolution}" if self.resolution else "decided"
        return (
            f"{self.task} is {self.found}{again} by now: {self.by or 'another reviewer'} {decided}"
            f" first, about its life {self.life}, the one that was looked at"
        )


class LeaseLost(TaskError):
    """The caller no longer holds the task: someone else may run it. `counted` is whether what it
    said of its cost is counted all the same.
    """

    def __init__(self, task: str, token: str, counted: bool = False) -> None:
        super().__init__(task, token, counted)
        self.task = task
        self.token = token
        self.counted = counted

    def __str__(self) -> str:
        return f"the lease of {self.task} is no longer held; stop, and write nothing for it"


class BudgetExceeded(TaskError):
    """A run costs more than it may, or than there is: its attempt has failed, and is not repeated.

    Raised by `ctx.spend`; what it was told is counted. Let it pass.
    """

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return (
            f"{self.task} costs more than its max_cost_usd, or than the budget of its DAG, its"
            " worker or the day has left; `rqueue budget list` and `rqueue task` tell which"
        )


class KeyTaken(TaskError):
    """Another live task holds this task's idempotency key."""

    def __init__(self, task: str, holder: str) -> None:
        super().__init__(task, holder)
        self.task = task
        self.holder = holder

    def __str__(self) -> str:
        return f"the idempotency key of {self.task} belongs to {self.holder} now"


class DagError(RQueueError):
    """The DAG is not as the caller believed; nothing was changed."""


class DagNotFound(DagError):
    """No such DAG, or its keys have expired."""

    def __init__(self, dag: str) -> None:
        super().__init__(dag)
        self.dag = dag

    def __str__(self) -> str:
        return f"{self.dag} is not here: never committed, or ended and expired"


class DagEnded(DagError):
    """The DAG has ended: there is nothing left to change."""

    def __init__(self, dag: str, status: str) -> None:
        super().__init__(dag, status)
        self.dag = dag
        self.status = status

    def __str__(self) -> str:
        return f"{self.dag} is {self.status} already"


class WorkerNotFound(RQueueError):
    """No worker of this name is at work; nothing was changed."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker)
        self.worker = worker

    def __str__(self) -> str:
        return f"no worker {self.worker} is at work here; `rqueue workers` lists those that are"


class OutboxNotEmpty(RQueueError):
    """What has ended still waits for the archive, which can not be left before it has it."""

    def __init__(self, waiting: int) -> None:
        super().__init__(waiting)
        self.waiting = waiting

    def __str__(self) -> str:
        return (
            f"the outbox has {self.waiting} entries that wait for the archive: let"
            " `rqueue archiver` bring them there first"
        )


class NotArchived(RQueueError):
    """A task or a DAG has ended, and the archive does not have all of that yet: `waiting` of its
    tasks are in the outbox.
    """

    def __init__(self, what: str, waiting: int) -> None:
        super().__init__(what, waiting)
        self.what = what
        self.waiting = waiting

    def __str__(self) -> str:
        said = "1 task waits" if self.waiting == 1 else f"{self.waiting} tasks wait"
        return (
            f"{self.what} is not archived yet: {said} in the outbox; let `rqueue archiver` bring"
            " that into the archive, and ask again"
        )


class EventsMissed(RQueueError):
    """Events after `after` may be gone: only so many are kept. `oldest` is the first that is still
    there; who goes on without those between asks again without `after`.
    """

    def __init__(self, after: str, oldest: str) -> None:
        super().__init__(after, oldest)
        self.after = after
        self.oldest = oldest

    def __str__(self) -> str:
        return f"events after {self.after} are gone: the oldest that is kept is {self.oldest}"
