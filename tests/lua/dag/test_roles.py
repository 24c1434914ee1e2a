"""submit and spawn of a DAG: who may create its tasks, and in whose name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqueue.errors import Forbidden
from rqueue.store import planting
from rqueue.store.roles import who_of
from rqueue.store.shard import Terms
from tests.house import House
from tests.lua.dag.planted import DIAMOND, Planted, a_plant, fan
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.rows import everything

WHO = who_of(Terms(), ("agent:coder",))
REFUSED = ["FORBIDDEN", "agent:coder agent"]


def by(plant: Planted, *names: str) -> Planted:
    """The DAG as these ask for it."""
    return replace(plant, planting=plant.planting._replace(by=names))


async def test_an_agent_writes_no_dag_and_no_key(house: House) -> None:
    await house.queue.set_role("agent:coder", "agent")
    plant = by(a_plant(house, DIAMOND, follow="{}"), "agent:coder")
    before = await house.dump()

    assert [await plant.write(rows) for rows in plant.parts()] == [REFUSED]
    with pytest.raises(Forbidden):
        await planting.submit(house.queue.shard, plant.planting)

    assert await house.dump() == before


async def test_all_who_are_named_must_be_allowed(house: House) -> None:
    await house.queue.set_role("agent:coder", "agent")
    plant = by(a_plant(house, DIAMOND), "human:ada", "agent:coder")

    assert [await plant.write(rows) for rows in plant.parts()] == [REFUSED]


async def test_one_that_may_writes_and_commits(house: House) -> None:
    plant = by(a_plant(house, DIAMOND), "human:ada", "agent:coder")

    await planting.submit(house.queue.shard, plant.planting)

    assert await plant.states() == {"a": "READY", "b": "PENDING", "c": "PENDING", "d": "PENDING"}


async def test_one_that_is_committed_is_the_same_however_often_it_is_sent(house: House) -> None:
    plant = by(a_plant(house, DIAMOND), "agent:coder")
    await planting.submit(house.queue.shard, plant.planting)
    await house.queue.set_role("agent:coder", "agent")
    before = await house.dump()

    await planting.submit(house.queue.shard, plant.planting)

    assert await house.dump() == before


async def test_a_role_that_is_lost_between_two_parts_leaves_nothing(house: House) -> None:
    plant = by(a_plant(house, fan(400)), "agent:coder")
    first, second, *_ = plant.parts()
    assert await plant.write(first) == ["OK"]
    await house.queue.set_role("agent:coder", "agent")

    assert await plant.write(second) == REFUSED
    with pytest.raises(Forbidden):
        await planting.submit(house.queue.shard, plant.planting)

    assert set(await everything(house)) == {"roles", "events", "lanes", "stats"}


async def test_an_agent_spawns_nothing_in_the_name_of_another(house: House) -> None:
    lease = await house.running()
    await house.queue.set_role("agent:coder", "agent")
    before = await house.dump()

    assert await spawn(house, lease, [row("one")], who=WHO) == REFUSED

    assert await house.dump() == before


async def test_in_its_own_it_does_and_no_role_is_asked_for(house: House) -> None:
    lease = await house.running()
    await house.client.set(house.keys.roles(), "not a hash")
    new = row("one")

    assert await spawn(house, lease, [new]) == ["OK", 0, "GOING", new[1], "READY"]


async def test_what_was_spawned_is_told_of_whatever_the_role_is_by_then(house: House) -> None:
    lease = await house.running()
    new = row("one")
    said = await spawn(house, lease, [new], who=WHO)
    await house.queue.set_role("agent:coder", "agent")
    before = await house.dump()

    assert await spawn(house, lease, [new], who=WHO) == said

    assert await house.dump() == before
