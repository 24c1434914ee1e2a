"""The accounts of budgets in tests, in micro-USD."""

from __future__ import annotations

from typing import Any

from rqueue import Lease
from tests.harness import Harness

CENT = 10_000


async def account(harness: Harness, name: str = "day") -> dict[str, int]:
    """What was spent and what is reserved on an account."""
    return await figures(harness, harness.keys.budget(name))


async def dag_account(harness: Harness, dag: str) -> dict[str, int]:
    """The same of a DAG."""
    return await figures(harness, harness.keys.dag(dag[-26:]))


async def figures(harness: Harness, key: str) -> dict[str, int]:
    spent, reserved = await harness.client.hmget(key, "spent", "reserved")
    return {"spent": int(spent or 0), "reserved": int(reserved or 0)}


async def costing(harness: Harness, *usd: float, **options: Any) -> list[str]:
    """New tasks that are expected to cost so much."""
    return [
        (await harness.queue.enqueue("code", {}, estimated_cost_usd=each, **options)).id
        for each in usd
    ]


async def claimed(harness: Harness, n: int = 10, worker: str = "w1") -> list[Lease]:
    """The leases of a claim of all types."""
    return await harness.queue.claim(worker=worker, n=n)


def ids(leases: list[Lease]) -> list[str]:
    return [lease.id for lease in leases]
