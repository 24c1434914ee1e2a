"""Reads stored tasks part by part. Stored bytes may be damaged: a part that cannot be read is left
out and named, and the others are read all the same.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rqueue.errors import ScriptFault
from rqueue.store.lanes import read_lanes
from rqueue.store.replies import (
    UNREADABLE,
    dag_in,
    entry_ms,
    failure_in,
    holder_in,
    life,
    moment,
    natural,
    ok,
    text,
    words,
)
from rqueue.store.shard import BYTES
from rqueue.task.artifact import parse_lines, placeholder_in
from rqueue.task.codec import decode
from rqueue.task.fields import MICRO
from rqueue.task.ids import TaskId
from rqueue.task.lane import POINT, Lane
from rqueue.task.priority import effective
from rqueue.task.references import TaskOutput
from rqueue.task.spec import TaskSpec
from rqueue.task.state import LEASED, State
from rqueue.task.task import Claim, Task, Tokens

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import JsonValue

    from rqueue.core.claim import Grant
    from rqueue.store.runner import Reply
    from rqueue.store.shard import Shard


T = TypeVar("T")
ABOVE = re.compile("up[0-9]*")
NO_LONGER_RANKED = (State.COMPLETED, State.CANCELLED)
NONE: tuple[str, ...] = ()
# States that an attempt has ended in.
ATTEMPT_ENDED = frozenset({State.COMPLETED, State.RETRYING, State.DEAD_LETTERED})


@dataclass(slots=True)
class Stored:
    """A row of the read move, its hash as text, and the parts that could not be read so far."""

    fields: dict[str, str]
    definition: bytes = b""
    result: bytes = b""
    records: Sequence[bytes] = ()
    waits: Sequence[bytes] = ()
    idle: object = b""
    note_fields: Sequence[bytes] = ()
    log_lines: Sequence[bytes] = ()
    dependency_list: Sequence[bytes] = ()
    step_names: Sequence[bytes] = ()
    damaged: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """The row as the move returns it."""
        flat, *rest = row
        found = [words(word) for word in flat]
        return cls(dict(zip(found[::2], found[1::2], strict=True)), *rest)

    def task(self, id: TaskId, lane: Lane | None, *, now_ms: int, lease_ms: int) -> Task:
        """The task; raises one of UNREADABLE where its state is unknown to this release."""
        state = State(self.fields["state"])
        parts = {
            **self.requested(lane),
            **self.counters(),
            **self.dag_fields(),
            **self.moments(id, state),
            **self.failures(),
            **self.notes(),
            "blocked_by": self.part("waits", self.blocked_by, NONE),
            **self.outcome(),
            "logs": tuple(words(line) for line in self.log_lines),
            "steps": tuple(sorted(words(name) for name in self.step_names)),
        }
        if state in LEASED:
            parts["claim"] = self.part("holder", lambda: self.claim(now_ms, lease_ms), None)
            self.part("entry", lambda: entry_ms(self.fields["entry"]), 0)
        if state is State.CANCELLED:
            parts["cancel_reason"] = self.fields.get("why")
        if state not in NO_LONGER_RANKED:
            rank = partial(self.priority, lane, now_ms)
            parts["effective_priority"] = self.part("score", rank, None)
        return Task(id=id, state=state, **parts, damaged=tuple(self.damaged))

    def part(self, name: str, value: Callable[[], T], instead: T) -> T:
        """The value of a part, or the replacement where it cannot be read."""
        try:
            return value()
        except UNREADABLE:
            self.damaged[name] = None
            return instead

    def number(self, name: str) -> int:
        """A number of the hash, 0 where there is none."""
        return self.part(name, lambda: natural(self.fields.get(name, "0")), 0)

    def moment(self, name: str) -> datetime | None:
        """An instant of the hash, if there is one."""
        if name not in self.fields:
            return None
        return self.part(name, lambda: moment(int(float(self.fields[name]))), None)

    def lane(self) -> int | None:
        """The number of its lane."""
        return self.part("lane", lambda: int(self.fields["lane"]), None)

    def priority(self, lane: Lane | None, now_ms: int) -> float:
        """The effective priority."""
        return effective(int(self.fields["score"]) / POINT, lane.rate if lane else 0.0, now_ms)

    def requested(self, lane: Lane | None = None) -> dict[str, Any]:
        """The spec, with the current priority and dependencies."""
        spec, unreadable = TaskSpec.salvage(self.definition, lane.type if lane else None)
        if "priority" in self.fields:
            points = self.part("priority", lambda: int(self.fields["priority"]) / POINT, None)
            spec = spec if points is None else spec.model_copy(update={"priority": points})
        inside = self.part("parents", self.dependencies, NONE)
        if inside:
            # Dependencies outside its DAG are part of the definition.
            whole = tuple(dict.fromkeys([*inside, *spec.depends_on]))
            spec = spec.model_copy(update={"depends_on": whole})
        return {"spec": spec, "unreadable": unreadable}

    def counters(self) -> dict[str, Any]:
        """The counters of a task."""
        epoch = self.fields.get("token", "0").split(":")[0]
        return {
            "life": self.part("more", lambda: life(self.fields.get("more", "")), 1),
            "attempts": self.number("attempts"),
            "reclaims": self.number("reclaims"),
            "parks": self.number("parks"),
            "epoch": self.part("token", lambda: natural(epoch), 0),
        }

    def dag_fields(self) -> dict[str, Any]:
        """Its DAG, which the flags name after their letters, and the boost that its
        position there gives.
        """
        return {
            "dag": self.part("flags", lambda: dag_in(self.fields.get("flags", "")), None),
            "dependency_boost": self.number("rank") / POINT,
        }

    def moments(self, id: TaskId, state: State) -> dict[str, Any]:
        """The times of a task's life; without a stored creation time, that of its id."""
        created = (
            self.moment("created")
            or self.part("entry", lambda: moment(entry_ms(self.fields["entry"])), None)
            or moment(id.created_ms)
        )
        started = self.part("holder", self.started, None)
        finished, due = self.moment("finished"), self.moment("due")
        # A dead task that was discarded has an earlier `finished`.
        cancelled = self.moment("discarded") or finished
        return {
            "created_at": created,
            "started_at": started,
            "available_at": due if state in (State.PENDING, State.RETRYING) else None,
            "completed_at": finished if state is State.COMPLETED else None,
            "cancelled_at": cancelled if state is State.CANCELLED else None,
            "updated_at": finished or max(created, started or created),
        }

    def started(self) -> datetime | None:
        """When its holder, or its last one, started it. An attempt that ended before its start was
        recorded began when it was claimed, or a moment later.
        """
        if "holder" not in self.fields:
            return None
        claimed, ms, _ = holder_in(self.fields["holder"])
        if not ms and self.fields.get("state") in ATTEMPT_ENDED:
            ms = claimed
        return moment(ms) if ms else None

    def claim(self, now_ms: int, lease_ms: int) -> Claim:
        """The holder of the task, from its hash and the pending list."""
        claimed, _, owner = holder_in(self.fields["holder"])
        last_seen_ms = now_ms - int(str(self.idle)) if self.idle != b"" else claimed
        return Claim(
            agent_id=owner,
            claimed_at=moment(claimed),
            heartbeat_at=moment(last_seen_ms),
            lease_expires_at=moment(last_seen_ms + lease_ms),
        )

    def dependencies(self) -> tuple[str, ...]:
        """Its dependencies inside its DAG, which the definition does not have. Few are fields of
        its hash, two per field; many are a list.
        """
        kept = [value for name, value in self.fields.items() if ABOVE.fullmatch(name)]
        kept += [words(ulid) for ulid in self.dependency_list]
        return tuple(TaskId.parse(ulid) for ulid in " ".join(kept).split())

    def blocked_by(self) -> tuple[str, ...]:
        """The tasks that it waits for, without `@time`, which is no task."""
        waits = [name.decode() for name in self.waits if not name.startswith(b"@")]
        return tuple(sorted(map(TaskId.from_ulid, waits)))

    def outcome(self) -> dict[str, Any]:
        """What its handler returned, or the artifact that holds it."""
        kept = placeholder_in(self.result)
        if kept or not self.result:
            return {"result_artifact": kept}
        return {"result": self.part("result", lambda: decode(self.result, field="result"), None)}

    def failures(self) -> dict[str, Any]:
        """How earlier attempts ended."""
        read = [self.part("failures", partial(failure_in, each), None) for each in self.records]
        history = tuple(record for record in read if record is not None)
        return {
            "failure_reason": self.fields.get("reason"),
            "failure_history": history,
            "last_error": history[-1].error if history else None,
            "poison_pill": self.fields.get("poison") == "1",
            "reviewed": "reviewed" in self.fields,
            "resolution": self.fields.get("resolution"),
            "failed_by": tuple(self.fields.get("failed_by", "").split()),
        }

    def notes(self) -> dict[str, Any]:
        """What the task has reported about itself."""
        note_fields = dict(zip(self.note_fields[::2], self.note_fields[1::2], strict=True))

        def value(name: str) -> JsonValue:
            data = note_fields.get(name.encode(), b"null")
            return self.part(name, lambda: decode(data, field=name), None)

        def number(name: str) -> int:
            return self.part(name, lambda: natural(note_fields.get(name.encode(), b"0")), 0)

        put = note_fields.get(b"artifacts", b"")
        return {
            "attached": self.part("artifacts", lambda: parse_lines(put), parse_lines(b"")),
            "progress": value("progress"),
            "checkpoint": value("checkpoint"),
            "cost_usd": number("micro_usd") / MICRO,
            "tokens_used": Tokens(input=number("tokens_in"), output=number("tokens_out")),
        }


