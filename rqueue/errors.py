"""Every error that rqueue raises. Fields carry the facts; the message is built from them.

RQueueError
├── SubmitError            the task was not accepted
│   ├── InvalidTask        a field breaks a rule            .field .rule
│   ├── InvalidGraph       cycle or missing dependency      .rule .path
│   ├── SpawnRefused       the task may not spawn these     .task .rule
│   ├── Forbidden          the role does not allow it       .principal .role .deed
│   ├── TooManyLanes       the queue has too many lanes     .limit
│   └── Overloaded         the queue accepts no new tasks   .reason
├── TaskError              the call does not fit the task; nothing was changed
│   ├── TaskNotFound       no such task, or it has expired  .task
│   ├── WrongState         its state forbids the operation  .task .found .wanted
│   │   └── AlreadyDecided another review came first        .life .by .resolution
│   ├── LeaseLost          the lease is no longer held      .task .token .counted
│   ├── BudgetExceeded     the attempt costs too much       .task
│   └── KeyTaken           its idempotency key is in use    .task .holder
├── DagError               the call does not fit the DAG; nothing was changed
│   ├── DagNotFound        no such DAG, or it has expired   .dag
│   └── DagEnded           the DAG has ended                .dag .status
├── WorkerNotFound         no running worker has this name  .worker
├── EventsMissed           events were trimmed unread       .after .oldest
├── OutboxNotEmpty         ended tasks wait for the archive .waiting
├── NotArchived            its tasks are in the outbox      .what .waiting
├── ResultError            there is no result
│   ├── TaskDead           the task is dead                 .task .reason .message
│   ├── TaskCancelled      the task was cancelled           .task .reason
│   ├── SubtaskFailed      a spawned task did not complete  .task .state .reason
│   ├── DagFailed          the DAG did not complete         .dag .status .reason
│   ├── ResultMissing      also an ArtifactError            .task .artifact
│   └── ResultTimeout      the task has not ended in time   .task .after
├── ArtifactError          an artifact cannot be stored or read
│   ├── ArtifactRefused    not a valid artifact, reference  .field .rule
│   ├── ArtifactNotFound   no such artifact in this store   .artifact
│   ├── ArtifactDamaged    its bytes have changed           .artifact .rule
│   └── ArtifactsUnavailable   also a StoreUnavailable      .what
├── StoreError             an error of Redis or PostgreSQL
│   ├── StoreUnavailable   worth retrying                   .what
│   ├── FunctionsMissing   run `rqueue functions load`      .library .reason
│   └── ScriptFault        a bug in rqueue                  .script .reply
├── ConfigError            a setting is missing or wrong    .setting .rule
└── HandlerSignal          raised by handlers, not by rqueue
    ├── Retry              retry, perhaps after a delay     .after .reason
    ├── RateLimited        park the task, slow its type     .retry_after .reason
    └── Reject             do not retry: the task is dead   .reason
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Literal, SupportsFloat


class RQueueError(Exception):
    """The base class of all errors that rqueue raises. Can be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        # An error with keyword arguments cannot be rebuilt from its args alone.
        return remade, (type(self), self.args, self.__dict__)


def remade(kind: type[RQueueError], args: tuple[object, ...], facts: dict[str, object]) -> object:
    """Rebuilds a pickled error from its class, arguments and attributes."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class StoreError(RQueueError):
    """An error of Redis or PostgreSQL."""


class StoreUnavailable(StoreError):
    """The server could not be reached or did not answer in time. The call is worth retrying.

    The server may have carried out the call.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the server did not answer: {self.what}"


class ScriptFault(StoreError):
    """A move returned a reply that its caller cannot read: a bug in rqueue, please report it."""

    def __init__(self, script: str, reply: object) -> None:
        super().__init__(script, reply)
        self.script = script
        self.reply = reply

    def __str__(self) -> str:
        return f"script {self.script} answered {self.reply!r}; please report this"


class FunctionsMissing(StoreError):
    """The server lacks the Lua functions of this release, and this user may not load them."""

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
    """A setting is missing or wrong. `setting` is its name, `rule` the rule that it breaks."""

    def __init__(self, setting: str, rule: str) -> None:
        super().__init__(setting, rule)
        self.setting = setting
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.setting}: {self.rule}"


class ArtifactError(RQueueError):
    """An artifact cannot be stored or read."""


class ArtifactRefused(ArtifactError):
    """The value cannot be stored as an artifact, or is not a reference to one."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(field, rule)
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}"


class ArtifactNotFound(ArtifactError):
    """The store has no such artifact: never stored, stored elsewhere, or swept."""

    def __init__(self, artifact: str) -> None:
        super().__init__(artifact)
        self.artifact = artifact

    def __str__(self) -> str:
        return f"{self.artifact} was not found: never stored, stored elsewhere, or swept"


class ArtifactDamaged(ArtifactError):
    """The stored bytes of an artifact differ from those that were put."""

    def __init__(self, artifact: str, rule: str) -> None:
        super().__init__(artifact, rule)
        self.artifact = artifact
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.artifact} {self.rule}"


class ArtifactsUnavailable(ArtifactError, StoreUnavailable):
    """The directory or the object store failed. The call is worth retrying."""

    def __str__(self) -> str:
        return f"the artifact store cannot be used: {self.what}"


# Operations that a role may not allow.
Deed = Literal["create this", "change roles"]


class SubmitError(RQueueError):
    """The task was not accepted; nothing was written."""


class InvalidTask(SubmitError):
    """A field of the task, or an argument, breaks a rule. `field` is its path."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(field, rule)
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}"


