"""Reading tasks: what the store holds of one, turned into the model's Task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rqueue.model.attempt import AttemptRecord
from rqueue.model.codec import decode
from rqueue.model.ids import TaskId
from rqueue.model.lane import POINT, Lane
from rqueue.model.spec import TaskSpec
from rqueue.model.state import IN_HAND, State
from rqueue.model.task import Claim, Task
from rqueue.policy.priority import effective
from rqueue.store.lanes import read_lanes
from rqueue.store.replies import ok
from rqueue.store.shard import CHUNK

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

Fields = dict[str, str]


class Reader:
    """Reads tasks of one shard. Lanes are remembered: a number never changes its meaning."""

    def __init__(self, shard: Shard, *, lease_ms: int) -> None:
        self.shard = shard
        self.lease_ms = lease_ms
        self.lanes: dict[int, Lane] = {}

    async def read(self, tasks: Sequence[str]) -> list[Task | None]:
        """The tasks of these ULIDs, None for those that are not there; each page one moment."""
        found: list[Task | None] = []
        for start in range(0, len(tasks), CHUNK):
            page = tasks[start : start + CHUNK]
            reply = await self.shard.run("task/read", rows=[(task,) for task in page])
            now_ms, *rows = ok("task/read", "", reply)
            for task, row in zip(page, rows, strict=True):
                found.append(await self.task_of(task, row, int(now_ms)))
        return found

    async def definition(self, task: str) -> bytes:
        """The bytes of a task's definition, as they are stored."""
        (_, row) = ok("task/read", "", await self.shard.run("task/read", rows=[(task,)]))
        return bytes(row[1])

    async def task_of(self, task: str, row: list[Any], now_ms: int) -> Task | None:
        """One row of the read script as a Task."""
        flat, definition, result, failures, waits, idle = row
        if not flat:
            return None
        words = [word.decode() if isinstance(word, bytes) else str(word) for word in flat]
        fields: Fields = dict(zip(words[::2], words[1::2], strict=True))
        state = State(fields["state"])
        history = tuple(AttemptRecord.model_validate_json(record) for record in failures)
        spec = TaskSpec.from_definition(definition)
        if "priority" in fields:
            spec = spec.model_copy(update={"priority": int(fields["priority"]) / POINT})
        return Task(
            id=TaskId.from_ulid(task),
            spec=spec,
            state=state,
            **counters(fields),
            **moments(fields, state, now_ms),
            claim=self.claim_of(fields, idle, now_ms) if state in IN_HAND else None,
            blocked_by=tuple(sorted(TaskId.from_ulid(w.decode()) for w in waits if w != b"@time")),
            cancel_reason=fields.get("why") if state is State.CANCELLED else None,
            failure_reason=fields.get("reason"),
            failure_history=history,
            last_error=history[-1].error if history else None,
            result=decode(result, field="result") if result else None,
            effective_priority=await self.priority_of(fields, state, now_ms),
        )

    def claim_of(self, fields: Fields, idle: object, now_ms: int) -> Claim:
        """Who holds the task, by its hash and the pending list."""
        claimed, _, owner = fields["holder"].split(" ")
        heard = now_ms - int(str(idle)) if idle != b"" else int(claimed)
        return Claim(
            agent_id=owner,
            claimed_at=moment(int(claimed)),
            heartbeat_at=moment(heard),
            lease_expires_at=moment(heard + self.lease_ms),
        )

    async def priority_of(self, fields: Fields, state: State, now_ms: int) -> float | None:
        """The effective priority of a task that is not ended."""
        if "score" not in fields or state in (State.COMPLETED, State.CANCELLED):
            return None
        lane = await self.lane(int(fields["lane"]))
        rate = lane.rate if lane else 0.0
        return effective(int(fields["score"]) / POINT, rate, now_ms)

    async def lane(self, number: int) -> Lane | None:
        """The lane with a number, asked for once."""
        if number not in self.lanes:
            self.lanes = (await read_lanes(self.shard)).by_number()
        return self.lanes.get(number)


def counters(fields: Fields) -> dict[str, Any]:
    """What is counted about a task."""
    more: Any = decode(fields.get("more", "{}").encode(), field="more")
    return {
        "life": int(more.get("life", 1)),
        "attempts": int(fields.get("attempts", 0)),
        "reclaims": int(fields.get("reclaims", 0)),
        "epoch": int(fields.get("token", "0").split(":")[0]),
    }


def moments(fields: Fields, state: State, now_ms: int) -> dict[str, Any]:
    """The times of a task's life."""
    created = int(fields.get("created") or fields["entry"].split("-")[0])
    started = int(fields["holder"].split(" ")[1]) if "holder" in fields else 0
    finished = moment(int(fields["finished"])) if "finished" in fields else None
    due = moment(int(float(fields["due"]))) if "due" in fields else None
    return {
        "created_at": moment(created),
        "started_at": moment(started) if started else None,
        "available_at": due if state in (State.PENDING, State.RETRYING) else None,
        "completed_at": finished if state is State.COMPLETED else None,
        "cancelled_at": finished if state is State.CANCELLED else None,
        "updated_at": finished or moment(max(created, started)),
    }


def moment(ms: int) -> datetime:
    """A time of the server as an instant."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
