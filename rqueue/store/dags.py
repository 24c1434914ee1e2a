"""DAGs that are there: looked at, given up, paused, resumed, and what was begun with them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.errors import DagEnded, DagNotFound, ScriptFault
from rqueue.model.dag import Dag, DagSpec, DagStatus
from rqueue.model.ids import DagId
from rqueue.model.money import MICRO, micro_usd
from rqueue.store.queue import answer_all
from rqueue.store.replies import text
from rqueue.store.shard import CHUNK, GIVEN_UP, TRIES, ending
from rqueue.store.values import moment

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# Tasks that one call holds back or lets go of.
STEP = 250
# For so long a DAG may be written without a sign of its producer.
WRITING_MS = 600_000


class Step(NamedTuple):
    """Something begun with a DAG that somebody must go on with, and how far it is. A `revive` has
    the ULID of a task there.
    """

    verb: str
    dag: DagId
    position: str


def ok(script: str, dag: str, reply: list[Any]) -> list[Any]:
    """The rest of a reply that begins with OK; the error of any other word."""
    match [text(reply[0]), *reply[1:]]:
        case ["OK", *rest]:
            return rest
        case ["GONE"]:
            raise DagNotFound(dag)
        case ["STATE", found]:
            raise DagEnded(dag, text(found))
        case _:
            raise ScriptFault(script, reply)


async def run(
    shard: Shard, script: str, dag: DagId, args: dict[str, Argument], *, rows: Any = ()
) -> list[Any]:
    """One call for one DAG."""
    return ok(script, dag, await shard.run(script, {"dag": dag.ulid, **args}, rows))


async def read(shard: Shard, dag: DagId) -> Dag:
    """A DAG as it is now; raises DagNotFound."""
    flat, _ = await run(shard, "dag/read", dag, {"from": 0, "limit": 1})
    return dag_of(dag, flat)


async def members(shard: Shard, dag: DagId) -> list[str]:
    """The ULIDs of its tasks, in the order they were written."""
    found: list[str] = []
    while True:
        args: dict[str, Argument] = {"from": len(found), "limit": CHUNK}
        _, page = await run(shard, "dag/read", dag, args)
        found += [text(task) for task in page]
        if len(page) < CHUNK:
            return found


async def walk(shard: Shard) -> AsyncIterator[Dag]:
    """The DAGs of the queue, the newest first."""
    start = 0
    while True:
        args: dict[str, Argument] = {"from": start, "limit": CHUNK}
        looked, *rows = ok("dag/list", "", await shard.run("dag/list", args))
        for ulid, flat in zip(rows[::2], rows[1::2], strict=True):
            yield dag_of(DagId.from_ulid(text(ulid)), flat)
        # Those that were gone have left the list.
        start += len(rows) // 2
        if int(looked) < CHUNK:
            return


def dag_of(dag: DagId, flat: Sequence[bytes]) -> Dag:
    """The DAG that a hash describes."""
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
    """Gives up all of a DAG that has not ended; how many tasks that were, by whomever. Without a
    reason, goes on with what was begun. Raises DagNotFound, and DagEnded where nothing is open.
    """
    args: dict[str, Argument] = {
        "reason": reason,
        "limit": GIVEN_UP,
        "how": ending(shard.terms),
        "request": secrets.token_hex(8),
    }
    done, more = 0, 1
    while more:
        more, done = map(int, await run(shard, "dag/cancel", dag, args))
    return done


async def pause(shard: Shard, dag: DagId, *, begin: bool = True) -> None:
    """Hands out nothing more of a DAG; what runs, runs on."""
    args: dict[str, Argument] = {"limit": STEP, **shard.by_hand()}
    while int((await run(shard, "dag/hold", dag, {**args, "begin": int(begin)}))[0]):
        begin = False


async def resume(shard: Shard, dag: DagId, *, begin: bool = True) -> None:
    """Hands a paused DAG out again. One that is paused anew meanwhile stays so."""
    args: dict[str, Argument] = {"limit": STEP, "tries": TRIES, **shard.by_hand()}
    while int((await run(shard, "dag/unhold", dag, {**args, "begin": int(begin)}))[0]):
        begin = False
        await answer_all(shard)


async def forget(shard: Shard, dag: DagId) -> None:
    """Lets the keys of a DAG that has ended expire."""
    terms = shard.terms
    args: dict[str, Argument] = {
        "limit": STEP,
        "archive": int(terms.archive),
        "ttl": terms.result_ttl_ms,
    }
    while int((await run(shard, "dag/forget", dag, args))[0]):
        continue


async def set_budget(shard: Shard, dag: DagId, usd: float | None) -> None:
    """Sets what its tasks together may cost; None for no limit."""
    args: dict[str, Argument] = {
        "micro_usd": "" if usd is None else micro_usd(usd),
        "limit": STEP,
        "tries": TRIES,
        **shard.by_hand(),
    }
    if int((await run(shard, "dag/budget", dag, args))[0]):
        await answer_all(shard)


async def follower(shard: Shard, dag: DagId) -> str:
    """The DAG that follows one that has completed, as JSON; "" for none."""
    args: dict[str, Argument] = {"done": 0, "refused": "", "events": shard.terms.events}
    return text((await run(shard, "dag/follow", dag, args))[0])


async def followed(shard: Shard, dag: DagId, *, refused: str = "") -> None:
    """Says that the one that follows is committed, or why it never will be."""
    args: dict[str, Argument] = {"done": 1, "refused": refused, "events": shard.terms.events}
    await run(shard, "dag/follow", dag, args)


async def steps(shard: Shard, *, limit: int = CHUNK) -> list[Step]:
    """What was begun with DAGs and is not finished."""
    args: dict[str, Argument] = {"limit": limit, "idle_ms": WRITING_MS}
    rows = [text(word) for word in ok("dag/steps", "", await shard.run("dag/steps", args))]
    found = []
    for name, position in zip(rows[::2], rows[1::2], strict=True):
        verb, _, ulid = name.partition(" ")
        found.append(Step(verb, DagId.from_ulid(ulid), position))
    return found
