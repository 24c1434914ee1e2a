"""A house with a task in every state, and hands to break it as a crash in a script would."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rqueue.clock import SYSTEM
from tests.house import House
from tests.lua.task.afterwards import parked


async def one_of_each(house: House) -> dict[str, str]:
    """The ULID of a task in each state that is no end, by a name that says which."""
    deadline = SYSTEM.now() + timedelta(hours=1)
    options: dict[str, Any] = {"tags": ["t"], "deadline": deadline, "on_deadline": "fail"}
    enqueue = house.queue.enqueue
    found = {"claimed": (await house.claimed("one", **options)).id}
    running = await house.running("two", **options)
    found["running"] = running.id
    validating = await house.running("three", **options)
    await validating.validate()
    found["validating"] = validating.id
    retrying = await house.running("four", **options)
    await retrying.fail()
    found["retrying"] = retrying.id
    dead = await house.running("five", **options)
    await dead.fail(permanent=True)
    found["dead"] = dead.id
    done = await house.running("six", **options)
    await done.complete("done")
    found["done"] = done.id
    await house.queue.cancel((await enqueue("seven")).id)
    await parked(house, "w2", type="seven")
    found["ready"] = (await enqueue("eight", {}, idempotency_key="k", **options)).id
    found["delayed"] = (await enqueue("eight", {}, delay=3600, **options)).id
    found["blocked"] = (await enqueue("eight", {}, depends_on=[found["ready"]], **options)).id
    found["both"] = (await enqueue("eight", {}, depends_on=[running.id], delay=3600)).id
    cancelled = (await enqueue("eight", {}, **options)).id
    await house.queue.cancel(cancelled)
    found["cancelled"] = cancelled
    return {name: str(task)[-26:] for name, task in found.items()}


async def entry_of(house: House, task: str) -> str:
    """The entry that a task names."""
    found: bytes = await house.client.hget(house.keys.task(task), "entry")
    return found.decode()


async def stream(house: House) -> list[str]:
    """The tasks of the stream's entries, in order."""
    entries = await house.client.xrange(house.keys.ready())
    return [fields[b"task"].decode() for _, fields in entries]


async def pending(house: House) -> dict[str, str]:
    """Entry -> who holds it."""
    held = await house.client.xpending_range(house.keys.ready(), "workers", "-", "+", 100)
    return {one["message_id"].decode(): one["consumer"].decode() for one in held}


async def repaired(house: House) -> int:
    """How many repairs were counted."""
    return int(await house.client.hget(house.keys.stats(), "repaired") or 0)
