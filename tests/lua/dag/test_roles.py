"""submit and spawn of a DAG: who may create its tasks, and in whose name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqueue.core.submit import who_of
from rqueue.dags import submit as dag_submit
from rqueue.errors import Forbidden
from rqueue.store.shard import Terms
from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, Planted, a_plant, fan
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.rows import everything

WHO = who_of(Terms(), ("agent:coder",))
REFUSED = ["FORBIDDEN", "agent:coder agent"]


def by(plant: Planted, *names: str) -> Planted:
    """The DAG as these ask for it."""
    return replace(plant, planting=plant.planting._replace(by=names))


async def test_an_agent_writes_no_dag_and_no_key(harness: Harness) -> None:
    await harness.queue.roles.set("agent:coder", "agent")
    plant = by(a_plant(harness, DIAMOND, follow="{}"), "agent:coder")
    before = await harness.dump()

    assert [await plant.write(rows) for rows in plant.parts()] == [REFUSED]
    with pytest.raises(Forbidden):
        await dag_submit.submit(harness.queue._internals.shard, plant.planting)

    assert await harness.dump() == before


async def test_all_who_are_named_must_be_allowed(harness: Harness) -> None:
    await harness.queue.roles.set("agent:coder", "agent")
    plant = by(a_plant(harness, DIAMOND), "human:ada", "agent:coder")

    assert [await plant.write(rows) for rows in plant.parts()] == [REFUSED]


async def test_one_that_may_writes_and_commits(harness: Harness) -> None:
    plant = by(a_plant(harness, DIAMOND), "human:ada", "agent:coder")

    await dag_submit.submit(harness.queue._internals.shard, plant.planting)

    assert await plant.states() == {"a": "READY", "b": "PENDING", "c": "PENDING", "d": "PENDING"}


async def test_one_that_is_committed_is_the_same_however_often_it_is_sent(harness: Harness) -> None:
    plant = by(a_plant(harness, DIAMOND), "agent:coder")
    await dag_submit.submit(harness.queue._internals.shard, plant.planting)
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()

    await dag_submit.submit(harness.queue._internals.shard, plant.planting)

    assert await harness.dump() == before


async def test_a_role_that_is_lost_between_two_parts_leaves_nothing(harness: Harness) -> None:
    plant = by(a_plant(harness, fan(400)), "agent:coder")
    first, second, *_ = plant.parts()
    assert await plant.write(first) == ["OK"]
    await harness.queue.roles.set("agent:coder", "agent")

    assert await plant.write(second) == REFUSED
    with pytest.raises(Forbidden):
        await dag_submit.submit(harness.queue._internals.shard, plant.planting)

    assert set(await everything(harness)) == {"roles", "events", "lanes", "stats"}


async def test_an_agent_spawns_nothing_in_the_name_of_another(harness: Harness) -> None:
    lease = await harness.running()
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()

    assert await spawn(harness, lease, [row("one")], who=WHO) == REFUSED

    assert await harness.dump() == before


async def test_in_its_own_it_does_and_no_role_is_asked_for(harness: Harness) -> None:
    lease = await harness.running()
    await harness.client.set(harness.keys.roles(), "not a hash")
    new = row("one")

    assert await spawn(harness, lease, [new]) == ["OK", 0, "GOING", new[1], "READY"]


async def test_what_was_spawned_is_told_of_whatever_the_role_is_by_then(harness: Harness) -> None:
    lease = await harness.running()
    new = row("one")
    said = await spawn(harness, lease, [new], who=WHO)
    await harness.queue.roles.set("agent:coder", "agent")
    before = await harness.dump()

    assert await spawn(harness, lease, [new], who=WHO) == said

    assert await harness.dump() == before
