"""rqueue: a Redis-Streams task queue for fleets of workers and agents."""

from rqueue.client.handle import Handle
from rqueue.client.lease import Lease
from rqueue.context import Context
from rqueue.errors import Reject, Retry, RQueueError
from rqueue.hooks import Middleware, depends
from rqueue.model.attempt import Outcome
from rqueue.model.call import Call
from rqueue.model.ids import DagId, TaskId
from rqueue.model.retry import RetryPolicy
from rqueue.model.state import State
from rqueue.model.task import Task
from rqueue.queue import Queue
from rqueue.settings import Settings

__all__ = [
    "Call",
    "Context",
    "DagId",
    "Handle",
    "Lease",
    "Middleware",
    "Outcome",
    "Queue",
    "RQueueError",
    "Reject",
    "Retry",
    "RetryPolicy",
    "Settings",
    "State",
    "Task",
    "TaskId",
    "depends",
]
