"""The events of a queue: the catalogue of all kinds, and reading the stored ones.

`CATALOGUE` is the only list; moves are checked against it and docs/events.md is made from it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue.clock import SYSTEM
from rqueue.errors import EventsMissed, InvalidTask, RQueueError, StoreUnavailable
from rqueue.store.replies import words
from rqueue.task.ids import DagId, TaskId

if TYPE_CHECKING:
    from rqueue.store.shard import Shard
    from rqueue.store.url import Client


Detail = Mapping[str, str | int]
Parts = tuple[tuple[str, type[str] | type[int]], ...]


class Severity(StrEnum):
    """How important an event is, in rising order."""

    INFO = "info"
    NOTICE = "notice"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """The position in that order."""
        return list(Severity).index(self)


INFO, NOTICE, WARNING, CRITICAL = Severity


@dataclass(frozen=True, slots=True)
class Kind:
    """One event of the catalogue.

    The first word of its name is the kind of its subject. `parts` are the words of its detail in
    order; a last text part takes the rest. `template` is the event's one-line summary.
    """

    name: str
    severity: Severity
    parts: Parts
    when: str
    template: str

    @property
    def about(self) -> str:
        """What kind of thing its subject is."""
        return self.name.partition(".")[0]


REASON: Parts = (("reason", str),)
TASKS: Parts = (("tasks", int),)
FOR: Parts = (("for_ms", int),)
LEFT: Parts = (("left_ms", int),)
KINDS = (
    Kind("task.ready", INFO, TASKS,
         "the dependencies of tasks are met; one event names all of a call",
         "Ready to run: {subject}"),
    Kind("task.retrying", NOTICE, (("reason", str), ("attempts", int), ("delay_ms", int)),
         "an attempt failed and another will be made",
         "Task {subject} retry {attempts}, backoff {delay_ms} ms: {reason}"),
    Kind("task.rate_limited", INFO, REASON,
         "the service that a task calls is rate limited: the task is parked, no attempt is spent",
         "Task {subject} is parked: {reason}"),
    Kind("task.reaped", NOTICE, (("worker", str),),
         "a lease was reclaimed from a worker that did not renew it",
         "Task {subject} was reclaimed from {worker}, which sent no heartbeat"),
    Kind("task.dead_lettered", CRITICAL, REASON,
         "a task is dead: it will not be retried, and waits for a review",
         "Task {subject} moved to dead letter queue: {reason}"),
    Kind("task.poisoned", CRITICAL, (("failed_by", str),),
         "a task is dead because it failed on several workers",
         "Task {subject} failed on several workers: {failed_by}"),
    Kind("task.cancelled", INFO, REASON, "a task was cancelled",
         "Task {subject} was cancelled: {reason}"),
    Kind("task.escalated", CRITICAL, (("cause", str),),
         "a reviewer escalated a dead task",
         "Task {subject} was escalated: {cause}"),
    Kind("task.discarded", INFO, REASON, "a reviewer discarded a dead task",
         "Task {subject} was discarded: {reason}"),
    Kind("task.revived", NOTICE, (("life", int),), "a dead task was retried",
         "Task {subject} was retried (life {life})"),
    Kind("task.unserved", WARNING, (("needs", str),),
         "tasks have waited for long and no live worker can run them; the task is one of them",
         "No worker can run {subject}: {needs}"),
    Kind("dag.completed", INFO, TASKS, "every task of a DAG has completed or was cancelled",
         "DAG {subject} has completed, {tasks} tasks"),
    Kind("dag.cancelled", INFO, TASKS, "a DAG was cancelled, or all of its tasks were",
         "DAG {subject} was cancelled, {tasks} tasks"),
    Kind("dag.failed", WARNING, TASKS, "a task of a DAG is dead; reported once per DAG",
         "DAG {subject} has failed, dead tasks: {tasks}"),
    Kind("dag.escalated", CRITICAL, TASKS,
         "the number of dead tasks of a DAG has reached its failure_threshold",
         "DAG {subject} has {tasks} dead tasks"),
    Kind("dag.refused", WARNING, REASON, "the DAG's on_complete DAG could not be submitted",
         "DAG {subject} could not be submitted: {reason}"),
    Kind("breaker.opened", WARNING, FOR,
         "a type failed so often that its tasks cannot be claimed for a while",
         "Circuit breaker OPEN for {subject}, half-open after {for_ms} ms"),
    Kind("breaker.closed", NOTICE, (("was", str),), "a type may run again",
         "Circuit breaker closed for {subject}"),
    Kind("type.slowed", NOTICE, FOR, "a rate limit: no task of a type can be claimed for a while",
         "Type {subject} is slowed down for {for_ms} ms"),
    Kind("key.slowed", INFO, FOR, "a rate limit: no task of a tenant can be claimed for a while",
         "Tenant {subject} is slowed down for {for_ms} ms"),
    Kind("type.lifted", NOTICE, LEFT, "an operator ended the slow-down of a type",
         "Slow-down of type {subject} ended by an operator, {left_ms} ms early"),
    Kind("key.lifted", INFO, LEFT, "an operator ended the slow-down of a tenant",
         "Slow-down of tenant {subject} ended by an operator, {left_ms} ms early"),
    Kind("budget.exhausted", WARNING, (("account", str),),
         "waiting tasks exceed the remaining budget of a DAG, a worker or the day",
         "The budget of {account} {subject} is exhausted"),
    Kind("worker.lost", WARNING, (("leases", int),),
         "leases were reclaimed from a worker that sends no heartbeat any more",
         "Worker {subject} is lost, it held {leases} leases"),
    Kind("worker.draining", INFO, (("run", str),), "a drain of a worker was requested",
         "Worker {subject} is draining"),
    Kind("worker.blamed", WARNING, (("why", str),),
         "a worker is drained because it fails tasks that others complete",
         "Worker {subject} was drained: {why}"),
    Kind("role.set", NOTICE, (("role", str),), "a principal was given a role",
         "{subject} has the role {role}"),
    Kind("role.dropped", NOTICE, (("role", str),), "a principal has the default role again",
         "{subject} no longer has the role {role}"),
)  # fmt: skip
CATALOGUE: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in KINDS})


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `detail` has the parts that the catalogue names; of an unknown or
    malformed event it has the whole text as `text`.
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
        """The event in one line, from the catalogue's template."""
        known = CATALOGUE.get(self.name)
        if known is None or "text" in self.detail:
            return f"{self.name} {self.subject} {self.detail.get('text', '')}".rstrip()
        return known.template.format(subject=self.subject, **self.detail)

    def document(self) -> dict[str, object]:
        """The event as JSON values."""
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
    """The event in a stream's entry. Never raises for what the entry contains."""
    name = fields.get("event", "")
    known = CATALOGUE.get(name)
    about = name.partition(".")[0]
    text, subject = fields.get("detail", ""), fields.get(about, "")
    detail = detail_in(known.parts, text) if known else {"text": text}
    tasks = tuple(ids_in(subject.split())) if about == "task" else ()
    of_dag = about == "dag" or (about == "budget" and text == "dag")
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


