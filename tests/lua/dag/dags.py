"""DAGs for tests of moves: written part by part or whole, and their stored state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqueue import Lease
from rqueue.clock import SYSTEM
from rqueue.core.submit import Draft
from rqueue.dags import submit as dag_submit
from rqueue.dags.resumer import Resumer
from rqueue.dags.submit import DagDraft, Node, Row
from rqueue.producer.drafts import Drafter
from rqueue.store.shard import ending
from rqueue.task.ids import TaskId, new_dag_id, new_task_ids
from tests.harness import Harness
from tests.lua.rows import BASE, DEFINITION, PLAIN, to_json
from tests.lua.task.keyspace import all_keys, run_move

Edges = Mapping[str, Sequence[str]]
TRIES = 100
DIAMOND: Edges = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


@dataclass(frozen=True, slots=True)
class StoredDag:
    """A DAG of a test: its draft, and the ids of its tasks by name."""

    harness: Harness
    draft: DagDraft
    ids: Mapping[str, TaskId]

    @property
    def ulid(self) -> str:
        return self.draft.id.ulid

    @property
    def names(self) -> dict[str, str]:
        """Names for every id, as `all_keys` takes them."""
        return {"D": self.ulid, **self.ids}

    def parts(self) -> list[list[Row]]:
        """Its tasks as they are sent, in portions."""
        return list(dag_submit.pages(dag_submit.numbered(self.draft.nodes, (PLAIN,))))

    async def write(self, rows: Sequence[Row]) -> list[Any]:
        """The reply to one part."""
        args, rows = dag_submit.part_call(
            self.harness.queue._internals.shard, self.draft, (PLAIN,), rows
        )
        return await run_move(self.harness, "dag/submit", args, rows)

    async def written(self) -> StoredDag:
        """All of it written, nothing committed."""
        for rows in self.parts():
            assert await self.write(rows) == ["OK"]
        return self

    async def commit(self, *, total: int | str | None = None, limit: int = 250) -> list[Any]:
        """The reply to one call of commit."""
        number = len(self.draft.nodes) if total is None else total
        args: dict[str, Any] = {"dag": self.ulid, "total": number, "limit": limit, "tries": TRIES}
        return await run_move(self.harness, "dag/commit", args)

    async def drop(self, *, limit: int = 250, idle_ms: int = 0) -> list[Any]:
        """The reply to one call of drop."""
        args: dict[str, Any] = {"dag": self.ulid, "limit": limit, "idle_ms": idle_ms}
        return await run_move(self.harness, "dag/drop", args)

    async def cancel(self, reason: str = "", *, limit: int = 250, request: str = "r") -> list[Any]:
        """The reply to one call of cancel."""
        how = ending(self.harness.queue._internals.shard.terms)
        args: dict[str, Any] = {
            "dag": self.ulid,
            "reason": reason,
            "limit": limit,
            "how": how,
            "request": request,
        }
        return await run_move(self.harness, "dag/cancel", args)

    async def pause(self, *, begin: int = 1, limit: int = 250) -> list[Any]:
        """The reply to one call of pause."""
        return await run_move(
            self.harness, "dag/pause", {"dag": self.ulid, "limit": limit, "begin": begin}
        )

    async def resume(self, *, begin: int = 1, limit: int = 250) -> list[Any]:
        """The reply to one call of resume."""
        args: dict[str, Any] = {"dag": self.ulid, "limit": limit, "tries": TRIES, "begin": begin}
        return await run_move(self.harness, "dag/resume", args)

    async def forget(self, *, limit: int = 250, archive: int = 0) -> list[Any]:
        """The reply to one call of forget."""
        args: dict[str, Any] = {"dag": self.ulid, "limit": limit, "archive": archive, "ttl": 60_000}
        return await run_move(self.harness, "dag/forget", args)

    async def field(self, name: str) -> str | None:
        """A field of its hash."""
        found = await self.harness.client.hget(self.harness.keys.dag(self.ulid), name)
        return None if found is None else found.decode()

    async def facts(self) -> tuple[str | None, ...]:
        """Its status, and how many of its tasks are open, dead and cancelled."""
        names = ("status", "open", "dead", "cancelled")
        return tuple([await self.field(name) for name in names])

    async def states(self) -> dict[str, str]:
        """The state of each task by its name; those that are gone are left out."""
        keys = self.harness.keys
        found = {
            name: await self.harness.client.hget(keys.task(task.ulid), "state")
            for name, task in self.ids.items()
        }
        return {name: state.decode() for name, state in found.items() if state is not None}

    async def counted(self) -> Counter[str]:
        """How many tasks are in which state."""
        return Counter((await self.states()).values())

    async def after(self) -> dict[str, Any]:
        """Every key, see `all_keys`."""
        return await all_keys(self.harness, **self.names)

    async def steps(self) -> dict[str, str]:
        """Its unfinished operations, by verb."""
        found = await self.harness.client.hgetall(self.harness.keys.unfinished())
        words = {name.decode().split(" ")[0]: at.decode() for name, at in found.items()}
        return {verb: at for verb, at in words.items() if verb != "rank"}


def unsent_dag(
    harness: Harness,
    edges: Edges,
    *,
    more: Mapping[str, Mapping[str, Any]] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    outside: Mapping[str, Sequence[str]] | None = None,
    follow: str = "",
    definition: str = DEFINITION,
    **facts: Any,
) -> StoredDag:
    """A DAG that is not written; dependencies come first. Facts are fields of its hash."""
    ids = dict(zip(edges, new_task_ids(len(edges)), strict=True))
    kept, wishes, others = more or {}, options or {}, outside or {}
    triggered = {name for name, facts in kept.items() if "trigger" in facts}
    flags, below = dag_submit.letters(edges, triggered), dag_submit.dependents(edges, triggered)
    nodes = [
        Node(
            ids[name],
            Draft(
                PLAIN,
                BASE,
                definition.encode(),
                to_json(dict(kept.get(name, {}))),
                to_json(dict(wishes.get(name, {}))),
            ),
            dependencies=[ids[parent].ulid for parent in parents],
            outside=others.get(name, ()),
            flags=flags[name],
            below=ids[below[name]].ulid if name in below else "",
        )
        for name, parents in edges.items()
    ]
    facts = {"on_failure": "hold", **facts}
    words = [word for pair in facts.items() for word in pair]
    return StoredDag(harness, DagDraft(new_dag_id(), words, nodes, follow), ids)


async def committed_dag(harness: Harness, edges: Edges, **options: Any) -> StoredDag:
    """A DAG that is committed."""
    dag = unsent_dag(harness, edges, **options)
    await dag_submit.submit(harness.queue._internals.shard, dag.draft)
    return dag


def fan(width: int, *, to_one: bool = False) -> Edges:
    """A fan-out of one task, or a fan-in to one."""
    names = [str(at) for at in range(width)]
    if to_one:
        return {**{name: [] for name in names}, "end": names}
    return {"a": [], **{name: ["a"] for name in names}}


async def running(harness: Harness, n: int = 1) -> list[Lease]:
    """The next tasks, started."""
    leases = list(await harness.queue.claim(worker="w1", n=n))
    for lease in leases:
        await lease.start()
    return leases


async def run(dag: StoredDag, **ends: str) -> None:
    """Claims and ends tasks in the given order: `done` or `dead`."""
    by_id = {task: name for name, task in dag.ids.items()}
    waiting = dict(ends)
    held: dict[str, Lease] = {}
    for name in ends:
        while name not in held:
            leases = await running(dag.harness, 100)
            assert leases, f"{name} cannot run: {await dag.states()}"
            held |= {by_id.get(lease.id, lease.id): lease for lease in leases}
        lease = held.pop(name)
        await (lease.complete() if waiting[name] == "done" else lease.fail(permanent=True))
    for lease in held.values():
        await lease.release()


async def settled(harness: Harness) -> None:
    """Runs the services until no step is left."""
    runtime = harness.queue._internals.runtime
    resumer = Resumer(harness.queue._internals.shard, Drafter(runtime.settings, SYSTEM))
    for _ in range(3):
        await harness.promoter.tick()
        await resumer.tick()
