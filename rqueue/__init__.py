"""rqueue: a Redis-Streams task queue for fleets of workers and agents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqueue.dags.handle import DagHandle
    from rqueue.dags.plan import Plan
    from rqueue.errors import RateLimited, Reject, Retry, RQueueError
    from rqueue.middleware import Middleware, depends
    from rqueue.producer.handle import Handle
    from rqueue.queue import Queue
    from rqueue.settings.load import Settings
    from rqueue.task.artifact import Artifact
    from rqueue.task.attempt.outcome import Outcome
    from rqueue.task.attempt.retry import RetryPolicy
    from rqueue.task.dag import Dag, DagStatus
    from rqueue.task.ids import DagId, TaskId
    from rqueue.task.references import previous
    from rqueue.task.spec import Call
    from rqueue.task.state import State
    from rqueue.task.task import Task
    from rqueue.worker.context import Context
    from rqueue.worker.manual import Lease

__all__ = [
    "Artifact",
    "Call",
    "Context",
    "Dag",
    "DagHandle",
    "DagId",
    "DagStatus",
    "Handle",
    "Lease",
    "Middleware",
    "Outcome",
    "Plan",
    "Queue",
    "RQueueError",
    "RateLimited",
    "Reject",
    "Retry",
    "RetryPolicy",
    "Settings",
    "State",
    "Task",
    "TaskId",
    "depends",
    "previous",
]

# The module of each public name, imported when the name is first used. So `rqueue --help` and shell
# completion do not load the queue, and a producer does not load the worker.
MODULES = {
    "Artifact": "rqueue.task.artifact",
    "Call": "rqueue.task.spec",
    "Context": "rqueue.worker.context",
    "Dag": "rqueue.task.dag",
    "DagHandle": "rqueue.dags.handle",
    "DagId": "rqueue.task.ids",
    "DagStatus": "rqueue.task.dag",
    "Handle": "rqueue.producer.handle",
    "Lease": "rqueue.worker.manual",
    "Middleware": "rqueue.middleware",
    "Outcome": "rqueue.task.attempt.outcome",
    "Plan": "rqueue.dags.plan",
    "Queue": "rqueue.queue",
    "RQueueError": "rqueue.errors",
    "RateLimited": "rqueue.errors",
    "Reject": "rqueue.errors",
    "Retry": "rqueue.errors",
    "RetryPolicy": "rqueue.task.attempt.retry",
    "Settings": "rqueue.settings.load",
    "State": "rqueue.task.state",
    "Task": "rqueue.task.task",
    "TaskId": "rqueue.task.ids",
    "depends": "rqueue.middleware",
    "previous": "rqueue.task.references",
}


def __getattr__(name: str) -> object:
    """Imports a public name at its first use."""
    module = MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