def detail_in(parts: Parts, text: str) -> dict[str, str | int]:
    """The parts of a detail by name; one `text` where they do not fit."""
    words = text.split(" ", len(parts) - 1)
    try:
        pairs = zip(parts, words, strict=True)
        return {name: kind(word) for (name, kind), word in pairs}
    except ValueError:
        return {"text": text}


def ids_in(words: Sequence[str]) -> list[TaskId]:
    """The tasks that a subject names; other words are skipped."""
    found = []
    for word in words:
        try:
            found.append(TaskId(word))
        except RQueueError:
            continue
    return found


ENTRY = re.compile(r"\d{1,19}-\d{1,19}")
START = "0-0"
PAGE = 500


async def newest(shard: Shard) -> str:
    """The id of the newest event, START where there is none."""
    key = shard.keys.events()
    page: Any = await shard.runner.connection.call(
        lambda client: client.xrevrange(key, "+", "-", 1), what="events"
    )
    return words(page[0][0]) if page else START


async def read_events(shard: Shard, after: str) -> list[Event]:
    """The next page of events after an id."""
    key = shard.keys.events()
    page: Any = await shard.runner.connection.call(
        lambda client: client.xrange(key, f"({after}", "+", PAGE), what="events"
    )
    return [event_of(words(entry), texts(fields)) for entry, fields in page]


async def wait_for_event(shard: Shard, after: str, wait_sec: float) -> bool:
    """Waits up to `wait_sec` for an event after an id; whether there is one."""
    wait_ms = max(1, round(wait_sec * 1000))
    words = ("XREAD", "COUNT", 1, "BLOCK", wait_ms, "STREAMS", shard.keys.events(), after)
    return bool(await shard.runner.connection.wait(words, wait_sec, what="events"))


def texts(fields: dict[bytes, bytes]) -> dict[str, str]:
    """The fields of an entry as text."""
    return {words(name): words(value) for name, value in fields.items()}


