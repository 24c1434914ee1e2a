"""Every error that rqueue raises. Fields contain the facts; the message is built from them.

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
from dataclasses import KW_ONLY, dataclass, fields
from datetime import timedelta
from typing import ClassVar, Literal, SupportsFloat


@dataclass(init=False, eq=False, repr=False)
class RQueueError(Exception):
    """The base class of all errors that rqueue raises. Can be pickled.

    Most errors are dataclasses: their fields, in this order, are also their `args`. `_text` is the
    message as a format string of the attributes.
    """

    _text: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__init__(*(getattr(self, each.name) for each in fields(self)))

    def __str__(self) -> str:
        return self._text.format_map(Attributes(self)) if self._text else super().__str__()

    def __reduce__(self) -> tuple[object, ...]:
        # An error with keyword arguments cannot be rebuilt from its args alone.
        return remade, (type(self), self.args, self.__dict__)


class Attributes(dict[str, object]):
    """The attributes of an object by name, also those that a user's subclass sets on the class."""

    def __init__(self, owner: object) -> None:
        self.owner = owner

    def __missing__(self, name: str) -> object:
        return getattr(self.owner, name)


def remade(kind: type[RQueueError], args: tuple[object, ...], facts: dict[str, object]) -> object:
    """Rebuilds a pickled error from its class, arguments and attributes."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class StoreError(RQueueError):
    """An error of Redis or PostgreSQL."""


@dataclass(eq=False, repr=False)
class StoreUnavailable(StoreError):
    """The server could not be reached or did not answer in time. The call is worth retrying.

    The server may have carried out the call.
    """

    what: str
    _text = "the server did not answer: {what}"


@dataclass(eq=False, repr=False)
class ScriptFault(StoreError):
    """A move returned a reply that its caller cannot read: a bug in rqueue, please report it."""

    script: str
    reply: object
    _text = "the move {script} returned an unexpected reply: {reply!r}; please report this"


@dataclass(eq=False, repr=False)
class FunctionsMissing(StoreError):
    """The server lacks the Lua functions of this release, and this user may not load them."""

    library: str
    reason: str
    _text = (
        "the server does not have the functions {library}, and {reason}:"
        " run `rqueue functions load` as a user with FUNCTION LOAD"
    )


@dataclass(eq=False, repr=False)
class ConfigError(RQueueError):
    """A setting is missing or wrong. `setting` is its name, `rule` the rule that it breaks."""

    setting: str
    rule: str
    _text = "{setting}: {rule}"


class ArtifactError(RQueueError):
    """An artifact cannot be stored or read."""


@dataclass(eq=False, repr=False)
class ArtifactRefused(ArtifactError):
    """The value cannot be stored as an artifact, or is not a reference to one."""

    field: str
    rule: str
    _text = "{field}: {rule}"


@dataclass(eq=False, repr=False)
class ArtifactNotFound(ArtifactError):
    """The store has no such artifact: never stored, stored elsewhere, or swept."""

    artifact: str
    _text = "{artifact} was not found: never stored, stored elsewhere, or swept"


@dataclass(eq=False, repr=False)
class ArtifactDamaged(ArtifactError):
    """The stored bytes of an artifact differ from those that were put."""

    artifact: str
    rule: str
    _text = "{artifact} {rule}"


class ArtifactsUnavailable(ArtifactError, StoreUnavailable):
    """The directory or the object store failed. The call is worth retrying."""

    _text = "the artifact store cannot be used: {what}"


# Operations that a role may not allow.
Deed = Literal["create this", "change roles"]


class SubmitError(RQueueError):
    """The task was not accepted; nothing was written."""


@dataclass(eq=False, repr=False)
class InvalidTask(SubmitError):
    """A field of the task, or an argument, breaks a rule. `field` is its path."""

    field: str
    rule: str
    _text = "{field}: {rule}"


class InvalidGraph(SubmitError):
    """The dependencies cannot be met. `path` names the tasks that prove it, such as a cycle."""

    def __init__(self, rule: str, path: Sequence[str]) -> None:
        super().__init__(rule, tuple(path))
        self.rule = rule
        self.path = tuple(path)

    def __str__(self) -> str:
        return f"{self.rule}: {' -> '.join(self.path)}"


@dataclass(eq=False, repr=False)
class SpawnRefused(SubmitError):
    """The running task may not add these tasks to its DAG."""

    task: str
    rule: str
    _text = "{task} may not spawn this: {rule}"


@dataclass(eq=False, repr=False)
class Forbidden(SubmitError):
    """The principal's role does not allow it to create tasks, or to change roles."""

    principal: str
    role: str
    deed: Deed = "create this"

    def __str__(self) -> str:
        refused = f"{self.principal} has the role {self.role} and may not {self.deed}"
        if self.deed == "change roles":
            return f"{refused}, its own or another's: let an orchestrator or a human do it"
        return (
            f"{refused}: it may only spawn tasks, in its own name, in the DAG of the task that it"
            " runs (ctx.spawn). Let an orchestrator or a human submit the task, or let them change"
            f" the role: rqueue role set {self.principal} orchestrator"
        )


