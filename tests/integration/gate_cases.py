"""Calls about gates and roles, of steps and artifacts, whose replies are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease
from rqueue.errors import Forbidden
from rqueue.model.artifact import described
from rqueue.model.ids import new_artifact_id
from rqueue.store.artifacts import attach
from rqueue.store.leases import Held, Parking, park
from rqueue.store.roles import set_role
from rqueue.store.steps import step
from tests.house import House

READS = {"breaker/read", "budget/read", "role/list", "slowdown/list", "queue/mentions"}
ARTIFACT = described(id=new_artifact_id(), name="a.txt", size=3, sha256="a" * 64)


async def nothing(house: House) -> None: ...


async def ready(house: House) -> Any:
    return (await house.queue.enqueue("code")).id


async def resting(house: House) -> None:
    await house.queue.enqueue("code")
    await house.queue.open_breaker("code", 60)


async def slowed(house: House) -> Any:
    lease = await house.running()
    row = Parking(lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 60_000)
    await park(house.queue.shard, [row])
    return lease.id


async def running(house: House) -> Lease:
    return await house.running()


async def opened(house: House, _: object) -> None:
    await house.queue.open_breaker("code", 60)


async def closed(house: House, _: object) -> None:
    await house.queue.close_breaker("code")


async def lifted(house: House, _: object) -> bool:
    return await house.queue.lift_slowdown("code")


async def limited(house: House, _: object) -> None:
    await house.queue.set_budget(1.0, afresh=True)


async def poor(house: House) -> None:
    await house.queue.enqueue("code", {}, estimated_cost_usd=0.5)
    await house.queue.set_budget(0.1)
    await house.queue.claim(worker="w1")


async def asked(house: House, task: str) -> list[str]:
    return [hold.word for hold in (await house.queue.why(task)).holds]


async def kept(house: House, lease: Lease) -> bytes:
    held = Held(lease.id.ulid, lease.token)
    return await step(house.queue.shard, held, "plan", b'"done"')


async def attached(house: House, lease: Lease) -> list[str]:
    held = Held(lease.id.ulid, lease.token)
    await attach(house.queue.shard, held, ARTIFACT)
    return [one.name for one in (await house.queue.get(lease.id)).attached]


async def agent(house: House) -> None:
    await house.queue.set_role("agent:coder", "agent")


async def given(house: House, _: object) -> dict[str, str]:
    await house.queue.set_role("agent:coder", "human")
    return await house.queue.roles()


async def not_given(house: House, _: object) -> str:
    with pytest.raises(Forbidden) as error:
        await set_role(house.queue.shard, "agent:coder", "human", by="agent:coder")
    return str(error.value)


async def refused(house: House, _: object) -> str:
    with pytest.raises(Forbidden) as error:
        await house.queue.enqueue("code", created_by="agent:coder")
    return str(error.value)


async def dropped(house: House, _: object) -> dict[str, str]:
    await house.queue.drop_role("agent:coder")
    return await house.queue.roles()


Row = tuple[Callable[[House], Awaitable[Any]], Callable[[House, Any], Awaitable[Any]]]
CASES: dict[str, list[Row]] = {
    "breaker/open": [(nothing, opened), (resting, opened)],
    "breaker/close": [(nothing, closed), (resting, closed)],
    "slowdown/lift": [(nothing, lifted), (slowed, lifted)],
    "budget/set": [(nothing, limited), (poor, limited)],
    "role/set": [(nothing, given), (agent, given), (agent, not_given)],
    "role/drop": [(nothing, dropped), (agent, dropped)],
    "task/why": [(ready, asked), (slowed, asked)],
    "task/step": [(running, kept)],
    "task/attach": [(running, attached)],
}
