"""Every error rqueue raises. Fields carry the facts; the text is made from them.

RQueueError
├── SubmitError            the task was not accepted
│   ├── InvalidTask        a field breaks a rule            .field .rule
│   ├── InvalidGraph       cycle, self-edge, unknown parent .path
│   ├── SpawnRefused       a task may not spawn this        .task .rule
│   ├── Forbidden          a role that may not do this      .principal .role .deed
│   ├── TooManyLanes       too many kinds of task           .limit
│   └── Overloaded         the queue accepts no new tasks   .reason
├── TaskError              the task is not as the caller believed
│   ├── TaskNotFound                                        .task
│   ├── WrongState         a move its state forbids         .task .found .wanted
│   │   └── AlreadyDecided another reviewer was first       .life .by .resolution
│   ├── LeaseLost          another worker may run it        .task .token .counted
│   ├── BudgetExceeded     the run costs more than it may   .task
│   └── KeyTaken           another live task has its key    .task .holder
├── DagError               the DAG is not as the caller believed
│   ├── DagNotFound                                         .dag
│   └── DagEnded           there is nothing left to change  .dag .status
├── WorkerNotFound         no such worker is at work        .worker
├── EventsMissed           some are gone after this one     .after .oldest
├── OutboxNotEmpty         ended tasks wait for the archive .waiting
├── NotArchived            it waits in the outbox           .what .waiting
├── ResultError            there is no result to give
│   ├── TaskDead           it is dead                       .task .reason .message
│   ├── TaskCancelled                                       .task .reason
│   ├── SubtaskFailed      a spawned task did not complete  .task .state .reason
│   ├── DagFailed          it did not complete              .dag .status
│   ├── ResultMissing      an ArtifactError, too            .task .artifact
│   └── ResultTimeout      it has not ended yet             .task .after
├── ArtifactError          an artifact cannot be kept, or is not as it was
│   ├── ArtifactRefused    no artifact, or no reference     .field .rule
│   ├── ArtifactNotFound                                    .artifact
│   ├── ArtifactDamaged    not what was put                 .artifact .rule
│   └── ArtifactsUnavailable   a StoreUnavailable, too      .what
├── StoreError             Redis or Postgres
│   ├── StoreUnavailable   worth retrying                   .what
│   ├── FunctionsMissing   run `rqueue functions load`      .library .reason
│   └── ScriptFault        a bug of rqueue                  .script .reply
├── ConfigError            a setting is missing or wrong    .setting .rule
└── HandlerSignal          raised by handlers, not by rqueue
    ├── Retry              retry, perhaps after a delay     .after .reason
    ├── RateLimited        park it and slow down its type   .retry_after .reason
    └── Reject             do not retry: dead               .reason
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Literal, SupportsFloat


class RQueueError(Exception):
    """The root of all errors that rqueue raises."""

    def __reduce__(self) -> tuple[object, ...]:
        # By its attributes: an error with keyword arguments cannot be made again from its args.
        return remade, (type(self), self.args, self.__dict__)


def remade(kind: type[RQueueError], args: tuple[object, ...], facts: dict[str, object]) -> object:
    """Makes a pickled error again."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class StoreError(RQueueError):
    """An error of Redis or Postgres."""


class StoreUnavailable(StoreError):
    """The server could not be reached or did not answer in time. Worth retrying.

    The call may have been carried out.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the server did not answer: {self.what}"


class ScriptFault(StoreError):
    """A move returned a reply that its caller cannot read: a bug of rqueue, please report it."""

    def __init__(self, script: str, reply: object) -> None:
        super().__init__(script, reply)
        self.script = script
        self.reply = reply

    def __str__(self) -> str:
        return f"script {self.script} answered {self.reply!r}; please report this"


class FunctionsMissing(StoreError):
    """The server does not have this release's Lua functions, and this user may not load them."""

    def __init__(self, library: str, reason: str) -> None:
        super().__init__(library, reason)
        self.library = library
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the server does not have the functions {self.library}, and {self.reason}:"
            " run `rqueue functions load` as a user with FUNCTION LOAD"
        )


class ConfigError(RQueueError):
    """A setting is missing or wrong."""

    def __init__(self, setting: str, rule: str) -> None:
        super().__init__(setting, rule)
        self.setting = setting
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.setting}: {self.rule}"


