"""What is stored of one task, read part by part. The bytes may be anyone's: a part that cannot be
read is left out and named, and the others are read all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rqueue.model.artifact import listed, stowed_in
from rqueue.model.codec import decode
from rqueue.model.ids import TaskId
from rqueue.model.lane import POINT, Lane
from rqueue.model.money import MICRO
from rqueue.model.spec import TaskSpec
from rqueue.model.state import IN_HAND, State
from rqueue.model.task import Claim, Task, Tokens
from rqueue.policy.priority import effective
from rqueue.store.values import (
    UNREADABLE,
    dag_in,
    entry_ms,
    failure_in,
    holder_in,
    life,
    moment,
    natural,
    words,
)

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import JsonValue

    from rqueue.store.claims import Grant

T = TypeVar("T")
ABOVE = re.compile("up[0-9]*")
NO_LONGER_RANKED = (State.COMPLETED, State.CANCELLED)
NOBODY: tuple[str, ...] = ()
# States that an attempt has ended in.
TRIED = frozenset({State.COMPLETED, State.RETRYING, State.DEAD_LETTERED})


@dataclass(slots=True)
class Stored:
    """A row of the read script, its hash as text; and the parts that could not be read so far."""

    fields: dict[str, str]
    definition: bytes = b""
    result: bytes = b""
    records: Sequence[bytes] = ()
    waits: Sequence[bytes] = ()
    idle: object = b""
    said: Sequence[bytes] = ()
    lines: Sequence[bytes] = ()
    many: Sequence[bytes] = ()
    done: Sequence[bytes] = ()
    damaged: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """The row as the script gives it."""
        flat, *rest = row
        found = [words(word) for word in flat]
        return cls(dict(zip(found[::2], found[1::2], strict=True)), *rest)

    def task(self, id: TaskId, lane: Lane | None, *, now_ms: int, lease_ms: int) -> Task:
        """The task; raises one of UNREADABLE where it has no state that this release knows."""
        state = State(self.fields["state"])
        parts = {
            **self.asked(lane),
            **self.counters(),
            **self.place(),
            **self.moments(id, state),
            **self.failures(),
            **self.notes(),
            "blocked_by": self.part("waits", self.parents, NOBODY),
            **self.outcome(),
            "logs": tuple(words(line) for line in self.lines),
            "steps": tuple(sorted(words(name) for name in self.done)),
        }
        if state in IN_HAND:
            parts["claim"] = self.part("holder", lambda: self.claim(now_ms, lease_ms), None)
            self.part("entry", lambda: entry_ms(self.fields["entry"]), 0)
        if state is State.CANCELLED:
            parts["cancel_reason"] = self.fields.get("why")
        if state not in NO_LONGER_RANKED:
            rank = partial(self.priority, lane, now_ms)
            parts["effective_priority"] = self.part("score", rank, None)
        return Task(id=id, state=state, **parts, damaged=tuple(self.damaged))

    def part(self, name: str, value: Callable[[], T], instead: T) -> T:
        """The value of a part, or what stands for it where it cannot be read."""
        try:
            return value()
        except UNREADABLE:
            self.damaged[name] = None
            return instead

    def number(self, name: str) -> int:
        """A number of the hash, 0 where there is none."""
        return self.part(name, lambda: natural(self.fields.get(name, "0")), 0)

    def moment(self, name: str) -> datetime | None:
        """An instant of the hash, if it is there."""
        if name not in self.fields:
            return None
        return self.part(name, lambda: moment(int(float(self.fields[name]))), None)

    def lane(self) -> int | None:
        """The number of its lane."""
        return self.part("lane", lambda: int(self.fields["lane"]), None)

    def priority(self, lane: Lane | None, now_ms: int) -> float:
        """The effective priority."""
        return effective(int(self.fields["score"]) / POINT, lane.rate if lane else 0.0, now_ms)

    def asked(self, lane: Lane | None = None) -> dict[str, Any]:
        """What was asked for, with the priority and the parents that it has now."""
        spec, unreadable = TaskSpec.salvage(self.definition, lane.type if lane else None)
        if "priority" in self.fields:
            points = self.part("priority", lambda: int(self.fields["priority"]) / POINT, None)
            spec = spec if points is None else spec.model_copy(update={"priority": points})
        above = self.part("parents", self.above, NOBODY)
        if above:
            # Those outside its DAG, if there are any, stand in the definition.
            whole = tuple(dict.fromkeys([*above, *spec.depends_on]))
            spec = spec.model_copy(update={"depends_on": whole})
        return {"spec": spec, "unreadable": unreadable}

    def counters(self) -> dict[str, Any]:
        """What is counted about a task."""
        epoch = self.fields.get("token", "0").split(":")[0]
        return {
            "life": self.part("more", lambda: life(self.fields.get("more", "")), 1),
            "attempts": self.number("attempts"),
            "reclaims": self.number("reclaims"),
            "parks": self.number("parks"),
            "epoch": self.part("token", lambda: natural(epoch), 0),
        }

    def place(self) -> dict[str, Any]:
        """Its DAG, which the flags name behind their letters, and what that gives it."""
        return {
            "dag": self.part("flags", lambda: dag_in(self.fields.get("flags", "")), None),
            "dependency_boost": self.number("rank") / POINT,
        }

    def moments(self, id: TaskId, state: State) -> dict[str, Any]:
        """The times of a task's life; it was created when its id was made if nothing else says."""
        created = (
            self.moment("created")
            or self.part("entry", lambda: moment(entry_ms(self.fields["entry"])), None)
            or moment(id.created_ms)
        )
        started = self.part("holder", self.started, None)
        finished, due = self.moment("finished"), self.moment("due")
        # A dead task that was given up had ended before.
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
        """When its holder, or the last it had, began. One whose attempt ended before its start was
        told began when it was claimed, or a moment later.
        """
        if "holder" not in self.fields:
            return None
        claimed, ms, _ = holder_in(self.fields["holder"])
        if not ms and self.fields.get("state") in TRIED:
            ms = claimed
        return moment(ms) if ms else None

    def claim(self, now_ms: int, lease_ms: int) -> Claim:
        """Who holds the task, by its hash and the pending list."""
        claimed, _, owner = holder_in(self.fields["holder"])
        heard = now_ms - int(str(self.idle)) if self.idle != b"" else claimed
        return Claim(
            agent_id=owner,
            claimed_at=moment(claimed),
            heartbeat_at=moment(heard),
            lease_expires_at=moment(heard + lease_ms),
        )

    def above(self) -> tuple[str, ...]:
        """What it comes after within its DAG; the definition does not say that. Few stand in its
        hash, two in a field, many in a list.
        """
        kept = [value for name, value in self.fields.items() if ABOVE.fullmatch(name)]
        kept += [words(ulid) for ulid in self.many]
        return tuple(TaskId.parse(ulid) for ulid in " ".join(kept).split())

    def parents(self) -> tuple[str, ...]:
        """The tasks that it waits for: not its time, which is no task."""
        waits = [name.decode() for name in self.waits if not name.startswith(b"@")]
        return tuple(sorted(map(TaskId.from_ulid, waits)))

    def outcome(self) -> dict[str, Any]:
        """What its handler returned, or where that is kept."""
        kept = stowed_in(self.result)
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
        """What the task has said of itself."""
        said = dict(zip(self.said[::2], self.said[1::2], strict=True))

        def value(name: str) -> JsonValue:
            data = said.get(name.encode(), b"null")
            return self.part(name, lambda: decode(data, field=name), None)

        def number(name: str) -> int:
            return self.part(name, lambda: natural(said.get(name.encode(), b"0")), 0)

        put = said.get(b"artifacts", b"")
        return {
            "attached": self.part("artifacts", lambda: listed(put), listed(b"")),
            "progress": value("progress"),
            "checkpoint": value("checkpoint"),
            "cost_usd": number("micro_usd") / MICRO,
            "tokens_used": Tokens(input=number("tokens_in"), output=number("tokens_out")),
        }


def claimed(grant: Grant) -> Task:
    """The task of a grant, as it was claimed."""
    id = TaskId.from_ulid(grant.task)
    stored = Stored({"more": words(grant.more), "token": grant.token}, grant.definition)
    parts = {**stored.asked(), **stored.counters()}
    own = {"attempts": grant.attempts, "reclaims": grant.reclaims, "failed_by": grant.failed_by}
    made = stored.part("created", partial(moment, grant.created_ms), None)
    parts |= {**own, "created_at": made or moment(id.created_ms)}
    return Task(id=id, state=State.CLAIMED, **parts, damaged=tuple(stored.damaged))
