"""set_priority: another place in the lane; age still counts."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.model.lane import Lane
from rqueue.store.leases import Held, Settled, complete
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.rows import BASE, a_row, claim, everything, held, submit, submitted
from tests.lua.task.afterwards import ask


async def set_priority(house: House, task: str, priority: int, was: int = BASE) -> list[Any]:
    args: dict[str, Any] = {"task": task, "priority": priority, "was": was}
    return await ask(house, "task/set_priority", args)


async def test_a_ready_task_moves_in_its_lane(house: House) -> None:
    first, second = await submitted(house), await submitted(house)
    before = await everything(house)

    assert await set_priority(house, second, 1_000_000) == ["OK"]

    before[f"task:{second}"].update(priority="1000000", score="1000000")
    before["lane:1"][second] = 1_000_000.0
    assert await everything(house) == before
    assert [row.task for row in (await claim(house, 2))[3:]] == [second, first]


async def test_the_age_of_an_ageing_task_still_counts(house: House) -> None:
    row = a_row()
    await submit(house, [row], lanes=[Lane("code", 0.1)])
    score = int((await everything(house))[f"task:{row.task}"]["score"])

    await set_priority(house, row.task, BASE - 3)

    found = await everything(house)
    assert found[f"task:{row.task}"]["score"] == str(score - 3)
    assert found["lane:1"] == {row.task: float(score - 3)}


async def test_sent_again_it_changes_nothing(house: House) -> None:
    task = await submitted(house)
    await set_priority(house, task, 1_000_000)
    before = await everything(house)

    assert await set_priority(house, task, 1_000_000) == ["OK"]

    assert await everything(house) == before


async def test_what_was_set_last_is_the_base_of_the_next(house: House) -> None:
    task = await submitted(house)
    await set_priority(house, task, 1_000_000)

    await set_priority(house, task, 7_000_000)

    found = await everything(house)
    assert found["lane:1"] == {task: 7_000_000.0}
    assert found[f"task:{task}"]["priority"] == "7000000"


@pytest.mark.parametrize("state", ["PENDING", "RETRYING", "DEAD_LETTERED"])
async def test_a_task_outside_its_lane_keeps_the_place_for_later(house: House, state: str) -> None:
    task = await submitted(house, ask={"delay": 60_000})
    await house.client.hset(house.keys.task(task), "state", state)
    before = await everything(house)

    assert await set_priority(house, task, 1_000_000) == ["OK"]

    before[f"task:{task}"].update(priority="1000000", score="1000000")
    assert await everything(house) == before


@pytest.mark.parametrize("begun", [0, 1], ids=["claimed", "running"])
async def test_a_task_in_hand_comes_back_at_its_new_place(house: House, begun: int) -> None:
    lease = await held(house, start=begun)

    assert await set_priority(house, lease.task, 1_000_000) == ["OK"]

    assert "lane:1" not in await everything(house)
    await house.queue.shard.run("task/release", {**FREED, "tries": 0}, [Held(*lease)])
    assert (await everything(house))["lane:1"] == {lease.task: 1_000_000.0}


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED"])
async def test_an_ended_task_has_no_place(house: House, state: str) -> None:
    lease = await held(house)
    if state == "COMPLETED":
        await complete(house.queue.shard, [Settled(*lease, b"")])
    else:
        await house.queue.cancel(f"task_{lease.task}")
    before = await house.dump()

    assert await set_priority(house, lease.task, 1) == ["STATE", state]

    assert await house.dump() == before


async def test_an_unknown_task_is_gone(house: House) -> None:
    assert await set_priority(house, "NOBODY", 1) == ["GONE"]

    assert await house.dump() == {}
