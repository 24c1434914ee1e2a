"""Redis access of DAGs: read, list, cancel, pause, resume, budget, ranks and unfinished steps."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.core.counts import answer_all
from rqueue.errors import DagEnded, DagNotFound, ScriptFault
from rqueue.store.replies import moment, text
from rqueue.store.shard import CANCEL_LIMIT, CHUNK, TRIES, ending
from rqueue.task.dag import Dag, DagSpec, DagStatus
from rqueue.task.fields import MICRO, micro_usd
from rqueue.task.ids import DagId

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


# Tasks per call.
STEP = 250
# An uncommitted DAG is dropped if its producer writes nothing for this time.
WRITING_MS = 600_000


class Step(NamedTuple):
    """An unfinished operation on a DAG, and its position. In a `revive` step, `dag` has the ULID of
    a task.
    """

    verb: str
    dag: DagId
    position: str


def ok(move: str, dag: str, reply: list[Any]) -> list[Any]:
    """Returns the rest of a reply that begins with OK. Raises the error for any other reply
    word.
    """
    match [text(reply[0]), *reply[1:]]:
        case ["OK", *rest]:
            return rest
        case ["GONE"]:
            raise DagNotFound(dag)
        case ["STATE", found]:
            raise DagEnded(dag, text(found))
        case _:
            raise ScriptFault(move, reply)


async def run(
    shard: Shard, move: str, dag: DagId, args: dict[str, Argument], *, rows: Any = ()
) -> list[Any]:
    """Calls a move for one DAG; returns the rest of its reply."""
    return ok(move, dag, await shard.run(move, {"dag": dag.ulid, **args}, rows))


async def read(shard: Shard, dag: DagId) -> Dag:
    """Returns the current state of a DAG; raises DagNotFound."""
    flat, _ = await run(shard, "dag/read", dag, {"from": 0, "limit": 1})
    return dag_of(dag, flat)


async def members(shard: Shard, dag: DagId) -> list[str]:
    """Returns the ULIDs of the tasks of a DAG, in the order of submission."""
    found: list[str] = []
    while True:
        args: dict[str, Argument] = {"from": len(found), "limit": CHUNK}
        _, page = await run(shard, "dag/read", dag, args)
        found += [text(task) for task in page]
        if len(page) < CHUNK:
            return found


async def walk(shard: Shard) -> AsyncIterator[Dag]:
    """Yields the DAGs of the queue, newest first."""
    start = 0
    while True:
        args: dict[str, Argument] = {"from": start, "limit": CHUNK}
        scanned, *rows = ok("dag/list", "", await shard.run("dag/list", args))
        for ulid, flat in zip(rows[::2], rows[1::2], strict=True):
            yield dag_of(DagId.from_ulid(text(ulid)), flat)
        # Expired DAGs were removed from the list by the call.
        start += len(rows) // 2
        if int(scanned) < CHUNK:
            return


async def member_pages(shard: Shard, chosen: Callable[[Dag], bool]) -> AsyncIterator[list[str]]:
    """Yields pages of the tasks of the chosen DAGs. This also finds blocked tasks, which are in no
    lane.
    """
    async for dag in walk(shard):
        if chosen(dag):
            found = await members(shard, dag.id)
            for start in range(0, len(found), CHUNK):
                yield found[start : start + CHUNK]


def dag_of(dag: DagId, flat: Sequence[bytes]) -> Dag:
    """Returns the DAG in a stored hash."""
    words = [text(word) for word in flat]
    found = dict(zip(words[::2], words[1::2], strict=True))
    budget, threshold = found.get("budget"), found.get("threshold")
    spec = DagSpec(
        title=found.get("title"),
        created_by=found.get("created_by"),
        on_failure=found.get("on_failure", "hold"),
        failure_threshold=None if threshold is None else float(threshold),
        budget_usd=None if budget is None else int(budget) / MICRO,
        spawn=found.get("spawn"),
    )
    finished = found.get("finished")
    return Dag(
        id=dag,
        spec=spec,
        status=DagStatus(found["status"]),
        **{name: int(found.get(name, 0)) for name in ("total", "open", "dead", "cancelled")},
        edges=int(found.get("edges", 0)),
        spent_usd=int(found.get("spent", 0)) / MICRO,
        paused="paused" in found,
        escalated="escalated" in found,
        closing="closing" in found and finished is None,
        reason=found.get("why"),
        next=DagId.from_ulid(found["follow"]) if "follow" in found else None,
        next_refused=found.get("refused"),
        created_at=moment(int(found["created"])),
        finished_at=None if finished is None else moment(int(finished)),
    )


async def cancel(shard: Shard, dag: DagId, reason: str = "") -> int:
    """Cancels all tasks of a DAG that have not ended. Returns how many tasks this cancellation has
    cancelled in all its calls, by any process. Without a reason, continues an unfinished
    cancellation. Raises DagNotFound, and DagEnded if no task is open.
    """
    args: dict[str, Argument] = {
        "reason": reason,
        "limit": CANCEL_LIMIT,
        "how": ending(shard.terms),
        "request": secrets.token_hex(8),
    }
    done, more = 0, 1
    while more:
        more, done = map(int, await run(shard, "dag/cancel", dag, args))
    return done


async def pause(shard: Shard, dag: DagId, *, begin: bool = True) -> None:
    """Pauses a DAG: none of its tasks is claimed, running tasks continue."""
    args: dict[str, Argument] = {"limit": STEP, **shard.request_args()}
    while int((await run(shard, "dag/pause", dag, {**args, "begin": int(begin)}))[0]):
        begin = False


async def resume(shard: Shard, dag: DagId, *, begin: bool = True) -> None:
    """Resumes a paused DAG, unless it is paused again in the meantime."""
    args: dict[str, Argument] = {"limit": STEP, "tries": TRIES, **shard.request_args()}
    while int((await run(shard, "dag/resume", dag, {**args, "begin": int(begin)}))[0]):
        begin = False
        await answer_all(shard)


async def forget(shard: Shard, dag: DagId) -> None:
    """Sets the expiry of the keys of a DAG that has ended."""
    terms = shard.terms
    args: dict[str, Argument] = {
        "limit": STEP,
        "archive": int(terms.archive),
        "ttl": terms.result_ttl_ms,
    }
    while int((await run(shard, "dag/forget", dag, args))[0]):
        continue


async def set_budget(shard: Shard, dag: DagId, usd: float | None) -> None:
    """Sets the budget of a DAG; None for no limit."""
    args: dict[str, Argument] = {
        "micro_usd": "" if usd is None else micro_usd(usd),
        "limit": STEP,
        "tries": TRIES,
        **shard.request_args(),
    }
    if int((await run(shard, "dag/budget", dag, args))[0]):
        await answer_all(shard)


async def follower(shard: Shard, dag: DagId) -> str:
    """Returns the follow-up plan of a completed DAG, as JSON; "" for none."""
    args: dict[str, Argument] = {"done": 0, "refused": "", "events": shard.terms.events}
    return text((await run(shard, "dag/follow", dag, args))[0])


async def followed(shard: Shard, dag: DagId, *, refused: str = "") -> None:
    """Records that the follow-up DAG is committed, or why it was refused."""
    args: dict[str, Argument] = {"done": 1, "refused": refused, "events": shard.terms.events}
    await run(shard, "dag/follow", dag, args)


async def steps(shard: Shard, *, limit: int = CHUNK) -> list[Step]:
    """Returns the unfinished operations on DAGs."""
    args: dict[str, Argument] = {"limit": limit, "idle_ms": WRITING_MS}
    rows = [text(word) for word in ok("dag/steps", "", await shard.run("dag/steps", args))]
    found = []
    for name, position in zip(rows[::2], rows[1::2], strict=True):
        verb, _, ulid = name.partition(" ")
        found.append(Step(verb, DagId.from_ulid(ulid), position))
    return found


class Ranked(NamedTuple):
    """A task that has not ended, its boost in millionths of a point, and its dependencies."""

    task: str
    rank: int
    dependencies: Sequence[str]


async def edges(shard: Shard, dag: DagId) -> list[Ranked]:
    """Returns the tasks of a DAG that have not ended; each page is a snapshot. Raises
    DagNotFound.
    """
    found: list[Ranked] = []
    at = "0"
    while at:
        args: dict[str, Argument] = {"from": at, "limit": CHUNK}
        at, *words = [text(word) for word in await run(shard, "dag/edges", dag, args)]
        for task, rank, dependencies in zip(words[::3], words[1::3], words[2::3], strict=True):
            found.append(Ranked(task, int(rank), dependencies.split()))
    return found


async def rank(shard: Shard, dag: DagId, ranks: Sequence[tuple[str, int]], *, seen: str) -> None:
    """Writes new critical-path boosts of tasks; `seen` is the position of the step."""
    for start in range(0, max(len(ranks), 1), STEP):
        page = ranks[start : start + STEP]
        last = start + STEP >= len(ranks)
        await run(shard, "dag/rank", dag, {"seen": seen if last else ""}, rows=page)