class InvalidGraph(SubmitError):
    """The dependencies cannot be met. `path` names the tasks that prove it, such as a cycle."""

    def __init__(self, rule: str, path: Sequence[str]) -> None:
        super().__init__(rule, tuple(path))
        self.rule = rule
        self.path = tuple(path)

    def __str__(self) -> str:
        return f"{self.rule}: {' -> '.join(self.path)}"


class SpawnRefused(SubmitError):
    """The running task may not add these tasks to its DAG."""

    def __init__(self, task: str, rule: str) -> None:
        super().__init__(task, rule)
        self.task = task
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.task} may not spawn this: {self.rule}"


class Forbidden(SubmitError):
    """The principal's role does not allow it to create tasks, or to change roles."""

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
            f"{refused}: it may only spawn tasks, in its own name, in the DAG of the task that it"
            " runs (ctx.spawn). Let an orchestrator or a human submit the task, or let them change"
            f" the role: rqueue role set {self.principal} orchestrator"
        )


class TooManyLanes(SubmitError):
    """The queue has `max_lanes` lanes: sets of type, agent, capabilities and ageing rate."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the queue already has {self.limit} lanes; use fewer different types, "
            "capability sets and ageing rates, or raise max_lanes"
        )


class Overloaded(SubmitError):
    """The queue accepts no new tasks now. Submitted tasks still run."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"no new tasks are accepted: {self.reason}; try again when the queue has drained"


class TaskError(RQueueError):
    """The call does not fit the task; nothing was changed."""


class TaskNotFound(TaskError):
    """There is no such task: it was never submitted, or its keys have expired."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return f"{self.task} was not found: never submitted, or ended and expired"


class WrongState(TaskError):
    """The state of the task does not allow the operation: it is `found`, not one of `wanted`."""

    def __init__(self, task: str, *, found: str, wanted: Iterable[str]) -> None:
        self.task = task
        self.found = str(found)
        self.wanted = tuple(sorted(str(state) for state in wanted))
        super().__init__(task, self.found, self.wanted)

    def __str__(self) -> str:
        return f"{self.task} is {self.found}; this operation needs {' or '.join(self.wanted)}"


class AlreadyDecided(WrongState):
    """Another decision about the dead task came first; this one changed nothing.

    `life` is the life that was reviewed. `by` and `resolution` describe the other decision; they
    are "" if it is no longer in the log.
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
    """The caller no longer holds the lease: another worker may run the task.

    `counted` is true if the cost that the call reported was added to the task's cost anyway.
    """

    def __init__(self, task: str, token: str, counted: bool = False) -> None:
        super().__init__(task, token, counted)
        self.task = task
        self.token = token
        self.counted = counted

    def __str__(self) -> str:
        return (
            f"the lease of {self.task} is no longer held;"
            " stop working on the task and write nothing for it"
        )


class BudgetExceeded(TaskError):
    """The attempt costs more than its limit, or more than the budget has left. It fails and is not
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
    """Another live task, `holder`, has the idempotency key of this task."""

    def __init__(self, task: str, holder: str) -> None:
        super().__init__(task, holder)
        self.task = task
        self.holder = holder

    def __str__(self) -> str:
        return f"the idempotency key of {self.task} now belongs to {self.holder}"


class DagError(RQueueError):
    """The call does not fit the DAG; nothing was changed."""


class DagNotFound(DagError):
    """There is no such DAG: it was never committed, or its keys have expired."""

    def __init__(self, dag: str) -> None:
        super().__init__(dag)
        self.dag = dag

    def __str__(self) -> str:
        return f"{self.dag} was not found: never committed, or ended and expired"


class DagEnded(DagError):
    """The DAG has ended and can no longer be changed."""

    def __init__(self, dag: str, status: str) -> None:
        super().__init__(dag, status)
        self.dag = dag
        self.status = status

    def __str__(self) -> str:
        return f"{self.dag} is already {self.status}"


class WorkerNotFound(RQueueError):
    """No running worker has this name; nothing was changed."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker)
        self.worker = worker

    def __str__(self) -> str:
        return f"no worker {self.worker} is running; `rqueue workers` lists those that are"


class OutboxNotEmpty(RQueueError):
    """Ended tasks are not archived yet, so the queue cannot leave the archive."""

    def __init__(self, waiting: int) -> None:
        super().__init__(waiting)
        self.waiting = waiting

    def __str__(self) -> str:
        return (
            f"{self.waiting} entries in the outbox are not archived yet: let"
            " `rqueue archiver` archive them first"
        )


