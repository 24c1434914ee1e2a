"""edit: another definition for a task that is not claimed yet."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.leases import Settled, complete
from tests.harness import Harness
from tests.lua.rows import DEFINITION, claim, everything, held, submitted
from tests.lua.task.keyspace import run_move

SIZES = {"small": "a" * 40, "pieces": "b" * 500, "large": "c" * 600}


async def edit(harness: Harness, task: str, was: str, new: str) -> list[Any]:
    args: dict[str, Any] = {"task": task, "was": was, "def": new}
    return await run_move(harness, "task/edit", args)


@pytest.mark.parametrize("was", SIZES)
@pytest.mark.parametrize("new", SIZES)
async def test_a_definition_is_replaced_whole_whatever_the_sizes(
    harness: Harness, was: str, new: str
) -> None:
    body = SIZES[new].upper()
    task = await submitted(harness, definition=SIZES[was])
    before = await everything(harness)

    assert await edit(harness, task, SIZES[was], body) == ["OK"]

    fields = before[f"task:{task}"]
    kept = {name: fields[name] for name in fields if not name.startswith("def")}
    pieces = {f"def{at // 64}": body[at : at + 64] for at in range(0, len(body), 64)}
    before[f"task:{task}"] = kept if new == "large" else {**kept, **pieces}
    before.pop(f"def:{task}", None)
    if new == "large":
        before[f"def:{task}"] = body
    assert await everything(harness) == before
    assert (await claim(harness))[3].definition == body.encode()


@pytest.mark.parametrize("state", ["PENDING", "RETRYING"])
async def test_a_waiting_task_may_be_edited(harness: Harness, state: str) -> None:
    task = await submitted(harness, options={"delay": 60_000})
    await harness.client.hset(harness.keys.task(task), "state", state)
    before = await everything(harness)

    assert await edit(harness, task, DEFINITION, "new") == ["OK"]

    before[f"task:{task}"]["def0"] = "new"
    assert await everything(harness) == before


async def test_a_repeated_call_is_ok_and_changes_nothing(harness: Harness) -> None:
    task = await submitted(harness)
    await edit(harness, task, DEFINITION, "new")
    before = await everything(harness)

    assert await edit(harness, task, DEFINITION, "new") == ["OK"]

    assert await everything(harness) == before


async def test_a_task_changed_since_it_was_read_is_not_edited(harness: Harness) -> None:
    task = await submitted(harness)
    await edit(harness, task, DEFINITION, "new")
    before = await harness.dump()

    assert await edit(harness, task, DEFINITION, "another") == ["CHANGED"]

    assert await harness.dump() == before


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "COMPLETED", "CANCELLED"])
async def test_a_leased_or_ended_task_is_not_edited(harness: Harness, state: str) -> None:
    lease = await held(harness, start=int(state != "CLAIMED"))
    if state == "COMPLETED":
        await complete(harness.queue._internals.shard, [Settled(*lease, b"")])
    if state == "CANCELLED":
        await harness.queue.cancel(f"task_{lease.task}")
    before = await harness.dump()

    assert await edit(harness, lease.task, DEFINITION, "new") == ["STATE", state]

    assert await harness.dump() == before


async def test_an_unknown_task_is_gone(harness: Harness) -> None:
    assert await edit(harness, "NOBODY", "", "new") == ["GONE"]

    assert await harness.dump() == {}
