"""cancel: tasks that a suspended task has spawned and waits for are cancelled with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import pytest

from rqueue import Lease
from rqueue.clock import SYSTEM
from tests.harness import Harness
from tests.lua.dag.dags import committed_dag, running
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.task.keyspace import all_keys

HOUR = timedelta(hours=1)


async def family(harness: Harness, **options: Any) -> tuple[Lease, dict[str, str]]:
    """A parent that waits for a child, which waits for a child of its own; and another task."""
    await harness.queue.enqueue("code", **options)
    (lease,) = await running(harness)
    rows = {name: row(name) for name in ("free", "child", "own")}
    await spawn(harness, lease, [rows["free"]])
    await spawn(harness, lease, [rows["child"]], wait="success")
    leases = {one.id.ulid: one for one in await running(harness, 2)}
    await leases[rows["free"][1]].release()
    await spawn(harness, leases[rows["child"][1]], [rows["own"]], wait="done")
    return lease, {name: one[1] for name, one in rows.items()}


async def states(harness: Harness, ids: dict[str, str]) -> dict[str, str]:
    """The states of tasks by name."""
    return {name: str((await harness.task(f"task_{id}")).state) for name, id in ids.items()}


@pytest.mark.parametrize(("rule", "ends"), [("cascade", "CANCELLED"), ("unblock", "PENDING")])
async def test_tasks_that_a_cancelled_parent_waits_for_are_cancelled(
    harness: Harness, rule: Literal["cascade", "unblock"], ends: str
) -> None:
    lease, ids = await family(harness)

    await harness.queue.cancel(lease.id, dependents=rule)

    own = "CANCELLED" if rule == "cascade" else "READY"
    assert await states(harness, ids) == {"free": "READY", "child": ends, "own": own}
    found = await all_keys(harness, P=lease.id, **ids)
    assert "cancelling" not in found
    assert not {"waits:P", "dependents:child", "dependents:own"} & set(found)


async def test_tasks_that_a_parent_waits_for_are_cancelled_at_its_deadline(
    harness: Harness,
) -> None:
    lease, ids = await family(harness, deadline=SYSTEM.now() + HOUR, on_deadline="cancel")
    await harness.client.zadd(harness.keys.deadlines(), {lease.id.ulid: 1})

    await harness.promoter.tick()

    assert (await harness.task(lease.id)).cancel_reason == "deadline passed"
    assert await states(harness, ids) == {"free": "READY", "child": "CANCELLED", "own": "CANCELLED"}


async def test_tasks_that_a_replaced_parent_waits_for_are_cancelled(harness: Harness) -> None:
    lease, ids = await family(harness, idempotency_key="k")

    await harness.queue.enqueue("code", idempotency_key="k", if_exists="replace")
    await harness.promoter.tick()

    assert (await harness.task(lease.id)).state == "CANCELLED"
    assert await states(harness, ids) == {"free": "READY", "child": "CANCELLED", "own": "CANCELLED"}


async def test_a_cancelled_dag_schedules_none_of_its_tasks_again(harness: Harness) -> None:
    dag = await committed_dag(harness, {"p": []})
    (lease,) = await running(harness)
    await spawn(harness, lease, [row("one")], wait="done")

    assert await dag.cancel("no need") == ["OK", 0, 2]

    assert "cancelling" not in await dag.after()