class ArtifactError(RQueueError):
    """An artifact cannot be stored, or is not as it was stored."""


class ArtifactRefused(ArtifactError):
    """A value is no artifact that may be stored, or no reference to one."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(field, rule)
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}"


class ArtifactNotFound(ArtifactError):
    """No such artifact: never put, put elsewhere, or swept."""

    def __init__(self, artifact: str) -> None:
        super().__init__(artifact)
        self.artifact = artifact

    def __str__(self) -> str:
        return f"{self.artifact} is not here: never put, put into another store, or swept"


class ArtifactDamaged(ArtifactError):
    """The stored bytes of an artifact are not what was put."""

    def __init__(self, artifact: str, rule: str) -> None:
        super().__init__(artifact, rule)
        self.artifact = artifact
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.artifact} {self.rule}"


class ArtifactsUnavailable(ArtifactError, StoreUnavailable):
    """The directory or the object store failed. Worth retrying."""

    def __str__(self) -> str:
        return f"the artifact store cannot be used: {self.what}"


# Operations that a role may forbid.
Deed = Literal["create this", "change roles"]


class SubmitError(RQueueError):
    """The task was not accepted; nothing was written."""


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
    """A task may not add these tasks to its DAG."""

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
    """The shard has the maximum number of lanes (type, agent, capabilities, rate)."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the queue has {self.limit} lanes already; use fewer different types, "
            "capability sets and ageing rates, or raise max_lanes"
        )


class Overloaded(SubmitError):
    """The queue accepts no new tasks now; existing ones go on."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"no new tasks are accepted: {self.reason}; try again when the queue has drained"


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
    """The task's state does not allow the operation."""

    def __init__(self, task: str, *, found: str, wanted: Iterable[str]) -> None:
        self.task = task
        self.found = str(found)
        self.wanted = tuple(sorted(str(state) for state in wanted))
        super().__init__(task, self.found, self.wanted)

    def __str__(self) -> str:
        return f"{self.task} is {self.found}; this needs {' or '.join(self.wanted)}"


class AlreadyDecided(WrongState):
    """Another decision about a dead task came first; this one changed nothing.

    `life` is the life that was reviewed. `by` and `resolution` are the other decision's; "" where
    it is not in the log any more.
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
            f"{self.task} is now {self.found}{again}: {self.by or 'another reviewer'} {decided}"
            f" first (life {self.life})"
        )


class LeaseLost(TaskError):
    """The caller no longer holds the task: another worker may run it. `counted` is whether the cost
    that it reported is counted all the same.
    """

    def __init__(self, task: str, token: str, counted: bool = False) -> None:
        super().__init__(task, token, counted)
        self.task = task
        self.token = token
        self.counted = counted

    def __str__(self) -> str:
        return f"the lease of {self.task} is no longer held; stop, and write nothing for it"


class BudgetExceeded(TaskError):
    """A run costs more than it may, or than the budget has left: its attempt has failed and is not
    retried.

    Raised by `ctx.spend`; the reported cost is counted. Handlers should not catch it.
    """

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return (
            f"{self.task} costs more than its max_cost_usd, or than the budget of its DAG, its"
            " worker or the day has left; see `rqueue budget list` and `rqueue task`"
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
    """No worker of this name is running; nothing was changed."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker)
        self.worker = worker

    def __str__(self) -> str:
        return f"no worker {self.worker} is running; `rqueue workers` lists those that are"


class OutboxNotEmpty(RQueueError):
    """Ended tasks still wait for the archive, so the queue cannot leave it."""

    def __init__(self, waiting: int) -> None:
        super().__init__(waiting)
        self.waiting = waiting

    def __str__(self) -> str:
        return (
            f"the outbox has {self.waiting} entries that wait for the archive: let"
            " `rqueue archiver` archive them first"
        )


class NotArchived(RQueueError):
    """A task or a DAG has ended and is not fully archived yet: `waiting` of its tasks
    are in the outbox.
    """

    def __init__(self, what: str, waiting: int) -> None:
        super().__init__(what, waiting)
        self.what = what
        self.waiting = waiting

    def __str__(self) -> str:
        waiting = "1 task waits" if self.waiting == 1 else f"{self.waiting} tasks wait"
        return (
            f"{self.what} is not archived yet: {waiting} in the outbox; try again when"
            " `rqueue archiver` has archived them"
        )