def claimed_task(grant: Grant) -> Task:
    """The task of a grant, as it was claimed."""
    id = TaskId.from_ulid(grant.task)
    stored = Stored({"more": words(grant.more), "token": grant.token}, grant.definition)
    parts = {**stored.requested(), **stored.counters()}
    own = {"attempts": grant.attempts, "reclaims": grant.reclaims, "failed_by": grant.failed_by}
    made = stored.part("created", partial(moment, grant.created_ms), None)
    parts |= {**own, "created_at": made or moment(id.created_ms)}
    return Task(id=id, state=State.CLAIMED, **parts, damaged=tuple(stored.damaged))


# Tasks per call, fewer where their results are large.
OUTPUTS_PAGE = 100
GONE = "GONE"


async def outputs(shard: Shard, tasks: Sequence[str]) -> list[TaskOutput]:
    """The state and result of each task, by ULID, in this order."""
    found: list[TaskOutput] = []
    while len(found) < len(tasks):
        rows = [(task,) for task in tasks[len(found) : len(found) + OUTPUTS_PAGE]]
        words = ok("task/outputs", "", await shard.run("task/outputs", {"limit": BYTES}, rows))
        for word, result in zip(words[::2], words[1::2], strict=True):
            state = text(word)
            found.append(TaskOutput(None if state == GONE else State(state), bytes(result)))
    return found


