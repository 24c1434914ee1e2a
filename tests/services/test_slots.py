"""Slots: what waits for one is forgotten by its own lease alone."""

from __future__ import annotations

import asyncio

from rqueue.services.seats import Seats
from rqueue.services.slots import Running, Slots
from rqueue.store.claims import Grant
from rqueue.store.leases import Held
from tests.services.working import until

# All tasks of one claim have the token of that claim.
TOKEN = "1:bits"


def a_grant(task: str, token: str = TOKEN) -> Grant:
    return Grant(task, token, attempts=0, reclaims=0, created_ms=1, more=b"", definition=b"")


async def test_a_lost_lease_leaves_its_neighbours_of_the_same_claim_alone() -> None:
    ran: list[str] = []
    free = asyncio.Event()

    async def attempt(running: Running) -> None:
        await free.wait()
        ran.append(running.grant.task)

    slots = Slots(Seats(1), attempt, lambda: None)
    slots.give([a_grant("first"), a_grant("lost"), a_grant("lost", "2:later"), a_grant("kept")])

    slots.forget(Held("lost", TOKEN))
    free.set()
    await until(lambda: not slots.busy)

    assert ran == ["first", "lost", "kept"]
