"""edit: another definition for a task that nobody has claimed yet."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.store.leases import Settled, complete
from tests.house import House
from tests.lua.rows import DEFINITION, claim, everything, held, submitted
from tests.lua.task.afterwards import ask

SIZES = {"small": "a" * 40, "pieces": "b" * 500, "large": "c" * 600}


async def edit(house: House, task: str, was: str, new: str) -> list[Any]:
    args: dict[str, Any] = {"task": task, "was": was, "def": new}
    return await ask(house, "task/edit", args)


@pytest.mark.parametrize("was", SIZES)
@pytest.mark.parametrize("new", SIZES)
async def test_a_definition_is_replaced_whole_whatever_the_sizes(
    house: House, was: str, new: str
) -> None:
    body = SIZES[new].upper()
    task = await submitted(house, definition=SIZES[was])
    before = await everything(house)

    assert await edit(house, task, SIZES[was], body) == ["OK"]

    fields = before[f"task:{task}"]
    kept = {name: fields[name] for name in fields if not name.startswith("def")}
    pieces = {f"def{at // 64}": body[at : at + 64] for at in range(0, len(body), 64)}
    before[f"task:{task}"] = kept if new == "large" else {**kept, **pieces}
    before.pop(f"def:{task}", None)
    if new == "large":
        before[f"def:{task}"] = body
    assert await everything(house) == before
    assert (await claim(house))[3].definition == body.encode()


@pytest.mark.parametrize("state", ["PENDING", "RETRYING"])
async def test_a_waiting_task_may_be_edited(house: House, state: str) -> None:
    task = await submitted(house, ask={"delay": 60_000})
    await house.client.hset(house.keys.task(task), "state", state)
    before = await everything(house)

    assert await edit(house, task, DEFINITION, "new") == ["OK"]

    before[f"task:{task}"]["def0"] = "new"
    assert await everything(house) == before


async def test_sent_again_it_is_ok_and_changes_nothing(house: House) -> None:
    task = await submitted(house)
    await edit(house, task, DEFINITION, "new")
    before = await everything(house)

    assert await edit(house, task, DEFINITION, "new") == ["OK"]

    assert await everything(house) == before


async def test_one_that_was_changed_since_it_was_seen_is_left_alone(house: House) -> None:
    task = await submitted(house)
    await edit(house, task, DEFINITION, "new")
    before = await house.dump()

    assert await edit(house, task, DEFINITION, "another") == ["CHANGED"]

    assert await house.dump() == before


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "COMPLETED", "CANCELLED"])
async def test_a_task_in_hand_or_ended_is_not_edited(house: House, state: str) -> None:
    lease = await held(house, start=int(state != "CLAIMED"))
    if state == "COMPLETED":
        await complete(house.queue.shard, [Settled(*lease, b"")])
    if state == "CANCELLED":
        await house.queue.cancel(f"task_{lease.task}")
    before = await house.dump()

    assert await edit(house, lease.task, DEFINITION, "new") == ["STATE", state]

    assert await house.dump() == before


async def test_an_unknown_task_is_gone(house: House) -> None:
    assert await edit(house, "NOBODY", "", "new") == ["GONE"]

    assert await house.dump() == {}
