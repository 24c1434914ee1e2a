"""DAGs whose workers are killed and disconnected, and the largest ones: each DAG ends, and each of
its tasks ends once. Where workers are killed, ends are counted in the outbox.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue import Dag, DagStatus, State
from rqueue.dags import store as dag_store
from rqueue.dags.handle import DagHandle
from rqueue.errors import InvalidGraph
from rqueue.task.ids import TaskId
from tests.dags.submitted_dags import number_of_keys, settled, submit_plan
from tests.dags.test_history import judge, recorder, run
from tests.harness import Harness
from tests.integration.processes import Env
from tests.integration.proxy import Proxy, close, proxy_to
from tests.servers import Server

WIDE, LONG = 50, 10
# The most tasks and edges of a DAG.
MOST_NODES, MOST_EDGES = 10_000, 100_000


def layers(**payload: Any) -> dict[str, Any]:
    """A plan of 500 tasks: each depends on two of the layer before."""
    tasks = []
    for layer in range(LONG):
        for at in range(WIDE):
            row = {"name": f"{layer}-{at}", "type": "nap", "payload": payload, "max_attempts": 10}
            above = [f"{layer - 1}-{at}", f"{layer - 1}-{(at + 1) % WIDE}"] if layer else []
            tasks.append({**row, "after": above})
    return {"tasks": tasks}


async def whole(env: Env, handle: DagHandle) -> Dag:
    """The ended DAG, after a check that each of its tasks has completed once."""
    dag = await handle.wait(timeout=40)
    tasks = await dag_store.members(env.harness.queue._internals.shard, handle.id)
    await env.ended(tasks)
    assert (dag.total, dag.open, dag.dead, dag.cancelled) == (len(tasks), 0, 0, 0)
    assert {line.task for line in env.events.lines("end")} == set(tasks)
    env.once_a_lease()
    return dag


async def test_a_dag_of_five_hundred_tasks_survives_a_killed_worker(env: Env) -> None:
    env.fleet.worker(), env.fleet.worker()
    await env.up(2)
    handle = await env.harness.queue.dags.submit(layers(seconds=0.005))

    line = await env.events.until("end", count=200)
    victim = next(one for one in env.fleet.processes if one.pid == line.pid)
    victim.kill()

    assert (await whole(env, handle)).total == WIDE * LONG


@pytest.mark.parametrize("kind", ["fan-out", "fan-out-thread", "fan-out-process"])
async def test_gathering_handlers_of_every_kind_survive_the_kill_of_the_only_worker(
    env: Env, kind: str
) -> None:
    env.fleet.worker()
    await env.up(1)
    first = {"name": "1", "type": kind, "payload": {"count": 5, "seconds": 0.3}}
    last = {"name": "2", "type": "nap", "after": ["1"]}
    handle = await env.harness.queue.dags.submit({"tasks": [first, last]})
    parent, _ = await handle.tasks()
    await asyncio.wait_for(all_spawned(env, parent.id, 5), 20)

    env.fleet.processes[0].kill()
    env.fleet.worker()

    assert (await whole(env, handle)).total == 2 + 5
    assert (await handle.results())["1"] == 5


async def test_a_growing_dag_survives_cut_connections(env: Env, valkey: Server) -> None:
    async with proxy_to(valkey.url) as proxy:
        for _ in range(2):
            env.fleet.worker(url=proxy.url)
        await env.up(2)
        plan = layers(seconds=0.005)
        fan_out = {"type": "fan-out", "payload": {"count": 5, "seconds": 0.1}, "max_attempts": 10}
        plan["tasks"] += [{**fan_out, "after": ["2-0"]} for _ in range(4)]
        handle = await env.harness.queue.dags.submit(plan)

        cutting = asyncio.create_task(cut_all(proxy))
        try:
            dag = await whole(env, handle)
        finally:
            cutting.cancel()

    assert dag.total == WIDE * LONG + 4 + 4 * 5


async def cut_all(proxy: Proxy) -> None:
    """Closes every connection, five times."""
    for _ in range(5):
        await asyncio.sleep(0.3)
        for line in list(proxy.lines):
            close(line)


async def all_spawned(env: Env, parent: TaskId, number: int) -> None:
    """Waits until a task has spawned that many."""
    harness = env.harness
    while await harness.client.hlen(harness.keys.spawned(parent.ulid)) < number:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


@pytest.mark.timeout(120)
async def test_f42_a_task_with_ten_thousand_dependencies_is_unblocked(alone: Harness) -> None:
    middle = {str(at): ["first"] for at in range(MOST_NODES - 2)}
    edges = {"first": [], **middle, "last": list(middle)}
    history = recorder(alone)

    dag, tasks = await run(alone, edges)

    judge(history, edges)
    assert len(history) == 2 * MOST_NODES
    assert {task.state for task in tasks.values()} == {State.COMPLETED}
    assert (dag.status, dag.completed, dag.edges) == (
        DagStatus.COMPLETED, MOST_NODES, 2 * (MOST_NODES - 2),
    )  # fmt: skip


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shape", ["wide", "chain"])
async def test_f43_ten_thousand_descendants_are_cancelled_at_the_root(
    alone: Harness, shape: str
) -> None:
    names = [str(at) for at in range(MOST_NODES)]
    parents = {name: "0" if shape == "wide" else str(at) for at, name in enumerate(names[1:])}
    tasks: dict[str, dict[str, Any]] = {name: {"type": "code"} for name in names}
    for name, parent in parents.items():
        tasks[name]["after"] = [parent]
    dag, ids = await submit_plan(alone, tasks)

    assert await alone.queue.cancel(ids["0"], "no longer wanted")

    found = await alone.queue._internals.runtime.reader.read([ids[name].ulid for name in names])
    assert {task.state for task in found if task is not None} == {State.CANCELLED}
    assert [task.cancel_reason for task in found if task is not None] == [
        "no longer wanted",
        *(f"Parent {ids[parent]} cancelled" for parent in parents.values()),
    ]
    after = await settled(alone, dag)
    assert (after.status, after.cancelled, after.open) == (DagStatus.CANCELLED, MOST_NODES, 0)
    left = [alone.keys.cancelling(), alone.keys.blocked(), alone.keys.telling()]
    assert await alone.client.exists(*left) == 0
    ended = [event for _, event in await alone.client.xrange(alone.keys.events())]
    # G12: the stream is capped; each task has at most one event.
    reported = [event[b"task"] for event in ended if event[b"event"] == b"task.cancelled"]
    assert len(set(reported)) == len(reported) > 0


@pytest.mark.timeout(120)
async def test_f44_a_hundred_thousand_edges_are_accepted_and_one_more_is_refused(
    alone: Harness,
) -> None:
    above = [str(at) for at in range(250)]
    tasks: dict[str, dict[str, Any]] = {name: {"type": "code"} for name in above}
    for at in range(MOST_EDGES // 250):
        tasks[f"after-{at}"] = {"type": "code", "after": above}
    more = {**tasks, "last": {"type": "code", "after": ["0"]}}
    before = await number_of_keys(alone)

    with pytest.raises(InvalidGraph, match=f"has {MOST_EDGES + 1} edges; {MOST_EDGES} are allowed"):
        await submit_plan(alone, more)

    assert await number_of_keys(alone) == before
    dag, _ = await submit_plan(alone, tasks)
    found = await dag_store.read(alone.queue._internals.shard, dag)
    assert (found.edges, found.total) == (MOST_EDGES, 650)
    assert (await alone.queue.counts())[State.READY] == 250
