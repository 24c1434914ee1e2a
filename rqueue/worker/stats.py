"""Counters and log lines of one worker.

No line contains a payload, a result or the text of an error; those are stored with the task.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rqueue.core.reader import claimed_task
from rqueue.metrics.catalogue import WAIT_BOUNDS
from rqueue.metrics.figures import Figures
from rqueue.task.ids import TaskId
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.core.claim import Grant
    from rqueue.core.leases import Settled
    from rqueue.metrics.figures import Cell
    from rqueue.task.attempt.outcome import Failed
    from rqueue.task.task import Task


LOG = logging.getLogger("rqueue.worker")
WAIT_BOUNDS_MS = [1000 * bound for bound in WAIT_BOUNDS]
# The replies of a settle and of a renewal for a lost lease.
REFUSED, LOST = "LOST", "lost"
UNKNOWN = "unknown"
# The claim success rate covers about this many claims: beyond it both counters are halved.
CLAIMS = 1000
# The class of an exception: the first line after the last frame that is not indented.
RAISED = re.compile(r'.*\n  File "[^\n]*(?:\n [^\n]*)*\n([A-Za-z_][\w.]*)(?:[:\n]|$)', re.DOTALL)
PREFIX = "rqueue"


class WorkerStats:
    """Counters of one worker. `types` are the types of tasks that have run and are not
    settled yet.
    """

    def __init__(self, worker: str, queue: str) -> None:
        self.worker = worker
        self.queue = queue
        self.figures = Figures()
        self.types: dict[str, str] = {}
        self.completed_by_type: dict[str, int] = {}
        self.claims_sent = 0.0
        self.claims_filled = 0.0
        # Set only if metrics are served, since it costs time for each task.
        self.waits: Cell | None = None

    def watch_waits(self) -> None:
        """Starts to measure how long tasks wait before they are claimed."""
        self.waits = self.figures.cell("task_queue_wait_seconds")

    def claimed(self, grants: Sequence[Grant], now_ms: float) -> None:
        """Counts claimed or delivered tasks; `now_ms` is the server's time."""
        if not grants:
            return
        self.claims_filled += 1
        if self.waits is None:
            return
        cell, total_ms = self.waits, 0.0
        for grant in grants:
            if grant.waited or grant.reclaims:
                continue
            wait_ms = now_ms - grant.created_ms
            if wait_ms > 0:
                total_ms += wait_ms
            cell[1 + bisect_left(WAIT_BOUNDS_MS, wait_ms)] += 1
        cell[0] += total_ms / 1000

    def claims(self, capacity: int) -> None:
        """Counts a claim, if it is for any tasks."""
        self.claims_sent += capacity > 0
        if self.claims_sent >= CLAIMS:
            self.claims_sent, self.claims_filled = self.claims_sent / 2, self.claims_filled / 2

    def completed(self, done: Sequence[Settled], words: Sequence[str]) -> None:
        """Counts completions, given the reply for each."""
        counts = self.completed_by_type
        for row, word in zip(done, words, strict=True):
            type = self.types.pop(row.task, UNKNOWN)
            if word == "OK":
                counts[type] = counts.get(type, 0) + 1
            else:
                self.refused(row.task, type, call="complete", word=word)

    def failed(
        self,
        failed: Sequence[tuple[Grant, Failed]],
        words: Sequence[str],
        pills: Collection[str] = (),
    ) -> None:
        """Counts and logs failed attempts, given the new state of each; `pills` are
        poison pills.
        """
        for (grant, outcome), word in zip(failed, words, strict=True):
            type = self.types.pop(grant.task, "") or claimed_task(grant).type
            if word == REFUSED:
                self.refused(grant.task, type, call="fail", word=word)
                continue
            dead = word == State.DEAD_LETTERED
            self.figures.count("tasks_failed_total", outcome.reason.label)
            if dead:
                self.figures.count("tasks_dead_lettered_total")
            if grant.task in pills:
                self.figures.count("rqueue_poison_pills_total", self.queue)
            LOG.log(
                logging.WARNING if dead else logging.INFO,
                "task dead" if dead else "task failed",
                extra={
                    **self.fields(grant.task, type),
                    "attempt": grant.attempts + 1,
                    "reason": str(outcome.reason),
                    "raised": raised(outcome.message),
                    "state": word,
                    **({"poison_pill": True} if grant.task in pills else {}),
                },
            )

    def parked(self, parked: Sequence[tuple[Grant, Failed]], words: Sequence[str]) -> None:
        """Counts and logs tasks parked for a rate-limited service, given the reply for each."""
        for (grant, outcome), word in zip(parked, words, strict=True):
            type = self.types.pop(grant.task, "") or claimed_task(grant).type
            if word != "OK":
                self.refused(grant.task, type, call="park", word=word)
                continue
            self.figures.count("rqueue_parked_total", self.queue, type)
            LOG.info(
                "task parked",
                extra={
                    **self.fields(grant.task, type),
                    "reason": str(outcome.reason),
                    "retry_after": outcome.retry_after,
                },
            )

    def failed_after(self, grant: Grant, type: str, outcome: Failed) -> None:
        """Logs an attempt that failed after its task was completed; there is no retry."""
        self.figures.count("tasks_failed_total", outcome.reason.label)
        LOG.warning(
            "task failed after it was acknowledged",
            extra={
                **self.fields(grant.task, type),
                "attempt": grant.attempts + 1,
                "reason": str(outcome.reason),
                "raised": raised(outcome.message),
                "state": str(State.COMPLETED),
            },
        )

    def suspended(self, task: Task) -> None:
        """Logs a task that is suspended until its children have ended."""
        self.figures.count("rqueue_suspended_total", self.queue, task.type)
        LOG.info(
            "task suspended",
            extra={**self.fields(task.id.ulid, task.type), "attempt": task.attempts + 1},
        )

    def continued_after_suspension(self, grant: Grant, type: str) -> None:
        """Logs a handler that continued after its task was suspended; its outcome is ignored."""
        LOG.warning(
            "task lost",
            extra={
                **self.fields(grant.task, type),
                "why": "handler continued after its task was suspended",
            },
        )

    def refused(self, task: str, type: str, *, call: str, word: str) -> None:
        """Counts and logs a settle that was rejected because the lease was lost."""
        self.figures.count("rqueue_fence_rejections_total", self.queue)
        LOG.warning("task lost", extra={**self.fields(task, type), "call": call, "answer": word})

    def lost(self, task: str, why: str) -> None:
        """Counts and logs a lost lease; a timeout is logged when it is settled."""
        if why != LOST:
            return
        self.figures.count("rqueue_leases_lost_total", self.queue)
        LOG.warning("task lost", extra={**self.fields(task), "why": why})

    def stuck(self, grant: Grant, why: str) -> None:
        """Logs a handler that did not stop; its slot is lost until it ends."""
        LOG.error(
            "handler does not stop, slot lost",
            extra={**self.fields(grant.task, claimed_task(grant).type), "why": str(why)},
        )

    def spent(self, task: Task, usd: float, model: str = "") -> None:
        """Counts a reported cost, by model."""
        agent = task.spec.agent_name or "any"
        self.figures.count("task_cost_usd", task.type, agent, model or UNKNOWN, by=usd)

    def fields(self, task: str, type: str = "") -> dict[str, object]:
        """The fields of every line about a task."""
        return {
            "task": str(TaskId.from_ulid(task)),
            **({"type": type} if type else {}),
            "queue": self.queue,
            "worker": self.worker,
        }


def raised(message: str) -> str:
    """The class of the exception in a traceback, without its text."""
    found = RAISED.match(message) if message.startswith("Traceback") else None
    return found[1] if found else ""


def worker_name() -> str:
    """A unique worker name: host, process and a random suffix."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def attempt_name(type: str, task: str) -> str:
    """The name of the asyncio task that runs an attempt."""
    return f"{PREFIX} {type} {task}"


def attempt_of(name: str) -> dict[str, str]:
    """The task and its type from the name of an asyncio task; empty if it runs no attempt."""
    match name.split(" "):
        case [prefix, type, task] if prefix == PREFIX:
            return {"task": str(TaskId.from_ulid(task)), "type": type}
        case _:
            return {}
