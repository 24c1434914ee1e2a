"""What a running task may not spawn: by its rights, by the limits of its DAG, or in a circle."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Call, Context, State
from rqueue.errors import InvalidGraph, RQueueError, SpawnRefused
from rqueue.store import dags
from tests.house import House, opened
from tests.servers import Server
from tests.services.sown import planted
from tests.services.working import ended, working

CODE = Call("code")


def asks(house: House, *wishes: dict[str, Any], **options: Any) -> list[Any]:
    """Registers `parent`, which makes these spawns; what became of each, with the number of keys
    that it added.
    """
    found: list[Any] = []

    @house.queue.task("parent", max_attempts=1, **options)
    async def parent(ctx: Context) -> None:
        for wish in wishes:
            before = await keys_of(house)
            try:
                found.append(await ctx.spawn(wish.pop("call", CODE), **wish))
            except RQueueError as error:
                found.append((error, await keys_of(house) - before))

    return found


async def keys_of(house: House) -> int:
    """How many keys there are, but for what the scheduler takes from meanwhile."""
    passing = {house.keys.unfinished().encode(), house.keys.handoffs().encode()}
    return len(set(await house.client.keys("*")) - passing)


RIGHTS = {
    ("own_dag", "coder"): True,
    ("own_dag", "tester"): True,
    ("same_agent", "coder"): True,
    ("same_agent", "tester"): False,
    ("same_agent", None): False,
    ("none", "coder"): False,
}


@pytest.mark.parametrize(("rule", "agent"), RIGHTS)
@pytest.mark.parametrize("said_by", ["queue", "dag"])
async def test_a_task_may_spawn_what_the_rule_says(
    valkey: Server, said_by: str, rule: str, agent: str | None
) -> None:
    # What the DAG says stands above what the queue says.
    of_queue = rule if said_by == "queue" else {"none": "own_dag"}.get(rule, "none")
    async with opened(valkey, spawn_policy=of_queue) as house:
        found = asks(house, {"call": Call("code", None, {"agent_name": agent} if agent else {})})
        facts = {"spawn": rule} if said_by == "dag" else {}
        tasks = {"one": {"type": "parent", "agent_name": "coder"}}

        async with working(house.queue, agents=["coder"]):
            _, ids = await planted(house, tasks, **facts)
            await ended(house.queue, ids["one"], State.COMPLETED)

        if RIGHTS[rule, agent]:
            assert (await house.task(found[0])).spec.agent_name == agent
        else:
            ((error, added),) = found
            assert (type(error), error.task, added) == (SpawnRefused, ids["one"], 0)
            assert error.rule == f"its DAG's rule is {rule}"


@pytest.mark.parametrize(
    ("given", "rule"), [({}, "same_agent"), ({"spawn_policy": "none"}, "none")]
)
async def test_the_rule_of_the_profile_holds_where_the_queue_says_nothing(
    valkey: Server, given: dict[str, Any], rule: str
) -> None:
    async with opened(valkey, profile="automechanica", **given) as house:
        found = asks(house, {"call": Call("code", None, {"agent_name": "tester"})})

        async with working(house.queue, agents=["coder"]):
            handle = await house.queue.enqueue("parent", agent_name="coder")
            await ended(house.queue, handle.id, State.COMPLETED)

        ((error, added),) = found
        assert (error.rule, added) == (f"its DAG's rule is {rule}", 0)


async def test_a_full_dag_takes_no_more(valkey: Server) -> None:
    async with opened(valkey, max_dag_nodes=2) as house:
        found = asks(house, {}, {}, {"key": "again"})

        async with working(house.queue):
            handle = await house.queue.enqueue("parent")
            await ended(house.queue, handle.id, State.COMPLETED)

        dag = await dags.read(house.queue.shard, (await house.task(handle.id)).dag_id)
        assert [(str(error), added) for error, added in found[1:]] == [
            (
                f"{handle.id} may not spawn this: "
                "its DAG has 2 tasks, the most it may (max_dag_nodes)",
                0,
            )
        ] * 2
        assert dag.total == 2


async def test_a_full_dag_still_tells_of_what_it_has(valkey: Server) -> None:
    async with opened(valkey, max_dag_nodes=2) as house:

        @house.queue.task("code")
        async def code() -> str:
            return "done"

        @house.queue.task("parent", max_attempts=1)
        async def parent(ctx: Context) -> Any:
            return await ctx.spawn(code.call(), wait=True)

        async with working(house.queue):
            assert await (await parent.enqueue()).result(timeout=10) == "done"


async def test_a_dag_that_is_given_up_takes_no_more(house: House) -> None:
    found: list[Any] = []

    @house.queue.task("parent", max_attempts=1)
    async def parent(ctx: Context) -> None:
        # As a death does it under fail_fast, before the rest is cancelled.
        key = house.keys.dag((await house.task(ctx.id)).dag_id.ulid)
        await house.client.hset(key, "closing", "failed")
        before = await house.dump()
        with pytest.raises(SpawnRefused, match="is being given up"):
            await ctx.spawn(CODE)
        found.append(await house.dump() == before)

    async with working(house.queue):
        _, ids = await planted(house, {"one": {"type": "parent"}})
        await ended(house.queue, ids["one"], State.COMPLETED)

    assert found == [True]


@pytest.mark.parametrize("length", [0, 1, 2, 200])
async def test_a_circle_is_refused_through_chains_of_any_length(house: House, length: int) -> None:
    """The parent would wait for a task after D, and D waits for the parent."""
    chain: list[str] = []
    wish: dict[str, Any] = {"wait": True, "key": "s", "after": chain}
    found = asks(house, wish)
    handle = await house.queue.enqueue("parent", delay=3600)
    chain.append(handle.id)
    for _ in range(length):
        chain[:] = [(await house.queue.enqueue("code", depends_on=chain)).id]

    async with working(house.queue, types=["parent"]):
        await house.queue.run_now(handle.id)
        await ended(house.queue, handle.id, State.COMPLETED)

    ((error, added),) = found
    assert (type(error), added) == (InvalidGraph, 0)
    assert error.rule == "waits for a task that waits for the one that spawns it"
    assert error.path == (handle.id, "s")


async def test_one_that_is_not_waited_for_may_come_after_its_parent(house: House) -> None:
    after: list[str] = []
    found = asks(house, {"after": after, "key": "s"}, {"after": after, "key": "s", "wait": True})
    handle = await house.queue.enqueue("parent", delay=3600)
    after.append(handle.id)

    async with working(house.queue, types=["parent"]):
        await house.queue.run_now(handle.id)
        await ended(house.queue, handle.id, State.COMPLETED)

    child, (error, added) = found
    assert (await house.task(child)).state is State.READY
    # It was there already, and still the parent could never run again.
    assert (type(error), error.path, added) == (InvalidGraph, (handle.id, "s"), 0)


async def test_what_it_comes_after_must_be_there(house: House) -> None:
    found = asks(house, {"after": ["never-seen"]}, {"after": []})

    async with working(house.queue):
        handle = await house.queue.enqueue("parent")
        await ended(house.queue, handle.id, State.COMPLETED)

    error, added = found[0]
    assert (type(error), added) == (InvalidGraph, 0)
    assert error.rule == "depends on a task that is not there or was cancelled"


async def test_one_of_the_same_own_id_is_there_already(house: House) -> None:
    named = Call("code", None, {"external_id": "mine"})
    found = asks(house, {"call": named}, {"call": named})

    async with working(house.queue, types=["parent"]):
        handle = await house.queue.enqueue("parent")
        await ended(house.queue, handle.id, State.COMPLETED)

    first, (error, added) = found
    assert (type(error), error.path, added) == (InvalidGraph, (handle.id, "2", first), 0)
