"""The server time of a DAG, compared with single tasks that do the same work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from benchmarks import ours
from benchmarks.environment import PAYLOAD, Environment
from benchmarks.table import Row, at_most
from rqueue.core import leases
from rqueue.dags import submit as dag_submit
from rqueue.dags.plan import Plan, dag_draft_of

NODES = 10_000
FEW = 1_000
BATCH = 100
MICRO = 1e6
UNIT = "us of Redis/task"
# No call may occupy the server for longer.
SLOWEST_MS = 20


async def rows(env: Environment, runs: int) -> list[Row]:
    """All rows of DAGs."""
    return [
        await growth(env, runs),
        at_most("fan-out and fan-in of 10,000", UNIT, await costs(env, runs, fan, batches), 1.6),
        at_most("chain of 10,000, one at a time", UNIT, await costs(env, runs, chain, singly), 1.6),
        await longest(env),
    ]


async def longest(env: Environment) -> Row:
    """The longest function call while both shapes run, by the server's slow log. The log records
    calls of more than a quarter of the limit; without any, the row shows that quarter.
    """
    client = env.client
    await client.config_set("slowlog-log-slower-than", SLOWEST_MS * 250)
    await client.config_set("slowlog-max-len", 10_000)
    await client.slowlog_reset()
    for shape in (fan(NODES), chain(NODES)):
        await env.empty()
        await run(env, shape, BATCH)
    found = [entry["duration"] / 1000 for entry in await client.slowlog_get(10_000)
             if entry["command"].startswith(b"FCALL")]  # fmt: skip
    most = max(found, default=SLOWEST_MS / 4)
    return Row("longest function call of these", "ms", most, None, f"<= {SLOWEST_MS}",
               most / SLOWEST_MS, most <= SLOWEST_MS)  # fmt: skip


async def growth(env: Environment, runs: int) -> Row:
    """The server time of a submit for each node and edge, large DAG compared with small."""
    pairs = []
    for _ in range(runs):
        small = await submit_cost(env, layers(FEW))
        pairs.append((await submit_cost(env, layers(NODES)), small))
    return at_most("DAG submit, 10,000 / 1,000 nodes", "us of Redis/node or edge", pairs, 1.3)


async def submit_cost(env: Environment, plan: Plan) -> float:
    """The server time for each node and edge."""
    await env.empty()
    units = len(plan.tasks) + sum(len(task.after) for task in plan.tasks)
    dag = dag_draft_of(plan, env.queue._internals.drafter)
    return (
        await env.spent(partial(dag_submit.submit, env.queue._internals.shard, dag)) / units * MICRO
    )


Single = Callable[[Environment], Awaitable[None]]


async def costs(
    env: Environment, runs: int, shape: Callable[[int], Plan], single: Single
) -> list[tuple[float, float]]:
    """The server time of each task of a DAG from submit to completion, and of single tasks."""
    pairs = []
    for _ in range(runs):
        await env.empty()
        single_sec = await env.spent(partial(single, env))
        await env.empty()
        plan = shape(NODES)
        batch = 1 if single is singly else BATCH
        dag_sec = await env.spent(partial(run, env, plan, batch))
        pairs.append((dag_sec / NODES * MICRO, single_sec / NODES * MICRO))
    return pairs


async def run(env: Environment, plan: Plan, batch: int) -> None:
    """Submits a DAG and completes its tasks."""
    await dag_submit.submit(
        env.queue._internals.shard, dag_draft_of(plan, env.queue._internals.drafter)
    )
    claim, done = ours.worker(env), 0
    while done < len(plan.tasks):
        answer = await claim.claim(batch, start=True)
        settled = [leases.Settled(grant.task, grant.token, b"") for grant in answer.grants]
        assert settled, f"no task to claim after {done}"
        words = await leases.complete(env.queue._internals.shard, settled)
        assert words == ["OK"] * len(settled)
        done += len(settled)


async def batches(env: Environment) -> None:
    """The same number of single tasks, in batches."""
    await ours.run(env, NODES)


async def singly(env: Environment) -> None:
    """The same number of single tasks, claimed and settled one at a time."""
    await ours.produce(env, NODES)
    claim = ours.worker(env)
    for _ in range(NODES):
        ((one,),) = await ours.claim(claim, 1, 1)
        assert await leases.complete(env.queue._internals.shard, [one]) == ["OK"]


def task(name: str, after: list[str]) -> dict[str, Any]:
    """A task of a plan."""
    return {"name": name, "type": "noop", "payload": PAYLOAD, "after": after}


def fan(nodes: int) -> Plan:
    """One task, its dependents, and one task that depends on all of these."""
    middle = [str(at) for at in range(1, nodes - 1)]
    tasks = [task("0", []), *(task(name, ["0"]) for name in middle), task(str(nodes - 1), middle)]
    return Plan.parse({"tasks": tasks})


def chain(nodes: int) -> Plan:
    """Each task depends on the one before."""
    return Plan.parse(
        {"tasks": [task(str(at), [str(at - 1)] if at else []) for at in range(nodes)]}
    )


def layers(nodes: int) -> Plan:
    """Layers of 100; each task depends on up to three tasks of the layer above."""
    tasks = []
    for at in range(nodes):
        above = at // 100 * 100 - 100
        after = [] if above < 0 else sorted({str(above + (at + step) % 100) for step in (0, 1, 7)})
        tasks.append(task(str(at), after))
    return Plan.parse({"tasks": tasks})
