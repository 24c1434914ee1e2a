"""Awaited: what a task has spawned and waits for ends with it when that is cancelled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import pytest

from rqueue import Lease
from rqueue.clock import SYSTEM
from tests.house import House
from tests.lua.dag.planted import planted, running
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.task.afterwards import afterwards

HOUR = timedelta(hours=1)


async def family(house: House, **options: Any) -> tuple[Lease, dict[str, str]]:
    """A parent that waits for a child, which waits for one of its own, beside one that none waits
    for; all of them by name.
    """
    await house.queue.enqueue("code", **options)
    (lease,) = await running(house)
    rows = {name: row(name) for name in ("free", "child", "own")}
    await spawn(house, lease, [rows["free"]])
    await spawn(house, lease, [rows["child"]], wait="success")
    leases = {one.id.ulid: one for one in await running(house, 2)}
    await leases[rows["free"][1]].release()
    await spawn(house, leases[rows["child"][1]], [rows["own"]], wait="done")
    return lease, {name: one[1] for name, one in rows.items()}


async def states(house: House, ids: dict[str, str]) -> dict[str, str]:
    """The states of tasks by name."""
    return {name: str((await house.task(f"task_{id}")).state) for name, id in ids.items()}


@pytest.mark.parametrize(("rule", "ends"), [("cascade", "CANCELLED"), ("unblock", "PENDING")])
async def test_what_a_cancelled_parent_waits_for_ends_with_it(
    house: House, rule: Literal["cascade", "unblock"], ends: str
) -> None:
    lease, ids = await family(house)

    await house.queue.cancel(lease.id, dependents=rule)

    own = "CANCELLED" if rule == "cascade" else "READY"
    assert await states(house, ids) == {"free": "READY", "child": ends, "own": own}
    found = await afterwards(house, P=lease.id, **ids)
    assert "cancelling" not in found
    assert not {"waits:P", "dependents:child", "dependents:own"} & set(found)


async def test_what_a_parent_waits_for_ends_with_it_at_its_deadline(house: House) -> None:
    lease, ids = await family(house, deadline=SYSTEM.now() + HOUR, on_deadline="cancel")
    await house.client.zadd(house.keys.deadlines(), {lease.id.ulid: 1})

    await house.promoter.tick()

    assert (await house.task(lease.id)).cancel_reason == "deadline passed"
    assert await states(house, ids) == {"free": "READY", "child": "CANCELLED", "own": "CANCELLED"}


async def test_what_a_parent_waits_for_ends_with_it_when_it_is_replaced(house: House) -> None:
    lease, ids = await family(house, idempotency_key="k")

    await house.queue.enqueue("code", idempotency_key="k", if_exists="replace")
    await house.promoter.tick()

    assert (await house.task(lease.id)).state == "CANCELLED"
    assert await states(house, ids) == {"free": "READY", "child": "CANCELLED", "own": "CANCELLED"}


async def test_where_all_of_it_is_given_up_none_is_named_again(house: House) -> None:
    plant = await planted(house, {"p": []})
    (lease,) = await running(house)
    await spawn(house, lease, [row("one")], wait="done")

    assert await plant.cancel("no need") == ["OK", 0, 2]

    assert "cancelling" not in await plant.after()