class NotArchived(RQueueError):
    """A task or a DAG has ended and is not fully archived yet: `waiting` of its tasks are still in
    the outbox.
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
    """Events after `after` may have been deleted: a queue stores a limited number. `oldest` is the
    oldest stored event; call again without `after` to continue from there.
    """

    def __init__(self, after: str, oldest: str) -> None:
        super().__init__(after, oldest)
        self.after = after
        self.oldest = oldest

    def __str__(self) -> str:
        return f"events after {self.after} were deleted: the oldest stored event is {self.oldest}"


class ResultError(RQueueError):
    """There is no result."""


class TaskDead(ResultError):
    """The task is dead: it is not retried and waits for a review."""

    def __init__(self, task: str, *, reason: str, message: str) -> None:
        super().__init__(task, reason, message)
        self.task = task
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.task} is dead ({self.reason}): {self.message}"


class TaskCancelled(ResultError):
    """The task was cancelled and has no result."""

    def __init__(self, task: str, *, reason: str) -> None:
        super().__init__(task, reason)
        self.task = task
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.task} was cancelled: {self.reason or 'no reason given'}"


class SubtaskFailed(ResultError):
    """A spawned task that its parent waited for is dead, cancelled, or expired.

    If the handler does not catch this error, its task becomes dead: another attempt would fail the
    same way.
    """

    def __init__(self, task: str, *, state: str, reason: str) -> None:
        super().__init__(task, state, reason)
        self.task = task
        self.state = state
        self.reason = reason

    def __str__(self) -> str:
        return f"the spawned {self.task} is {self.state}: {self.reason or 'no reason given'}"


class DagFailed(ResultError):
    """The DAG did not complete: one of its tasks is dead, or it was cancelled."""

    def __init__(self, dag: str, *, status: str, reason: str = "") -> None:
        super().__init__(dag, status, reason)
        self.dag = dag
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.dag} is {self.status}{': ' * bool(self.reason)}{self.reason}"


class ResultMissing(ResultError, ArtifactError):
    """The task has completed, but the artifact that holds its result is missing or damaged."""

    def __init__(self, task: str, *, artifact: str) -> None:
        super().__init__(task, artifact)
        self.task = task
        self.artifact = artifact

    def __str__(self) -> str:
        return (
            f"the result of {self.task} is {self.artifact}, which is missing or damaged: restore it"
            f" from a backup of the artifact store, or run the task again"
            f" (`rqueue archive restore --task {self.task}`, or another enqueue)"
        )


class ResultTimeout(ResultError, TimeoutError):
    """The task did not end within the timeout of the caller. It is not cancelled."""

    def __init__(self, task: str, *, after: float) -> None:
        super().__init__(task, after)
        self.task = task
        self.after = after

    def __str__(self) -> str:
        return f"{self.task} has not ended within {self.after:g} s; it is not cancelled"


class HandlerSignal(RQueueError):
    """Raised by a handler to decide how its attempt ends."""


class Retry(HandlerSignal):
    """Retries the task after `after`, given as seconds or a timedelta; None uses the retry policy.

    Raises ConfigError for an invalid value or a reason that is not a string. In a handler, the
    ConfigError fails the attempt.
    """

    def __init__(
        self, after: float | timedelta | None = None, reason: str = "requested by the handler"
    ) -> None:
        self.after = None if after is None else seconds_in(after)
        self.reason = text_in("Retry.reason", reason)
        super().__init__(self.after, reason)

    def __str__(self) -> str:
        return self.reason


class RateLimited(HandlerSignal):
    """Parks the task because a service that the handler calls is rate limited.

    No attempt is spent, and the tasks of the same type are slowed down. `retry_after` is the delay
    that the service requests, in seconds or as a timedelta; without it, the delay starts at a
    minute and grows with each park. Raises ConfigError for an invalid value or a reason that is not
    a string. In a handler, the ConfigError fails the attempt.
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
    """Makes the task dead without another attempt.

    Raises ConfigError for a reason that is not a string. In a handler, the ConfigError fails the
    attempt.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = text_in("Reject.reason", reason)

    def __str__(self) -> str:
        return self.reason


def seconds_in(after: object, name: str = "Retry.after") -> float:
    """Returns a delay in seconds; raises ConfigError for a negative or infinite one, or no
    delay.
    """
    given = after.total_seconds() if isinstance(after, timedelta) else after
    try:
        seconds = float(given) if isinstance(given, SupportsFloat) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ConfigError(
            name, f"must be a timedelta or a number of seconds >= 0, not {after!r:.100}"
        )
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

# Logs and tracebacks show the module from which users import the errors.
for _name in __all__:
    globals()[_name].__module__ = __name__


def text_in(name: str, given: object) -> str:
    """Returns the reason that a handler gave; raises ConfigError if it is not a string."""
    if not isinstance(given, str):
        raise ConfigError(name, f"must be a string, not {type(given).__name__}")
    return given
