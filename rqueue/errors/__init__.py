"""Every error rqueue raises. Fields carry the facts; the text is made from them.

RQueueError
├── SubmitError            the task was not taken
│   ├── InvalidTask        a field breaks a rule            .field .rule
│   ├── InvalidGraph       cycle, self-edge, unknown parent .path
│   ├── SpawnRefused       a task may not add what it asks  .task .rule
│   ├── Forbidden          a role that may not do this      .principal .role .deed
│   ├── TooManyLanes       too many kinds of task           .limit
│   └── Overloaded         the server takes no new work     .reason
├── TaskError              the task is not as the caller believed
│   ├── TaskNotFound                                        .task
│   ├── WrongState         a move its state forbids         .task .found .wanted
│   │   └── AlreadyDecided another reviewer was first       .life .by .resolution
│   ├── LeaseLost          someone else may run it          .task .token .counted
│   ├── BudgetExceeded     the run costs more than it may   .task
│   └── KeyTaken           another live task has its key    .task .holder
├── DagError               the DAG is not as the caller believed
│   ├── DagNotFound                                         .dag
│   └── DagEnded           there is nothing left to change  .dag .status
├── WorkerNotFound         no such worker is at work        .worker
├── EventsMissed           some are gone after this one     .after .oldest
├── OutboxNotEmpty         something waits for the archive  .waiting
├── NotArchived            its end waits in the outbox      .what .waiting
├── ResultError            there is no result to give
│   ├── TaskDead           it failed for good               .task .reason .message
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
│   └── ScriptFault        a bug of ours                    .script .reply
├── ConfigError            a setting is missing or wrong    .setting .rule
└── HandlerSignal          raised by handlers, not by us
    ├── Retry              again, perhaps at a time         .after .reason
    ├── RateLimited        later, and others too            .retry_after .reason
    └── Reject             never again: to the dead         .reason
"""

from rqueue.errors.keeping import (
    ArtifactDamaged,
    ArtifactError,
    ArtifactNotFound,
    ArtifactRefused,
    ArtifactsUnavailable,
)
from rqueue.errors.moving import (
    AlreadyDecided,
    BudgetExceeded,
    DagEnded,
    DagError,
    DagNotFound,
    EventsMissed,
    KeyTaken,
    LeaseLost,
    NotArchived,
    OutboxNotEmpty,
    TaskError,
    TaskNotFound,
    WorkerNotFound,
    WrongState,
)
from rqueue.errors.resulting import (
    DagFailed,
    ResultError,
    ResultMissing,
    ResultTimeout,
    SubtaskFailed,
    TaskCancelled,
    TaskDead,
)
from rqueue.errors.root import RQueueError
from rqueue.errors.serving import ConfigError, ScriptFault, StoreError, StoreUnavailable
from rqueue.errors.signalling import HandlerSignal, RateLimited, Reject, Retry
from rqueue.errors.submitting import (
    Forbidden,
    InvalidGraph,
    InvalidTask,
    Overloaded,
    SpawnRefused,
    SubmitError,
    TooManyLanes,
)

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

# In logs and tracebacks they bear the name by which they are imported.
for _name in __all__:
    globals()[_name].__module__ = __name__
