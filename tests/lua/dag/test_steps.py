"""steps: what was begun with DAGs and is not finished is named, whoever began it."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, a_plant, fan, planted
from tests.lua.task.keys_after import ask


async def steps(harness: Harness, limit: int = 100, idle_ms: int = 60_000) -> dict[str, str]:
    reply = await ask(harness, "dag/steps", {"limit": limit, "idle_ms": idle_ms})
    assert reply[0] == "OK"
    return dict(zip(reply[1::2], reply[2::2], strict=True))


async def test_with_nothing_begun_there_are_none(harness: Harness) -> None:
    await planted(harness, DIAMOND)

    assert await steps(harness) == {}


async def test_every_verb_is_named_with_its_dag_and_position(harness: Harness) -> None:
    one, two = [await a_plant(harness, fan(5, to_one=True)).written() for _ in range(2)]
    await one.commit(limit=2)
    await two.commit()
    await two.pause(limit=3)

    assert await steps(harness) == {f"commit {one.dag}": "2", f"hold {two.dag}": "3"}
    assert len(await steps(harness, limit=1)) == 1


async def test_one_whose_producer_is_silent_is_to_be_dropped(harness: Harness) -> None:
    plant = await a_plant(harness, DIAMOND).written()
    assert await steps(harness) == {}

    await harness.client.zadd(harness.keys.writing(), {plant.dag: 1})

    assert await steps(harness) == {f"drop {plant.dag}": "0"}


async def test_looking_changes_nothing(harness: Harness) -> None:
    plant = await a_plant(harness, fan(5)).written()
    await plant.commit(limit=2)
    before = await harness.dump()

    await steps(harness)

    assert await harness.dump() == before
