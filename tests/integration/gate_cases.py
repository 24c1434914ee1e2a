"""Calls about gates, roles, steps and artifacts whose replies are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease
from rqueue.core.leases import HeldLease, Parked, park
from rqueue.core.notes import attach, step
from rqueue.errors import Forbidden
from rqueue.fleet.roles import set_role
from rqueue.task.artifact import artifact_of
from rqueue.task.ids import new_artifact_id
from tests.harness import Harness

READS = {"breaker/read", "budget/read", "role/list", "slowdown/list", "repair/mentions"}
ARTIFACT = artifact_of(id=new_artifact_id(), name="a.txt", size=3, sha256="a" * 64)


async def nothing(harness: Harness) -> None: ...


async def ready(harness: Harness) -> Any:
    return (await harness.queue.enqueue("code")).id


async def breaker_open(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    await harness.queue.limits.open_breaker("code", 60)


async def slowed(harness: Harness) -> Any:
    lease = await harness.running()
    row = Parked(lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 60_000)
    await park(harness.queue._internals.shard, [row])
    return lease.id


async def running(harness: Harness) -> Lease:
    return await harness.running()


async def opened(harness: Harness, _: object) -> None:
    await harness.queue.limits.open_breaker("code", 60)


async def closed(harness: Harness, _: object) -> None:
    await harness.queue.limits.close_breaker("code")


async def lifted(harness: Harness, _: object) -> bool:
    return await harness.queue.limits.lift_slowdown("code")


async def limited(harness: Harness, _: object) -> None:
    await harness.queue.budgets.set(1.0, afresh=True)


async def short_of_budget(harness: Harness) -> None:
    await harness.queue.enqueue("code", {}, estimated_cost_usd=0.5)
    await harness.queue.budgets.set(0.1)
    await harness.queue.claim(worker="w1")


async def why(harness: Harness, task: str) -> list[str]:
    return [hold.word for hold in (await harness.queue.why(task)).holds]


async def step_stored(harness: Harness, lease: Lease) -> bytes:
    held = HeldLease(lease.id.ulid, lease.token)
    return await step(harness.queue._internals.shard, held, "plan", b'"done"')


async def artifact_attached(harness: Harness, lease: Lease) -> list[str]:
    held = HeldLease(lease.id.ulid, lease.token)
    await attach(harness.queue._internals.shard, held, ARTIFACT)
    return [one.name for one in (await harness.queue.get(lease.id)).attached]


async def agent_role(harness: Harness) -> None:
    await harness.queue.roles.set("agent:coder", "agent")


async def role_set(harness: Harness, _: object) -> dict[str, str]:
    await harness.queue.roles.set("agent:coder", "human")
    return await harness.queue.roles.list()


async def role_refused(harness: Harness, _: object) -> str:
    with pytest.raises(Forbidden) as error:
        await set_role(harness.queue._internals.shard, "agent:coder", "human", by="agent:coder")
    return str(error.value)


async def refused(harness: Harness, _: object) -> str:
    with pytest.raises(Forbidden) as error:
        await harness.queue.enqueue("code", created_by="agent:coder")
    return str(error.value)


async def dropped(harness: Harness, _: object) -> dict[str, str]:
    await harness.queue.roles.drop("agent:coder")
    return await harness.queue.roles.list()


Row = tuple[Callable[[Harness], Awaitable[Any]], Callable[[Harness, Any], Awaitable[Any]]]
CASES: dict[str, list[Row]] = {
    "breaker/open": [(nothing, opened), (breaker_open, opened)],
    "breaker/close": [(nothing, closed), (breaker_open, closed)],
    "slowdown/lift": [(nothing, lifted), (slowed, lifted)],
    "budget/set": [(nothing, limited), (short_of_budget, limited)],
    "role/set": [(nothing, role_set), (agent_role, role_set), (agent_role, role_refused)],
    "role/drop": [(nothing, dropped), (agent_role, dropped)],
    "task/why": [(ready, why), (slowed, why)],
    "task/step": [(running, step_stored)],
    "task/attach": [(running, artifact_attached)],
}
