"""submit and spawn of a DAG: which principals may create its tasks, and in whose name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqueue.core.submit import who_of
from rqueue.dags import submit as dag_submit
from rqueue.errors import Forbidden
from rqueue.store.shard import Terms
from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, StoredDag, fan, unsent_dag
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.rows import everything

WHO = who_of(Terms(), ("agent:coder",))
REFUSED = ["FORBIDDEN", "agent:coder agent"]


def by(dag: StoredDag, *names: str) -> StoredDag:
    """The DAG as submitted by these principals."""
    return replace(dag, draft=dag.draft._replace(by=names))


async def test_an_agent_may_not_submit_a_dag_and_no_key_is_written(harness: Harness) -> None:
    await harness.queue.roles.set("agent:coder", "agent")
    dag = by(unsent_dag(harness, DIAMOND, follow="{}"), "agent:coder")
    before = await harness.dump()

    assert [await dag.write(rows) for rows in dag.parts()] == [REFUSED]
    with pytest.raises(Forbidden):
        await dag_submit.submit(harness.queue._internals.shard, dag.draft)

    assert await harness.dump() == before


async def test_every_named_principal_must_be_allowed(harness: Harness) -> None:
    await harness.queue.roles.set("agent:coder", "agent")
    dag = by(unsent_dag(harness, DIAMOND), "human:ada", "agent:coder")

    assert [await dag.write(rows) for rows in dag.parts()] == [REFUSED]


async def test_an_allowed_principal_writes_and_commits(harness: Harness) -> None:
    dag = by(unsent_dag(harness, DIAMOND), "human:ada", "agent:coder")

    await dag_submit.submit(harness.queue._internals.shard, dag.draft)

    assert await dag.states() == {"a": "READY", "b": "PENDING", "c": "PENDING", "d": "PENDING"}


async def test_a_repeated_submit_of_a_committed_dag_gets_the_same_reply(harness: Harness) -> None:
    dag = by(unsent_dag(harness, DIAMOND), "agent:coder")
    await dag_submit.submit(harness.queue._internals.shard, dag.draft)
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()

    await dag_submit.submit(harness.queue._internals.shard, dag.draft)

    assert await harness.dump() == before


async def test_a_role_that_is_removed_between_two_parts_leaves_no_key(harness: Harness) -> None:
    dag = by(unsent_dag(harness, fan(400)), "agent:coder")
    first, second, *_ = dag.parts()
    assert await dag.write(first) == ["OK"]
    await harness.queue.roles.set("agent:coder", "agent")

    assert await dag.write(second) == REFUSED
    with pytest.raises(Forbidden):
        await dag_submit.submit(harness.queue._internals.shard, dag.draft)

    assert set(await everything(harness)) == {"roles", "events", "lanes", "stats"}


async def test_an_agent_may_not_spawn_in_the_name_of_another(harness: Harness) -> None:
    lease = await harness.running()
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()

    assert await spawn(harness, lease, [row("one")], who=WHO) == REFUSED

    assert await harness.dump() == before


async def test_a_spawn_in_its_own_name_needs_no_role(harness: Harness) -> None:
    lease = await harness.running()
    await harness.client.set(harness.keys.roles(), "not a hash")
    new = row("one")

    assert await spawn(harness, lease, [new]) == ["OK", 0, "GOING", new[1], "READY"]


async def test_a_repeated_spawn_gets_the_same_reply_after_a_role_change(harness: Harness) -> None:
    lease = await harness.running()
    new = row("one")
    reply = await spawn(harness, lease, [new], who=WHO)
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()

    assert await spawn(harness, lease, [new], who=WHO) == reply

    assert await harness.dump() == before