@dataclass(eq=False, repr=False)
class TooManyLanes(SubmitError):
    """The queue has `max_lanes` lanes: sets of type, agent, capabilities and ageing rate."""

    limit: int
    _text = (
        "the queue already has {limit} lanes; use fewer different types, "
        "capability sets and ageing rates, or raise max_lanes"
    )


@dataclass(eq=False, repr=False)
class Overloaded(SubmitError):
    """The queue accepts no new tasks now. Submitted tasks still run."""

    reason: str
    _text = "no new tasks are accepted: {reason}; try again when the queue has drained"


class TaskError(RQueueError):
    """The call does not fit the task; nothing was changed."""


@dataclass(eq=False, repr=False)
class TaskNotFound(TaskError):
    """There is no such task: it was never submitted, or its keys have expired."""

    task: str
    _text = "{task} was not found: never submitted, or ended and expired"


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


@dataclass(eq=False, repr=False)
class LeaseLost(TaskError):
    """The caller no longer holds the lease: another worker may run the task.

    `counted` is true if the cost that the call reported was added to the task's cost anyway.
    """

    task: str
    token: str
    counted: bool = False
    _text = (
        "the lease of {task} is no longer held; stop working on the task and write nothing for it"
    )


@dataclass(eq=False, repr=False)
class BudgetExceeded(TaskError):
    """The attempt costs more than its limit, or more than the budget has left. It fails and is not
    retried.

    Raised by `ctx.spend`; the reported cost is counted. Handlers should not catch it.
    """

    task: str
    _text = (
        "{task} costs more than its max_cost_usd, or than the budget of its DAG, its"
        " worker or the day has left; see `rqueue budget list` and `rqueue task`"
    )


@dataclass(eq=False, repr=False)
class KeyTaken(TaskError):
    """Another live task, `holder`, has the idempotency key of this task."""

    task: str
    holder: str
    _text = "the idempotency key of {task} now belongs to {holder}"


class DagError(RQueueError):
    """The call does not fit the DAG; nothing was changed."""


@dataclass(eq=False, repr=False)
class DagNotFound(DagError):
    """There is no such DAG: it was never committed, or its keys have expired."""

    dag: str
    _text = "{dag} was not found: never committed, or ended and expired"


@dataclass(eq=False, repr=False)
class DagEnded(DagError):
    """The DAG has ended and can no longer be changed."""

    dag: str
    status: str
    _text = "{dag} is already {status}"


@dataclass(eq=False, repr=False)
class WorkerNotFound(RQueueError):
    """No running worker has this name; nothing was changed."""

    worker: str
    _text = "no worker {worker} is running; `rqueue workers` lists those that are"


@dataclass(eq=False, repr=False)
class OutboxNotEmpty(RQueueError):
    """Ended tasks are not archived yet, so the queue cannot leave the archive."""

    waiting: int
    _text = (
        "{waiting} entries in the outbox are not archived yet: let"
        " `rqueue archiver` archive them first"
    )


@dataclass(eq=False, repr=False)
class NotArchived(RQueueError):
    """A task or a DAG has ended and is not fully archived yet: `waiting` of its tasks are still in
    the outbox.
    """

    what: str
    waiting: int

    def __str__(self) -> str:
        waiting = "1 task waits" if self.waiting == 1 else f"{self.waiting} tasks wait"
        return (
            f"{self.what} is not archived yet: {waiting} in the outbox; try again when"
            " `rqueue archiver` has archived them"
        )


