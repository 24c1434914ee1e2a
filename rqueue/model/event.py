"""What happens in a queue and is told: every event there is, and one that happened.

`CATALOGUE` is the only list; scripts are checked against it and docs/events.md is made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType

from rqueue.errors import RQueueError
from rqueue.model.ids import DagId, TaskId

Detail = Mapping[str, str | int]
Parts = tuple[tuple[str, type[str] | type[int]], ...]


class Severity(StrEnum):
    """How much an event matters to people, in rising order."""

    INFO = "info"
    NOTICE = "notice"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Its place in that order."""
        return list(Severity).index(self)


INFO, NOTICE, WARNING, CRITICAL = Severity


@dataclass(frozen=True, slots=True)
class Kind:
    """One event of the catalogue.

    The first word of its name says what its subject is. `parts` are the words of its detail in
    order; a last one that is text is all the rest. `says` is the line for people.
    """

    name: str
    severity: Severity
    parts: Parts
    when: str
    says: str

    @property
    def about(self) -> str:
        """What its subject is."""
        return self.name.partition(".")[0]


REASON: Parts = (("reason", str),)
TASKS: Parts = (("tasks", int),)
FOR: Parts = (("for_ms", int),)
LEFT: Parts = (("left_ms", int),)

KINDS = (
    Kind("task.ready", INFO, TASKS,
         "what tasks waited for is there; one event names all of a call",
         "Ready to run: {subject}"),
    Kind("task.retrying", NOTICE, (("reason", str), ("attempts", int), ("delay_ms", int)),
         "an attempt failed and another will be made",
         "Task {subject} retry {attempts}, backoff {delay_ms} ms: {reason}"),
    Kind("task.rate_limited", INFO, REASON,
         "the service that a task calls is limited: it is set aside, no attempt is spent",
         "Task {subject} is set aside: {reason}"),
    Kind("task.reaped", NOTICE, (("worker", str),),
         "a lease was taken from a worker that did not renew it",
         "Task {subject} was taken from {worker}, which was silent"),
    Kind("task.dead_lettered", CRITICAL, REASON,
         "a task failed for good, and waits for a person",
         "Task {subject} moved to dead letter queue: {reason}"),
    Kind("task.poisoned", CRITICAL, (("failed_by", str),),
         "a task is given up because it fails wherever it runs",
         "Task {subject} fails wherever it runs: {failed_by}"),
    Kind("task.cancelled", INFO, REASON, "a task was cancelled",
         "Task {subject} was cancelled: {reason}"),
    Kind("task.escalated", CRITICAL, (("cause", str),),
         "a reviewer handed a dead task on to whoever may decide about it",
         "Task {subject} waits for a decision: {cause}"),
    Kind("task.discarded", INFO, REASON, "a reviewer gave a dead task up",
         "Task {subject} was discarded: {reason}"),
    Kind("task.revived", NOTICE, (("life", int),), "a dead task was given a new life",
         "Task {subject} lives again, for the {life}. time"),
    Kind("task.unserved", WARNING, (("needs", str),),
         "tasks have waited for long and no live worker can do them; the task is one of them",
         "No worker can do {subject}: {needs}"),
    Kind("dag.completed", INFO, TASKS, "every task of a DAG has completed or was cancelled",
         "DAG {subject} has completed, {tasks} tasks"),
    Kind("dag.cancelled", INFO, TASKS, "a DAG was cancelled, or all of its tasks were",
         "DAG {subject} was cancelled, {tasks} tasks"),
    Kind("dag.failed", WARNING, TASKS, "a task of a DAG is dead, said once for each DAG",
         "DAG {subject} has failed, dead tasks: {tasks}"),
    Kind("dag.escalated", CRITICAL, TASKS,
         "as many tasks of a DAG are dead as its producer wants to hear of",
         "DAG {subject} has {tasks} dead tasks"),
    Kind("dag.refused", WARNING, REASON, "the DAG that was to follow could not be submitted",
         "DAG {subject} could not be submitted: {reason}"),
    Kind("breaker.opened", WARNING, FOR, "a type failed so often that it is given a rest",
         "Circuit breaker OPEN for {subject}, tried again after {for_ms} ms"),
    Kind("breaker.closed", NOTICE, (("was", str),), "a type may run again",
         "Circuit breaker closed for {subject}"),
    Kind("type.slowed", NOTICE, FOR, "nothing of a type is handed out for a while",
         "Type {subject} is slowed down for {for_ms} ms"),
    Kind("key.slowed", INFO, FOR, "nothing of a limit key is handed out for a while",
         "Key {subject} is slowed down for {for_ms} ms"),
    Kind("type.lifted", NOTICE, LEFT, "somebody has ended the slow-down of a type",
         "Type {subject} is slowed down no more, {left_ms} ms before its rest was over"),
    Kind("key.lifted", INFO, LEFT, "somebody has ended the slow-down of a limit key",
         "Key {subject} is slowed down no more, {left_ms} ms before its rest was over"),
    Kind("budget.exhausted", WARNING, (("account", str),),
         "the account of a DAG, a worker or the day cannot pay what waits",
         "The budget of {account} {subject} is used up"),
    Kind("worker.lost", WARNING, (("leases", int),),
         "leases were taken from a worker of which nothing was heard any more",
         "Worker {subject} is lost, with {leases} tasks in hand"),
    Kind("worker.draining", INFO, (("run", str),), "a worker was told to end",
         "Worker {subject} ends when it has finished what it has"),
    Kind("worker.blamed", WARNING, (("why", str),),
         "a worker is sent home because it fails what others complete",
         "Worker {subject} was sent home: {why}"),
    Kind("role.set", NOTICE, (("role", str),), "a principal was given a role",
         "{subject} has the role {role}"),
    Kind("role.dropped", NOTICE, (("role", str),), "a principal has the default role again",
         "{subject} no longer has the role {role}"),
)  # fmt: skip
CATALOGUE: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in KINDS})


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `detail` holds what the catalogue says; of an event that it does
    not know, or that is not as it should be, all that was said as `text`.
    """

    id: str
    at: datetime
    name: str
    severity: Severity
    subject: str
    tasks: tuple[TaskId, ...] = ()
    dag: DagId | None = None
    detail: Detail = field(default_factory=dict)

    @property
    def task(self) -> TaskId | None:
        """The task that it is about; of several the first."""
        return self.tasks[0] if self.tasks else None

    @property
    def summary(self) -> str:
        """The event in one line for people, as the catalogue words it."""
        known = CATALOGUE.get(self.name)
        if known is None or "text" in self.detail:
            return f"{self.name} {self.subject} {self.detail.get('text', '')}".rstrip()
        return known.says.format(subject=self.subject, **self.detail)

    def document(self) -> dict[str, object]:
        """The event for programs."""
        return {
            "id": self.id,
            "at": self.at.isoformat(timespec="milliseconds"),
            "event": self.name,
            "severity": str(self.severity),
            "subject": self.subject,
            "tasks": list(self.tasks),
            "dag": self.dag,
            "detail": dict(self.detail),
        }


def event_of(id: str, fields: Mapping[str, str]) -> Event:
    """The event that a stream's entry tells of, whoever wrote it: nothing in it is refused."""
    name = fields.get("event", "")
    known = CATALOGUE.get(name)
    about = name.partition(".")[0]
    said, subject = fields.get("detail", ""), fields.get(about, "")
    detail = detail_in(known.parts, said) if known else {"text": said}
    tasks = tuple(ids_in(subject.split())) if about == "task" else ()
    of_dag = about == "dag" or (about == "budget" and said == "dag")
    dag = DagId.from_ulid(subject) if of_dag and subject else None
    return Event(
        id=id,
        at=datetime.fromtimestamp(int(id.partition("-")[0]) / 1000, UTC),
        name=name,
        severity=known.severity if known else INFO,
        subject=" ".join(tasks) or dag or subject,
        tasks=tasks,
        dag=dag,
        detail=detail,
    )


def detail_in(parts: Parts, said: str) -> dict[str, str | int]:
    """The words of a detail by name; as one text where they are not what they should be."""
    words = said.split(" ", len(parts) - 1)
    try:
        pairs = zip(parts, words, strict=True)
        return {name: kind(word) for (name, kind), word in pairs}
    except ValueError:
        return {"text": said}


def ids_in(words: Sequence[str]) -> list[TaskId]:
    """The tasks that a subject names, as far as it does."""
    found = []
    for word in words:
        try:
            found.append(TaskId(word))
        except RQueueError:
            continue
    return found
