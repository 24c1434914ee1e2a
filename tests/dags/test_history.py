"""Large graphs run by real workers; their recorded history is checked against G11 to G13."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from rqueue import Context, DagStatus, Reject, State
from rqueue.dags import store as dag_store
from tests.dags.submitted_dags import settled, submit_plan
from tests.harness import Harness
from tests.worker.running import working

Edges = Mapping[str, Sequence[str]]
BEGIN, END, FAIL = "begin", "end", "fail"


def layered(width: int, layers: int, seed: int) -> dict[str, list[str]]:
    """Returns random edges, each from one layer to a later one."""
    random_numbers = random.Random(seed)
    found: dict[str, list[str]] = {}
    for layer in range(layers):
        above = list(found)
        for at in range(width):
            parents = random_numbers.sample(above, k=min(len(above), random_numbers.randrange(4)))
            found[f"t{layer}-{at}"] = parents
    return found


def recorder(harness: Harness, doomed: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """Registers the handler `code`, which records its calls and fails for the doomed tasks."""
    history: list[tuple[str, str]] = []

    @harness.queue.task("code", max_attempts=1)
    async def code(ctx: Context, name: str) -> str:
        history.append((BEGIN, name))
        await asyncio.sleep(0)
        if name in doomed:
            history.append((FAIL, name))
            raise Reject("doomed")
        history.append((END, name))
        return name

    return history


async def run(harness: Harness, edges: Edges, **facts: Any) -> tuple[Any, dict[str, Any]]:
    """Submits a graph and runs it until it is idle; returns the DAG and its tasks by name."""
    tasks = {
        name: {"type": "code", "payload": {"name": name}, "after": list(above)}
        for name, above in edges.items()
    }
    async with AsyncExitStack() as stack:
        dag, ids = await submit_plan(harness, tasks, **facts)
        await stack.enter_async_context(working(harness.queue, concurrency=20))
        async with asyncio.timeout(60):
            while (await dag_store.read(harness.queue._internals.shard, dag)).open > 0:
                before = await harness.queue.counts()
                await settled(harness)
                await asyncio.sleep(0.02)
                if await harness.queue.counts() == before and not before[State.RUNNING]:
                    break
    found = await harness.queue._internals.runtime.reader.read([id.ulid for id in ids.values()])
    return await settled(harness, dag), dict(zip(ids, found, strict=True))


def judge(history: Sequence[tuple[str, str]], edges: Edges) -> None:
    """G11: each task started once, after all its dependencies had completed."""
    place = {event: at for at, event in enumerate(history)}
    assert len(place) == len(history), "something happened twice"
    for what, name in history:
        for parent in edges[name] if what == BEGIN else ():
            assert place[END, parent] < place[BEGIN, name]


@pytest.mark.parametrize("seed", range(3))
async def test_each_task_starts_once_and_after_all_its_dependencies(
    harness: Harness, seed: int
) -> None:
    edges = layered(width=30, layers=10, seed=seed)
    history = recorder(harness)

    dag, tasks = await run(harness, edges)

    judge(history, edges)
    assert {task.state for task in tasks.values()} == {State.COMPLETED}
    assert (dag.status, dag.completed, dag.open) == (DagStatus.COMPLETED, 300, 0)


@pytest.mark.parametrize("on_failure", ["hold", "continue", "fail_fast"])
async def test_no_dependent_of_a_dead_task_runs(harness: Harness, on_failure: str) -> None:
    edges = layered(width=20, layers=8, seed=11)
    doomed = frozenset({"t0-3", "t2-1", "t4-7"})
    history = recorder(harness, doomed)

    dag, tasks = await run(harness, edges, on_failure=on_failure)

    judge(history, edges)
    dead = {name for name, task in tasks.items() if task.state is State.DEAD_LETTERED}
    below = descendants(edges, dead)
    began = {name for what, name in history if what == BEGIN}
    assert dead
    assert dead <= doomed
    # G12: none of them started; under hold they wait, else each has ended once.
    assert not below & began
    waits = {State.PENDING} if on_failure == "hold" else {State.CANCELLED}
    assert {tasks[name].state for name in below} == waits
    if on_failure == "continue":
        others = set(tasks) - below - dead
        assert {tasks[name].state for name in others} == {State.COMPLETED}
    assert dag.status is DagStatus.FAILED
    assert dag.open == (len(below) if on_failure == "hold" else 0)


def descendants(edges: Edges, names: set[str]) -> set[str]:
    """Returns all tasks that come after any of these."""
    found: set[str] = set()
    for name, above in edges.items():
        if set(above) & (names | found):
            found.add(name)
    return found


async def test_a_fan_out_of_2000_tasks_is_joined(harness: Harness) -> None:
    middle = {str(at): ["first"] for at in range(2000)}
    edges = {"first": [], **middle, "last": list(middle)}
    history = recorder(harness)

    dag, _ = await run(harness, edges)

    judge(history, edges)
    assert (dag.status, dag.completed) == (DagStatus.COMPLETED, 2002)


async def test_a_chain_of_1000_is_cancelled_from_its_root(harness: Harness) -> None:
    names = [str(at) for at in range(1000)]
    edges = {name: names[at - 1 : at] if at else [] for at, name in enumerate(names)}
    tasks = {name: {"type": "code", "after": list(above)} for name, above in edges.items()}
    dag, ids = await submit_plan(harness, tasks)

    assert await harness.queue.cancel(ids["0"], "no longer wanted")

    found = await harness.queue._internals.runtime.reader.read([id.ulid for id in ids.values()])
    reasons = {task.cancel_reason for task in found if task is not None}
    assert len(found) == 1000
    assert reasons == {
        "no longer wanted",
        *(f"Parent {ids[name]} cancelled" for name in names[:-1]),
    }
    assert (await settled(harness, dag)).status is DagStatus.CANCELLED
