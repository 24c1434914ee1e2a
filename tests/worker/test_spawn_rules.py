"""What a running task may not spawn: by its rights, the limits of its DAG, or in a cycle."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Call, Context, State
from rqueue.dags import store as dag_store
from rqueue.errors import InvalidGraph, RQueueError, SpawnRefused
from tests.dags.submitted_dags import submit_plan
from tests.harness import Harness, opened
from tests.servers import Server
from tests.worker.running import ended, working

CODE = Call("code")


def register_parent(harness: Harness, *spawns: dict[str, Any], **options: Any) -> list[Any]:
    """Registers `parent`, which makes these spawns; returns the outcome of each, with the number of
    keys that it added.
    """
    found: list[Any] = []

    @harness.queue.task("parent", max_attempts=1, **options)
    async def parent(ctx: Context) -> None:
        for spawn in spawns:
            before = await keys_of(harness)
            try:
                found.append(await ctx.spawn(spawn.pop("call", CODE), **spawn))
            except RQueueError as error:
                found.append((error, await keys_of(harness) - before))

    return found


async def keys_of(harness: Harness) -> int:
    """The number of keys, without those that the scheduler changes meanwhile."""
    passing = {harness.keys.unfinished().encode(), harness.keys.deliveries().encode()}
    return len(set(await harness.client.keys("rq:*")) - passing)


RIGHTS = {
    ("own_dag", "coder"): True,
    ("own_dag", "tester"): True,
    ("same_agent", "coder"): True,
    ("same_agent", "tester"): False,
    ("same_agent", None): False,
    ("none", "coder"): False,
}


@pytest.mark.parametrize(("rule", "agent"), RIGHTS)
@pytest.mark.parametrize("set_by", ["queue", "dag"])
async def test_a_task_may_spawn_tasks_that_its_role_permits(
    valkey: Server, set_by: str, rule: str, agent: str | None
) -> None:
    # The limit of the DAG overrides that of the queue.
    of_queue = rule if set_by == "queue" else {"none": "own_dag"}.get(rule, "none")
    async with opened(valkey, spawn_policy=of_queue) as harness:
        found = register_parent(
            harness, {"call": Call("code", None, {"agent_name": agent} if agent else {})}
        )
        facts = {"spawn": rule} if set_by == "dag" else {}
        tasks = {"one": {"type": "parent", "agent_name": "coder"}}

        async with working(harness.queue, agents=["coder"]):
            _, ids = await submit_plan(harness, tasks, **facts)
            await ended(harness.queue, ids["one"], State.COMPLETED)

        if RIGHTS[rule, agent]:
            assert (await harness.task(found[0])).spec.agent_name == agent
        else:
            ((error, added),) = found
            assert (type(error), error.task, added) == (SpawnRefused, ids["one"], 0)
            assert error.rule == f"its DAG's rule is {rule}"


@pytest.mark.parametrize(
    ("given", "rule"), [({}, "same_agent"), ({"spawn_policy": "none"}, "none")]
)
async def test_the_profile_sets_the_rule_of_a_queue_without_one(
    valkey: Server, given: dict[str, Any], rule: str
) -> None:
    async with opened(valkey, profile="automechanica", **given) as harness:
        found = register_parent(harness, {"call": Call("code", None, {"agent_name": "tester"})})

        async with working(harness.queue, agents=["coder"]):
            handle = await harness.queue.enqueue("parent", agent_name="coder")
            await ended(harness.queue, handle.id, State.COMPLETED)

        ((error, added),) = found
        assert (error.rule, added) == (f"its DAG's rule is {rule}", 0)


async def test_a_full_dag_takes_no_more_tasks(valkey: Server) -> None:
    async with opened(valkey, max_dag_nodes=2) as harness:
        found = register_parent(harness, {}, {}, {"key": "again"})

        async with working(harness.queue):
            handle = await harness.queue.enqueue("parent")
            await ended(harness.queue, handle.id, State.COMPLETED)

        dag = await dag_store.read(
            harness.queue._internals.shard, (await harness.task(handle.id)).dag_id
        )
        assert [(str(error), added) for error, added in found[1:]] == [
            (
                f"{handle.id} may not spawn this: "
                "its DAG has 2 tasks, the most it may (max_dag_nodes)",
                0,
            )
        ] * 2
        assert dag.total == 2


async def test_a_full_dag_still_returns_its_existing_tasks(valkey: Server) -> None:
    async with opened(valkey, max_dag_nodes=2) as harness:

        @harness.queue.task("code")
        async def code() -> str:
            return "done"

        @harness.queue.task("parent", max_attempts=1)
        async def parent(ctx: Context) -> Any:
            return await ctx.spawn(code.call(), wait=True)

        async with working(harness.queue):
            assert await (await parent.enqueue()).result(timeout=10) == "done"


async def test_a_dag_that_is_being_cancelled_takes_no_more_tasks(harness: Harness) -> None:
    found: list[Any] = []

    @harness.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> None:
        # As a failure does under fail_fast, before the other tasks are cancelled.
        key = harness.keys.dag((await harness.task(ctx.id)).dag_id.ulid)
        await harness.client.hset(key, "closing", "failed")
        before = await harness.dump()
        with pytest.raises(SpawnRefused, match="is being cancelled"):
            await ctx.spawn(CODE)
        found.append(await harness.dump() == before)

    async with working(harness.queue):
        _, ids = await submit_plan(harness, {"one": {"type": "parent"}})
        await ended(harness.queue, ids["one"], State.COMPLETED)

    assert found == [True]


@pytest.mark.parametrize("length", [0, 1, 2, 200])
async def test_a_cycle_is_refused_through_chains_of_any_length(
    harness: Harness, length: int
) -> None:
    """The parent would wait for a task after D, and D waits for the parent."""
    chain: list[str] = []
    spawn: dict[str, Any] = {"wait": True, "key": "s", "after": chain}
    found = register_parent(harness, spawn)
    handle = await harness.queue.enqueue("parent", delay=3600)
    chain.append(handle.id)
    for _ in range(length):
        chain[:] = [(await harness.queue.enqueue("code", depends_on=chain)).id]

    async with working(harness.queue, types=["parent"]):
        await harness.queue.run_now(handle.id)
        await ended(harness.queue, handle.id, State.COMPLETED)

    ((error, added),) = found
    assert (type(error), added) == (InvalidGraph, 0)
    assert error.rule == "depends on a task that waits for the task that spawns it"
    assert error.path == (handle.id, "s")


async def test_a_spawned_task_may_depend_on_its_parent_unless_the_parent_waits(
    harness: Harness,
) -> None:
    after: list[str] = []
    found = register_parent(
        harness, {"after": after, "key": "s"}, {"after": after, "key": "s", "wait": True}
    )
    handle = await harness.queue.enqueue("parent", delay=3600)
    after.append(handle.id)

    async with working(harness.queue, types=["parent"]):
        await harness.queue.run_now(handle.id)
        await ended(harness.queue, handle.id, State.COMPLETED)

    child, (error, added) = found
    assert (await harness.task(child)).state is State.READY
    # It existed already, and still the parent could never run again.
    assert (type(error), error.path, added) == (InvalidGraph, (handle.id, "s"), 0)


async def test_the_dependencies_of_a_spawned_task_must_exist(harness: Harness) -> None:
    found = register_parent(harness, {"after": ["never-seen"]}, {"after": []})

    async with working(harness.queue):
        handle = await harness.queue.enqueue("parent")
        await ended(harness.queue, handle.id, State.COMPLETED)

    error, added = found[0]
    assert (type(error), added) == (InvalidGraph, 0)
    assert error.rule == "depends on a task that does not exist or was cancelled"


async def test_a_spawned_task_with_a_used_external_id_is_refused(harness: Harness) -> None:
    named = Call("code", None, {"external_id": "mine"})
    found = register_parent(harness, {"call": named}, {"call": named})

    async with working(harness.queue, types=["parent"]):
        handle = await harness.queue.enqueue("parent")
        await ended(harness.queue, handle.id, State.COMPLETED)

    first, (error, added) = found
    assert (type(error), error.path, added) == (InvalidGraph, (handle.id, "2", first), 0)
