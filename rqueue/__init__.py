"""rqueue: a Redis-Streams task queue for fleets of workers and agents."""

from rqueue.client.dags import DagHandle
from rqueue.client.handle import Handle
from rqueue.client.lease import Lease
from rqueue.context import Context
from rqueue.errors import RateLimited, Reject, Retry, RQueueError
from rqueue.hooks import Middleware, depends
from rqueue.model.artifact import Artifact
from rqueue.model.attempt import Outcome
from rqueue.model.call import Call
from rqueue.model.dag import Dag, DagStatus
from rqueue.model.ids import DagId, TaskId
from rqueue.model.plan import Plan
from rqueue.model.reference import previous
from rqueue.model.retry import RetryPolicy
from rqueue.model.state import State
from rqueue.model.task import Task
from rqueue.queue import Queue
from rqueue.settings import Settings

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