@dataclass(eq=False, repr=False)
class EventsMissed(RQueueError):
    """Events after `after` may have been deleted: a queue stores a limited number. `oldest` is the
    oldest stored event; call again without `after` to continue from there.
    """

    after: str
    oldest: str
    _text = "events after {after} were deleted: the oldest stored event is {oldest}"


class ResultError(RQueueError):
    """There is no result."""


@dataclass(eq=False, repr=False)
class TaskDead(ResultError):
    """The task is dead: it is not retried and waits for a review."""

    task: str
    _: KW_ONLY
    reason: str
    message: str
    _text = "{task} is dead ({reason}): {message}"


@dataclass(eq=False, repr=False)
class TaskCancelled(ResultError):
    """The task was cancelled and has no result."""

    task: str
    _: KW_ONLY
    reason: str

    def __str__(self) -> str:
        return f"{self.task} was cancelled: {self.reason or 'no reason given'}"


@dataclass(eq=False, repr=False)
class SubtaskFailed(ResultError):
    """A spawned task that its parent waited for is dead, cancelled, or expired.

    If the handler does not catch this error, its task becomes dead: another attempt would fail the
    same way.
    """

    task: str
    _: KW_ONLY
    state: str
    reason: str

    def __str__(self) -> str:
        return f"the spawned {self.task} is {self.state}: {self.reason or 'no reason given'}"


@dataclass(eq=False, repr=False)
class DagFailed(ResultError):
    """The DAG did not complete: one of its tasks is dead, or it was cancelled."""

    dag: str
    _: KW_ONLY
    status: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.dag} is {self.status}{': ' * bool(self.reason)}{self.reason}"


@dataclass(eq=False, repr=False)
class ResultMissing(ResultError, ArtifactError):
    """The task has completed, but the artifact that holds its result is missing or damaged."""

    task: str
    _: KW_ONLY
    artifact: str
    _text = (
        "the result of {task} is {artifact}, which is missing or damaged: restore it"
        " from a backup of the artifact store, or run the task again"
        " (`rqueue archive restore --task {task}`, or another enqueue)"
    )


@dataclass(eq=False, repr=False)
class ResultTimeout(ResultError, TimeoutError):
    """The task did not end within the timeout of the caller. It is not cancelled."""

    task: str
    _: KW_ONLY
    after: float
    _text = "{task} has not ended within {after:g} s; it is not cancelled"


class HandlerSignal(RQueueError):
    """Raised by a handler to decide how its attempt ends."""


class Retry(HandlerSignal):
    """Retries the task after `after`, given as seconds or a timedelta; None uses the retry policy.

    Raises ConfigError for an invalid value or a reason that is not a string. In a handler, the
    ConfigError fails the attempt.
    """

    _text = "{reason}"

    def __init__(
        self, after: float | timedelta | None = None, reason: str = "requested by the handler"
    ) -> None:
        self.after = None if after is None else seconds_in(after)
        self.reason = text_in("Retry.reason", reason)
        super().__init__(self.after, reason)


class RateLimited(HandlerSignal):
    """Parks the task because a service that the handler calls is rate limited.

    No attempt is spent, and the tasks of the same type are slowed down. `retry_after` is the delay
    that the service requests, in seconds or as a timedelta; without it, the delay starts at a
    minute and grows with each park. Raises ConfigError for an invalid value or a reason that is not
    a string. In a handler, the ConfigError fails the attempt.
    """

    _text = "{reason}"

    def __init__(
        self, retry_after: float | timedelta | None = None, reason: str = "rate limit"
    ) -> None:
        given = "RateLimited.retry_after"
        self.retry_after = None if retry_after is None else seconds_in(retry_after, given)
        self.reason = text_in("RateLimited.reason", reason)
        super().__init__(self.retry_after, reason)


class Reject(HandlerSignal):
    """Makes the task dead without another attempt.

    Raises ConfigError for a reason that is not a string. In a handler, the ConfigError fails the
    attempt.
    """

    _text = "{reason}"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = text_in("Reject.reason", reason)


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


def text_in(name: str, given: object) -> str:
    """Returns the reason that a handler gave; raises ConfigError if it is not a string."""
    if not isinstance(given, str):
        raise ConfigError(name, f"must be a string, not {type(given).__name__}")
    return given


__all__ = [
    name
    for name, kind in list(globals().items())
    if isinstance(kind, type) and issubclass(kind, RQueueError)
]