async def oldest_if_trimmed(shard: Shard, after: str) -> str | None:
    """The oldest stored event, where events after `after` may have been trimmed; else None."""
    key = shard.keys.events()
    found: Any = await shard.runner.connection.call(
        lambda client: stream_info(client, key), what="events"
    )
    if not found or not found["first-entry"]:
        return None
    first = words(found["first-entry"][0])
    trimmed = int(found["entries-added"]) > int(found["length"])
    return first if trimmed and number(first) > number(after) else None


async def stream_info(client: Client, key: str) -> Any:
    """XINFO STREAM of a key; None where there is no stream."""
    from rqueue.store.errors import ServerRefused  # noqa: PLC0415 - the catalogue needs no driver

    try:
        return await client.xinfo_stream(key)
    except ServerRefused as error:
        if "no such key" in str(error):
            return None
        raise


def number(entry: str) -> tuple[int, int]:
    """The id of an entry as it sorts."""
    ms, _, at = entry.partition("-")
    return int(ms), int(at or 0)


T = TypeVar("T")
log = logging.getLogger("rqueue.events")
NOW = "$"
# A read waits at the server for at most so long, and is then repeated.
BLOCK_SEC = 5.0
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are wanted: names and patterns of names, and one task; empty means all."""

    names: tuple[str, ...] = ()
    task: TaskId | None = None

    def fits(self, event: Event) -> bool:
        """Whether an event is wanted."""
        named = not self.names or any(fnmatchcase(event.name, one) for one in self.names)
        return named and (self.task is None or self.task in event.tasks)


def event_filter_of(names: Iterable[str], task: TaskId | None) -> EventFilter:
    """The filter for these names and task; InvalidTask where a name matches no event."""
    chosen = (names,) if isinstance(names, str) else tuple(names)
    for name in chosen:
        if not any(fnmatchcase(known, str(name)) for known in CATALOGUE):
            raise InvalidTask("names", f"{name!r} matches no event; docs/events.md lists them")
    return EventFilter(chosen, task)


def place_of(after: str | None) -> str | None:
    """The checked start position, or InvalidTask."""
    if after is None or after == NOW:
        return after
    if not isinstance(after, str) or ENTRY.fullmatch(after) is None:
        raise InvalidTask("after", "is the id of an event such as 1700000000000-0, or $ for now")
    return after


class Follower:
    """Reads events from a position on: those that are stored, then new ones, until none has come
    for `wait_sec` (None: forever). Calls are retried for as long while the server is unavailable.
    """

    def __init__(
        self, shard: Shard, after: str | None, wanted: EventFilter, *, wait_sec: float | None
    ) -> None:
        self.shard = shard
        self.place = START if after is None else after
        self.wanted = wanted
        self.wait_sec = wait_sec
        self.block_sec = min(BLOCK_SEC, shard.terms.claim_wait_ms / 1000)

    async def events(self) -> AsyncGenerator[Event, None]:
        """The wanted events in order; raises EventsMissed where some have been trimmed."""
        while True:
            page = await self.retrying(self.page)
            for event in page:
                self.place = event.id
                if self.wanted.fits(event):
                    yield event
            if len(page) < PAGE and not await self.retrying(self.wait_for_more):
                return

    async def page(self) -> list[Event]:
        """The next stored events."""
        if self.place == NOW:
            self.place = await newest(self.shard)
        found = await read_events(self.shard, self.place)
        if found and self.place != START:
            # After the read, so that what was trimmed in between is noticed too.
            oldest = await oldest_if_trimmed(self.shard, self.place)
            if oldest is not None:
                raise EventsMissed(self.place, oldest)
        return found

    async def wait_for_more(self) -> bool:
        """Whether another event comes in time."""
        until = None if self.wait_sec is None else SYSTEM.monotonic() + self.wait_sec
        while True:
            left = self.block_sec if until is None else until - SYSTEM.monotonic()
            if left <= 0:
                return False
            if await wait_for_event(self.shard, self.place, min(left, self.block_sec)):
                return True

    async def retrying(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of `call`, repeated while the server is unavailable."""
        began, pause = SYSTEM.monotonic(), FIRST_PAUSE_SEC
        while True:
            try:
                return await call()
            except StoreUnavailable as error:
                away = SYSTEM.monotonic() - began
                if self.wait_sec is not None and away >= self.wait_sec:
                    raise
                level = logging.WARNING if pause == FIRST_PAUSE_SEC else logging.DEBUG
                log.log(level, "events cannot be read: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SEC)
