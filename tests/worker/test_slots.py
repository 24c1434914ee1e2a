"""Slots: a ready task is removed by its own lease only."""

from __future__ import annotations

import asyncio

from rqueue.core.claim import Grant
from rqueue.core.leases import HeldLease
from rqueue.worker.shared_slots import SharedSlots
from rqueue.worker.slots import Running, Slots
from tests.worker.running import until

# All grants of one claim share a token.
TOKEN = "1:bits"


def a_grant(task: str, token: str = TOKEN) -> Grant:
    return Grant(task, token, attempts=0, reclaims=0, created_ms=1, more=b"", definition=b"")


async def test_a_lost_lease_does_not_affect_other_tasks_of_the_same_claim() -> None:
    ran: list[str] = []
    free = asyncio.Event()

    async def attempt(running: Running) -> None:
        await free.wait()
        ran.append(running.grant.task)

    slots = Slots(SharedSlots(1), attempt, lambda: None)
    slots.add([a_grant("first"), a_grant("lost"), a_grant("lost", "2:later"), a_grant("kept")])

    slots.forget(HeldLease("lost", TOKEN))
    free.set()
    await until(lambda: not slots.busy)

    assert ran == ["first", "lost", "kept"]
