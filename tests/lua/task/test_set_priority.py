"""set_priority: another place in the lane; age still counts."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.leases import HeldLease, Settled, complete
from rqueue.store.shard import ANSWER_LIMITS
from rqueue.task.lane import Lane
from tests.harness import Harness
from tests.lua.rows import BASE, a_row, claim, everything, held, submit, submitted
from tests.lua.task.keyspace import run_move


async def set_priority(harness: Harness, task: str, priority: int, was: int = BASE) -> list[Any]:
    args: dict[str, Any] = {"task": task, "priority": priority, "was": was}
    return await run_move(harness, "task/set_priority", args)


async def test_a_ready_task_moves_in_its_lane(harness: Harness) -> None:
    first, second = await submitted(harness), await submitted(harness)
    before = await everything(harness)

    assert await set_priority(harness, second, 1_000_000) == ["OK"]

    before[f"task:{second}"].update(priority="1000000", score="1000000")
    before["lane:1"][second] = 1_000_000.0
    assert await everything(harness) == before
    assert [row.task for row in (await claim(harness, 2))[3:]] == [second, first]


async def test_the_age_of_an_ageing_task_still_counts(harness: Harness) -> None:
    row = a_row()
    await submit(harness, [row], lanes=[Lane("code", 0.1)])
    score = int((await everything(harness))[f"task:{row.task}"]["score"])

    await set_priority(harness, row.task, BASE - 3)

    found = await everything(harness)
    assert found[f"task:{row.task}"]["score"] == str(score - 3)
    assert found["lane:1"] == {row.task: float(score - 3)}


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    task = await submitted(harness)
    await set_priority(harness, task, 1_000_000)
    before = await everything(harness)

    assert await set_priority(harness, task, 1_000_000) == ["OK"]

    assert await everything(harness) == before


async def test_the_last_set_priority_is_the_base_of_the_next(harness: Harness) -> None:
    task = await submitted(harness)
    await set_priority(harness, task, 1_000_000)

    await set_priority(harness, task, 7_000_000)

    found = await everything(harness)
    assert found["lane:1"] == {task: 7_000_000.0}
    assert found[f"task:{task}"]["priority"] == "7000000"


@pytest.mark.parametrize("state", ["PENDING", "RETRYING", "DEAD_LETTERED"])
async def test_a_task_outside_its_lane_keeps_the_new_place_for_later(
    harness: Harness, state: str
) -> None:
    task = await submitted(harness, options={"delay": 60_000})
    await harness.client.hset(harness.keys.task(task), "state", state)
    before = await everything(harness)

    assert await set_priority(harness, task, 1_000_000) == ["OK"]

    before[f"task:{task}"].update(priority="1000000", score="1000000")
    assert await everything(harness) == before


@pytest.mark.parametrize("begun", [0, 1], ids=["claimed", "running"])
async def test_a_leased_task_returns_at_its_new_place(harness: Harness, begun: int) -> None:
    lease = await held(harness, start=begun)

    assert await set_priority(harness, lease.task, 1_000_000) == ["OK"]

    assert "lane:1" not in await everything(harness)
    await harness.queue._internals.shard.run(
        "task/release", {**ANSWER_LIMITS, "tries": 0}, [HeldLease(*lease)]
    )
    assert (await everything(harness))["lane:1"] == {lease.task: 1_000_000.0}


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED"])
async def test_an_ended_task_has_no_place(harness: Harness, state: str) -> None:
    lease = await held(harness)
    if state == "COMPLETED":
        await complete(harness.queue._internals.shard, [Settled(*lease, b"")])
    else:
        await harness.queue.cancel(f"task_{lease.task}")
    before = await harness.dump()

    assert await set_priority(harness, lease.task, 1) == ["STATE", state]

    assert await harness.dump() == before


async def test_an_unknown_task_is_gone(harness: Harness) -> None:
    assert await set_priority(harness, "NOBODY", 1) == ["GONE"]

    assert await harness.dump() == {}
