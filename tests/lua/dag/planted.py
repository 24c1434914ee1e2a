"""DAGs for tests of scripts: written part by part or whole, and what has become of them."""

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
from tests.lua.task.keys_after import afterwards, ask

Edges = Mapping[str, Sequence[str]]
TRIES = 100
EVENTS = 1000
DIAMOND: Edges = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


@dataclass(frozen=True, slots=True)
class Planted:
    """A DAG of a test: what is sent of it, and its tasks by name."""

    harness: Harness
    planting: DagDraft
    ids: Mapping[str, TaskId]

    @property
    def dag(self) -> str:
        return self.planting.id.ulid

    @property
    def names(self) -> dict[str, str]:
        """Names for every id, as `afterwards` takes them."""
        return {"D": self.dag, **self.ids}

    def parts(self) -> list[list[Row]]:
        """Its tasks as they are sent, in portions."""
        return list(dag_submit.pages(dag_submit.numbered(self.planting.nodes, (PLAIN,))))

    async def write(self, rows: Sequence[Row]) -> list[Any]:
        """The reply to one part."""
        args, rows = dag_submit.part_call(
            self.harness.queue._internals.shard, self.planting, (PLAIN,), rows
        )
        return await ask(self.harness, "dag/submit", args, rows)

    async def written(self) -> Planted:
        """All of it written, nothing committed."""
        for rows in self.parts():
            assert await self.write(rows) == ["OK"]
        return self

    async def commit(self, *, total: int | str | None = None, limit: int = 250) -> list[Any]:
        """The reply to one call of commit."""
        number = len(self.planting.nodes) if total is None else total
        args: dict[str, Any] = {"dag": self.dag, "total": number, "limit": limit, "tries": TRIES}
        return await ask(self.harness, "dag/commit", args)

    async def drop(self, *, limit: int = 250, idle_ms: int = 0) -> list[Any]:
        """The reply to one call of drop."""
        args: dict[str, Any] = {"dag": self.dag, "limit": limit, "idle_ms": idle_ms}
        return await ask(self.harness, "dag/drop", args)

    async def cancel(self, reason: str = "", *, limit: int = 250, request: str = "r") -> list[Any]:
        """The reply to one call of cancel."""
        how = ending(self.harness.queue._internals.shard.terms)
        args: dict[str, Any] = {
            "dag": self.dag,
            "reason": reason,
            "limit": limit,
            "how": how,
            "request": request,
        }
        return await ask(self.harness, "dag/cancel", args)

    async def pause(self, *, begin: int = 1, limit: int = 250) -> list[Any]:
        """The reply to one call of pause."""
        return await ask(
            self.harness, "dag/pause", {"dag": self.dag, "limit": limit, "begin": begin}
        )

    async def resume(self, *, begin: int = 1, limit: int = 250) -> list[Any]:
        """The reply to one call of resume."""
        args: dict[str, Any] = {"dag": self.dag, "limit": limit, "tries": TRIES, "begin": begin}
        return await ask(self.harness, "dag/resume", args)

    async def forget(self, *, limit: int = 250, archive: int = 0) -> list[Any]:
        """The reply to one call of forget."""
        args: dict[str, Any] = {"dag": self.dag, "limit": limit, "archive": archive, "ttl": 60_000}
        return await ask(self.harness, "dag/forget", args)

    async def field(self, name: str) -> str | None:
        """A field of its hash."""
        found = await self.harness.client.hget(self.harness.keys.dag(self.dag), name)
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
        """Every key, see `afterwards`."""
        return await afterwards(self.harness, **self.names)

    async def steps(self) -> dict[str, str]:
        """What is begun with it and unfinished, by verb."""
        found = await self.harness.client.hgetall(self.harness.keys.unfinished())
        words = {name.decode().split(" ")[0]: at.decode() for name, at in found.items()}
        return {verb: at for verb, at in words.items() if verb != "rank"}


def a_plant(
    harness: Harness,
    edges: Edges,
    *,
    more: Mapping[str, Mapping[str, Any]] | None = None,
    asks: Mapping[str, Mapping[str, Any]] | None = None,
    outside: Mapping[str, Sequence[str]] | None = None,
    follow: str = "",
    definition: str = DEFINITION,
    **facts: Any,
) -> Planted:
    """A DAG that is nowhere yet; parents come before children. Facts are fields of its hash."""
    ids = dict(zip(edges, new_task_ids(len(edges)), strict=True))
    kept, wishes, others = more or {}, asks or {}, outside or {}
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
    return Planted(harness, DagDraft(new_dag_id(), words, nodes, follow), ids)


async def planted(harness: Harness, edges: Edges, **options: Any) -> Planted:
    """A DAG that is committed."""
    plant = a_plant(harness, edges, **options)
    await dag_submit.submit(harness.queue._internals.shard, plant.planting)
    return plant


def fan(width: int, *, to_one: bool = False) -> Edges:
    """One task that many wait for, or many that one waits for."""
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


async def run(plant: Planted, **ends: str) -> None:
    """Lets tasks end one after the other, each when its turn comes: `done` or `dead`."""
    by_id = {task: name for name, task in plant.ids.items()}
    waiting = dict(ends)
    held: dict[str, Lease] = {}
    for name in ends:
        while name not in held:
            leases = await running(plant.harness, 100)
            assert leases, f"{name} cannot run: {await plant.states()}"
            held |= {by_id.get(lease.id, lease.id): lease for lease in leases}
        lease = held.pop(name)
        await (lease.complete() if waiting[name] == "done" else lease.fail(permanent=True))
    for lease in held.values():
        await lease.release()


async def settled(harness: Harness) -> None:
    """Lets the services take every step that was left to them."""
    runtime = harness.queue._internals.runtime
    keeper = Resumer(harness.queue._internals.shard, Drafter(runtime.settings, SYSTEM))
    for _ in range(3):
        await harness.promoter.tick()
        await keeper.tick()
