"""What one worker's hands did: counted for whoever asks, and told in the log where it went wrong.

No line says what a task's payload, its result or the text of its error is; those are kept with the
task.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rqueue.metrics.catalogue import WAIT_BOUNDS
from rqueue.metrics.figures import Figures
from rqueue.model.ids import TaskId
from rqueue.model.state import State
from rqueue.store.stored import claimed

if TYPE_CHECKING:
    from rqueue.metrics.figures import Cell
    from rqueue.model.attempt import Failed
    from rqueue.model.task import Task
    from rqueue.store.claims import Grant
    from rqueue.store.leases import Settled

LOG = logging.getLogger("rqueue.worker")
WAIT_BOUNDS_MS = [1000 * bound for bound in WAIT_BOUNDS]
# What a settle answers, and what the heartbeat says, where a lease is another's.
REFUSED, LOST = "LOST", "lost"
UNKNOWN = "unknown"
# The claims whose success is told: when there were so many, the older ones count half.
CLAIMS = 1000
# The class of an exception: it begins the first line that is not indented after the last frame.
RAISED = re.compile(r'.*\n  File "[^\n]*(?:\n [^\n]*)*\n([A-Za-z_][\w.]*)(?:[:\n]|$)', re.DOTALL)


class Ledger:
    """The books of one worker. `types` are those of tasks that have run and are not yet settled."""

    def __init__(self, worker: str, queue: str) -> None:
        self.worker = worker
        self.queue = queue
        self.figures = Figures()
        self.types: dict[str, str] = {}
        self.completed_by_type: dict[str, int] = {}
        self.asked = 0.0
        self.given = 0.0
        # Only where somebody will read it is each task's wait looked at.
        self.waits: Cell | None = None

    def watch_waits(self) -> None:
        """Measures from now on how long tasks wait before they are claimed."""
        self.waits = self.figures.cell("task_queue_wait_seconds")

    def claimed(self, grants: Sequence[Grant], now_ms: float) -> None:
        """Tasks that came, by a claim or by mail; with the server's time."""
        if not grants:
            return
        self.given += 1
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

    def claims(self, room: int) -> None:
        """Another claim is on its way, unless there is no room for what it could bring."""
        self.asked += room > 0
        if self.asked >= CLAIMS:
            self.asked, self.given = self.asked / 2, self.given / 2

    def completed(self, done: Sequence[Settled], words: Sequence[str]) -> None:
        """Tasks that were to be completed, and what the server said to each."""
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
        """Attempts that failed, what became of each task, and which of them are poison pills."""
        for (grant, outcome), word in zip(failed, words, strict=True):
            type = self.types.pop(grant.task, "") or claimed(grant).type
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
        """Tasks that were set aside because a service is limited, and what the server said."""
        for (grant, outcome), word in zip(parked, words, strict=True):
            type = self.types.pop(grant.task, "") or claimed(grant).type
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
        """An attempt that failed when its task was completed already: no other comes."""
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
        """A task has left to wait for others that it spawned."""
        self.figures.count("rqueue_suspended_total", self.queue, task.type)
        LOG.info(
            "task suspended",
            extra={**self.fields(task.id.ulid, task.type), "attempt": task.attempts + 1},
        )

    def went_on(self, grant: Grant, type: str) -> None:
        """A handler whose task had left did not end there: what it came to is for nobody."""
        LOG.warning(
            "task lost",
            extra={**self.fields(grant.task, type), "why": "its handler went on when it had left"},
        )

    def refused(self, task: str, type: str, *, call: str, word: str) -> None:
        """A settle that came too late: another has, or had, the task."""
        self.figures.count("rqueue_fence_rejections_total", self.queue)
        LOG.warning("task lost", extra={**self.fields(task, type), "call": call, "answer": word})

    def lost(self, task: str, why: str) -> None:
        """A lease is no longer held, or its time is up; the line of a timeout follows with its
        settle.
        """
        if why != LOST:
            return
        self.figures.count("rqueue_leases_lost_total", self.queue)
        LOG.warning("task lost", extra={**self.fields(task), "why": why})

    def stuck(self, grant: Grant, why: str) -> None:
        """A handler was told to stop and did not: its slot is lost until it does."""
        LOG.error(
            "handler does not stop; its slot is lost",
            extra={**self.fields(grant.task, claimed(grant).type), "why": str(why)},
        )

    def spent(self, task: Task, usd: float, model: str = "") -> None:
        """What a handler said it spent, with the model that it was for."""
        agent = task.spec.agent_name or "any"
        self.figures.count("task_cost_usd", task.type, agent, model or UNKNOWN, by=usd)

    def fields(self, task: str, type: str = "") -> dict[str, object]:
        """What every line about a task says; its type where that is known."""
        return {
            "task": str(TaskId.from_ulid(task)),
            **({"type": type} if type else {}),
            "queue": self.queue,
            "worker": self.worker,
        }


def raised(message: str) -> str:
    """The class of the exception whose traceback this is; its text may hold anything."""
    found = RAISED.match(message) if message.startswith("Traceback") else None
    return found[1] if found else ""