class EventsMissed(RQueueError):
    """Events after `after` may be gone: only so many are stored. `oldest` is the first that exists;
    to go on from there, call again without `after`.
    """

    def __init__(self, after: str, oldest: str) -> None:
        super().__init__(after, oldest)
        self.after = after
        self.oldest = oldest

    def __str__(self) -> str:
        return f"events after {self.after} are gone: the oldest that is kept is {self.oldest}"


class ResultError(RQueueError):
    """There is no result."""


class TaskDead(ResultError):
    """The task is dead and waits for a review."""

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
    """A task that another spawned and waited for is dead, cancelled, or expired.

    A handler that does not catch it makes its task dead: another attempt would find the same.
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
            f"the result of {self.task} is {self.artifact}, which is gone or damaged: restore it"
            f" from a backup of the artifact store, or run the task again"
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


class HandlerSignal(RQueueError):
    """Raised by a handler to decide how its attempt ends."""


class Retry(HandlerSignal):
    """Retries the task after the policy's delay, or after `after`: seconds or a timedelta.

    A value that is neither, or a reason that is no text, raises ConfigError, which fails the
    attempt.
    """

    def __init__(
        self, after: float | timedelta | None = None, reason: str = "asked for by the handler"
    ) -> None:
        self.after = None if after is None else seconds_in(after)
        self.reason = text_in("Retry.reason", reason)
        super().__init__(self.after, reason)

    def __str__(self) -> str:
        return self.reason


class RateLimited(HandlerSignal):
    """The service that a handler calls is rate limited: the task is parked, no attempt is spent,
    and its type is slowed down. `retry_after` is the service's delay, in seconds or as a timedelta;
    without it, the delay grows from a minute on.

    A value that is neither, or a reason that is no text, raises ConfigError, which fails the
    attempt.
    """

    def __init__(
        self, retry_after: float | timedelta | None = None, reason: str = "rate limit"
    ) -> None:
        given = "RateLimited.retry_after"
        self.retry_after = None if retry_after is None else seconds_in(retry_after, given)
        self.reason = text_in("RateLimited.reason", reason)
        super().__init__(self.retry_after, reason)

    def __str__(self) -> str:
        return self.reason


class Reject(HandlerSignal):
    """Does not retry the task: it goes to the dead letters.

    A reason that is no text raises ConfigError, which fails the attempt.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = text_in("Reject.reason", reason)

    def __str__(self) -> str:
        return self.reason


def seconds_in(after: object, name: str = "Retry.after") -> float:
    """A delay in seconds."""
    given = after.total_seconds() if isinstance(after, timedelta) else after
    try:
        seconds = float(given) if isinstance(given, SupportsFloat) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ConfigError(name, f"is seconds from 0 on or a timedelta, not {after!r:.100}")
    return seconds


__all__ = [
    "AlreadyDecided",
    "ArtifactDamaged",
    "ArtifactError",
    "ArtifactNotFound",
    "ArtifactRefused",
    "ArtifactsUnavailable",
    "BudgetExceeded",
    "ConfigError",
    "DagEnded",
    "DagError",
    "DagFailed",
    "DagNotFound",
    "EventsMissed",
    "Forbidden",
    "FunctionsMissing",
    "HandlerSignal",
    "InvalidGraph",
    "InvalidTask",
    "KeyTaken",
    "LeaseLost",
    "NotArchived",
    "OutboxNotEmpty",
    "Overloaded",
    "RQueueError",
    "RateLimited",
    "Reject",
    "ResultError",
    "ResultMissing",
    "ResultTimeout",
    "Retry",
    "ScriptFault",
    "SpawnRefused",
    "StoreError",
    "StoreUnavailable",
    "SubmitError",
    "SubtaskFailed",
    "TaskCancelled",
    "TaskDead",
    "TaskError",
    "TaskNotFound",
    "TooManyLanes",
    "WorkerNotFound",
    "WrongState",
]

# Logs and tracebacks show the name by which they are imported.
for _name in __all__:
    globals()[_name].__module__ = __name__


def text_in(name: str, given: object) -> str:
    """The reason that a handler gave, if it is a text."""
    if not isinstance(given, str):
        raise ConfigError(name, f"is a text, not {type(given).__name__}")
    return given
