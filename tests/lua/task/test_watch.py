"""watch: asks to be told by mail when tasks end."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.store.leases import Settled, complete
from tests.house import House
from tests.lua.rows import everything, held, pttl, submitted, words


async def watch(house: House, *tasks: str, box: str = "box") -> list[str]:
    args: dict[str, Any] = {"box": box, "keep_ms": 60_000}
    reply = words(await house.queue.shard.run("task/watch", args, [(task,) for task in tasks]))
    assert reply[0] == "OK"
    found: list[str] = reply[1:]
    return found


async def test_a_live_task_remembers_who_asked_for_a_while(house: House) -> None:
    task = await submitted(house)
    before = await everything(house)

    assert await watch(house, task) == ["READY"]

    before[f"task:{task}"]["flags"] = "w"
    before[f"watchers:{task}"] = {"box"}
    assert await everything(house) == before
    assert 0 < await pttl(house, f"watchers:{task}") <= 60_000


async def test_asking_again_changes_nothing_but_the_time(house: House) -> None:
    task = await submitted(house)
    await watch(house, task)
    before = await house.dump()
    await house.client.pexpire(house.keys.watchers(task), 5000)

    assert await watch(house, task, task) == ["READY", "READY"]

    assert await house.dump() == before
    assert await pttl(house, f"watchers:{task}") > 5000


async def test_several_boxes_may_ask(house: House) -> None:
    task = await submitted(house, more={"tags": ["t"]})

    await watch(house, task, box="a")
    await watch(house, task, box="b")

    found = await everything(house)
    assert found[f"watchers:{task}"] == {"a", "b"}
    assert found[f"task:{task}"]["flags"] == "mw"


@pytest.mark.parametrize("begun", [0, 1], ids=["CLAIMED", "RUNNING"])
async def test_a_task_in_hand_is_watched_too(house: House, begun: int) -> None:
    lease = await held(house, start=begun)

    assert await watch(house, lease.task) == ["RUNNING" if begun else "CLAIMED"]

    assert (await everything(house))[f"watchers:{lease.task}"] == {"box"}


async def test_a_waiting_task_is_watched_too(house: House) -> None:
    task = await submitted(house, ask={"delay": 60_000})

    assert await watch(house, task) == ["PENDING"]

    assert (await everything(house))[f"watchers:{task}"] == {"box"}


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "DEAD_LETTERED"])
async def test_an_ended_task_says_so_at_once_and_remembers_nobody(house: House, state: str) -> None:
    lease = await held(house)
    match state:
        case "COMPLETED":
            await complete(house.queue.shard, [Settled(*lease, b"")])
        case "CANCELLED":
            await house.queue.cancel(f"task_{lease.task}")
        case _:
            await house.client.hset(house.keys.task(lease.task), "state", state)
    before = await house.dump()

    assert await watch(house, lease.task) == [state]

    assert await house.dump() == before


async def test_an_unknown_task_is_gone_and_leaves_nothing(house: House) -> None:
    assert await watch(house, "NOBODY") == ["GONE"]

    assert await house.dump() == {}


async def test_each_task_gets_its_own_word(house: House) -> None:
    ready, lease = await submitted(house), None
    lease = await submitted(house, ask={"delay": 60_000})

    assert await watch(house, ready, "NOBODY", lease) == ["READY", "GONE", "PENDING"]
