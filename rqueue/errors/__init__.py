"""Every error rqueue raises. Fields carry the facts; the text is made from them.

RQueueError
├── SubmitError            the task was not taken
│   ├── InvalidTask        a field breaks a rule            .field .rule
│   ├── InvalidGraph       cycle, self-edge, unknown parent .path
│   ├── SpawnRefused       a task may not add what it asks  .task .rule
│   ├── Forbidden          a role that may not create it    .principal .role
│   ├── TooManyLanes       too many kinds of task           .limit
│   └── Overloaded         the server takes no new work     .reason
├── TaskError              the task is not as the caller believed
│   ├── TaskNotFound                                        .task
│   ├── WrongState         a move its state forbids         .task .found .wanted
│   ├── LeaseLost          someone else may run it          .task .token
│   ├── BudgetExceeded     the run costs more than it may   .task
│   └── KeyTaken           another live task has its key    .task .holder
├── DagError               the DAG is not as the caller believed
│   ├── DagNotFound                                         .dag
│   └── DagEnded           there is nothing left to change  .dag .status
├── WorkerNotFound         no such worker is at work        .worker
├── ResultError            there is no result to give
│   ├── TaskDead           it failed for good               .task .reason .message
│   ├── TaskCancelled                                       .task .reason
│   ├── SubtaskFailed      a spawned task did not complete  .task .state .reason
│   ├── DagFailed          it did not complete              .dag .status
│   └── ResultTimeout      it has not ended yet             .task .after
├── StoreError             Redis or Postgres
│   ├── StoreUnavailable   worth retrying                   .what
│   └── ScriptFault        a bug of ours                    .script .reply
├── ConfigError            a setting is missing or wrong    .setting .rule
└── HandlerSignal          raised by handlers, not by us
    ├── Retry              again, perhaps at a time         .after .reason
    ├── RateLimited        later, and others too            .retry_after .reason
    └── Reject             never again: to the dead         .reason
"""

from rqueue.errors.moving import (
    BudgetExceeded,
    DagEnded,
    DagError,
    DagNotFound,
    KeyTaken,
    LeaseLost,
    TaskError,
    TaskNotFound,
    WorkerNotFound,
    WrongState,
)
from rqueue.errors.resulting import (
    DagFailed,
    ResultError,
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
    "BudgetExceeded",
    "ConfigError",
    "DagEnded",
    "DagError",
    "DagFailed",
    "DagNotFound",
    "Forbidden",
    "HandlerSignal",
    "InvalidGraph",
    "InvalidTask",
    "KeyTaken",
    "LeaseLost",
    "Overloaded",
    "RQueueError",
    "RateLimited",
    "Reject",
    "ResultError",
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