log = logging.getLogger("rqueue.store")
# Tasks per call: each has up to ten keys to read.
PAGE = 200
# How many warnings are stored, so that they are not repeated: a stored task is read often.
MEMORY = 10_000


class Reader:
    """Reads tasks of one shard. Lanes are cached: a number never changes its meaning.

    A task never prevents others from being read: a part that cannot be read is left out (see
    `Task.unreadable` and `damaged`), and a task without a known state is skipped.
    """

    def __init__(self, shard: Shard, *, lease_ms: int) -> None:
        self.shard = shard
        self.lease_ms = lease_ms
        self.lanes: dict[int, Lane] = {}
        self.warned: set[tuple[str, str]] = set()

    async def read(self, tasks: Sequence[str]) -> list[Task | None]:
        """The tasks of these ULIDs, None for those that do not exist; each page is one moment."""
        found: list[Task | None] = []
        while len(found) < len(tasks):
            found += await self.read_page(tasks[len(found) : len(found) + PAGE])
        return found

    async def read_page(self, page: Sequence[str]) -> list[Task | None]:
        """The first tasks of a page, as many as one call reads."""
        try:
            reply = await self.fetch(page)
        except ScriptFault as fault:
            if "WRONGTYPE" not in str(fault.reply):
                raise
            if len(page) == 1:
                self.warn(page[0], "is skipped: one of its keys has another type")
                return [None]
            return await self.read_page(page[: len(page) // 2])
        now_ms, *rows = ok("task/read", "", reply)
        seen = zip(page[: len(rows)], rows, strict=True)
        return [await self.task_of(task, row, int(now_ms)) for task, row in seen]

    async def fetch(self, page: Sequence[str]) -> Reply:
        """One call of the move."""
        return await self.shard.run("task/read", {"limit": BYTES}, [(task,) for task in page])

    async def definition(self, task: str) -> bytes:
        """The stored bytes of a task's definition."""
        (_, row) = ok("task/read", "", await self.fetch([task]))
        return bytes(row[1])

    async def task_of(self, task: str, row: list[Any], now_ms: int) -> Task | None:
        """One row of the read move as a Task."""
        if not row[0]:
            return None
        stored = Stored.of(row)
        number = stored.lane()
        lane = None if number is None else await self.lane(number)
        try:
            found = stored.task(TaskId.from_ulid(task), lane, now_ms=now_ms, lease_ms=self.lease_ms)
        except UNREADABLE as error:
            self.warn(task, f"is skipped: {type(error).__name__} while reading it")
            return None
        if found.damaged:
            self.warn(task, f"cannot be read completely, see {', '.join(found.damaged)}")
        return found

    async def lane(self, number: int) -> Lane | None:
        """The lane with a number, read once."""
        if number not in self.lanes:
            self.lanes = (await read_lanes(self.shard)).by_number()
        return self.lanes.get(number)

    def warn(self, task: str, fault: str) -> None:
        """Logs a fault of a task once."""
        if (task, fault) in self.warned:
            return
        if len(self.warned) >= MEMORY:
            self.warned.clear()
        self.warned.add((task, fault))
        log.warning("task %s %s", task, fault, extra={"task": task})
