"""Graphs: what a DAG costs the server, beside single tasks that do the same work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from benchmarks import ours
from benchmarks.stand import PAYLOAD, Row, Stand, at_most
from rqueue.core import leases
from rqueue.dags import submit as dag_submit
from rqueue.dags.plan import Plan, dag_draft_of

NODES = 10_000
FEW = 1_000
BATCH = 100
MICRO = 1e6
UNIT = "us of Redis/task"
# No script may stop the server for longer.
SLOWEST_MS = 20


async def rows(stand: Stand, runs: int) -> list[Row]:
    """All rows of graphs."""
    return [
        await growth(stand, runs),
        at_most("fan-out and fan-in of 10,000", UNIT, await beside(stand, runs, fan, batches), 1.6),
        at_most("chain of 10,000, one by one", UNIT, await beside(stand, runs, chain, singly), 1.6),
        await longest(stand),
    ]


async def longest(stand: Stand) -> Row:
    """The longest script in the whole lives of both shapes, as the server counts: of those beyond
    a quarter of what is allowed, all are looked at.
    """
    client = stand.client
    await client.config_set("slowlog-log-slower-than", SLOWEST_MS * 250)
    await client.config_set("slowlog-max-len", 10_000)
    await client.slowlog_reset()
    for shape in (fan(NODES), chain(NODES)):
        await stand.empty()
        await run(stand, shape, BATCH)
    found = [entry["duration"] / 1000 for entry in await client.slowlog_get(10_000)
             if entry["command"].startswith(b"EVAL")]  # fmt: skip
    most = max(found, default=SLOWEST_MS / 4)
    return Row("longest script of these", "ms", most, None, f"<= {SLOWEST_MS}",
               most / SLOWEST_MS, most <= SLOWEST_MS)  # fmt: skip


async def growth(stand: Stand, runs: int) -> Row:
    """The server's time for submitting a DAG, for each node and edge, large against small."""
    pairs = []
    for _ in range(runs):
        small = await submit_cost(stand, layers(FEW))
        pairs.append((await submit_cost(stand, layers(NODES)), small))
    return at_most("submit of a DAG, 10,000 / 1,000 nodes", "us of Redis/node or edge", pairs, 1.3)


async def submit_cost(stand: Stand, plan: Plan) -> float:
    """The server's time a node or edge."""
    await stand.empty()
    units = len(plan.tasks) + sum(len(task.after) for task in plan.tasks)
    dag = dag_draft_of(plan, stand.queue._internals.drafter)
    return (
        await stand.spent(partial(dag_submit.submit, stand.queue._internals.shard, dag))
        / units
        * MICRO
    )


Single = Callable[[Stand], Awaitable[None]]


async def beside(
    stand: Stand, runs: int, shape: Callable[[int], Plan], single: Single
) -> list[tuple[float, float]]:
    """The server's time a task of a DAG from submit to end, against that of single tasks."""
    pairs = []
    for _ in range(runs):
        await stand.empty()
        alone = await stand.spent(partial(single, stand))
        await stand.empty()
        plan = shape(NODES)
        batch = 1 if single is singly else BATCH
        own = await stand.spent(partial(run, stand, plan, batch))
        pairs.append((own / NODES * MICRO, alone / NODES * MICRO))
    return pairs


async def run(stand: Stand, plan: Plan, batch: int) -> None:
    """Submits a DAG and works through it."""
    await dag_submit.submit(
        stand.queue._internals.shard, dag_draft_of(plan, stand.queue._internals.drafter)
    )
    waiter, done = ours.worker(stand), 0
    while done < len(plan.tasks):
        answer = await waiter.claim(batch, start=True)
        settled = [leases.Settled(grant.task, grant.token, b"") for grant in answer.grants]
        assert settled, f"{done} tasks were done and no more came"
        words = await leases.complete(stand.queue._internals.shard, settled)
        assert words == ["OK"] * len(settled)
        done += len(settled)


async def batches(stand: Stand) -> None:
    """As many single tasks, in batches."""
    await ours.live(stand, NODES)


async def singly(stand: Stand) -> None:
    """As many single tasks, claimed and settled one at a time."""
    await ours.produce(stand, NODES)
    waiter = ours.worker(stand)
    for _ in range(NODES):
        ((one,),) = await ours.claim(waiter, 1, 1)
        assert await leases.complete(stand.queue._internals.shard, [one]) == ["OK"]


def task(name: str, after: list[str]) -> dict[str, Any]:
    """A task of a plan."""
    return {"name": name, "type": "noop", "payload": PAYLOAD, "after": after}


def fan(nodes: int) -> Plan:
    """One task, then all others but one, then that one."""
    middle = [str(at) for at in range(1, nodes - 1)]
    tasks = [task("0", []), *(task(name, ["0"]) for name in middle), task(str(nodes - 1), middle)]
    return Plan.parse({"tasks": tasks})


def chain(nodes: int) -> Plan:
    """Each after the one before."""
    return Plan.parse(
        {"tasks": [task(str(at), [str(at - 1)] if at else []) for at in range(nodes)]}
    )


def layers(nodes: int) -> Plan:
    """Layers of 100, each task after three of the layer above."""
    tasks = []
    for at in range(nodes):
        above = at // 100 * 100 - 100
        after = [] if above < 0 else sorted({str(above + (at + step) % 100) for step in (0, 1, 7)})
        tasks.append(task(str(at), after))
    return Plan.parse({"tasks": tasks})
