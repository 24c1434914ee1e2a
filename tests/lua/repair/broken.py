"""A queue with a task in every state, and helpers to damage it as a crash would."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rqueue.clock import SYSTEM
from tests.harness import Harness
from tests.lua.task.keyspace import waiting_claim


async def one_of_each(harness: Harness) -> dict[str, str]:
    """The ULID of a task in each state, by the name of the state."""
    deadline = SYSTEM.now() + timedelta(hours=1)
    options: dict[str, Any] = {"tags": ["t"], "deadline": deadline, "on_deadline": "fail"}
    enqueue = harness.queue.enqueue
    found = {"claimed": (await harness.claimed("one", **options)).id}
    running = await harness.running("two", **options)
    found["running"] = running.id
    validating = await harness.running("three", **options)
    await validating.validate()
    found["validating"] = validating.id
    retrying = await harness.running("four", **options)
    await retrying.fail()
    found["retrying"] = retrying.id
    dead = await harness.running("five", **options)
    await dead.fail(permanent=True)
    found["dead"] = dead.id
    done = await harness.running("six", **options)
    await done.complete("done")
    found["done"] = done.id
    await harness.queue.cancel((await enqueue("seven")).id)
    await waiting_claim(harness, "w2", type="seven")
    found["ready"] = (await enqueue("eight", {}, idempotency_key="k", **options)).id
    found["delayed"] = (await enqueue("eight", {}, delay=3600, **options)).id
    found["blocked"] = (await enqueue("eight", {}, depends_on=[found["ready"]], **options)).id
    found["both"] = (await enqueue("eight", {}, depends_on=[running.id], delay=3600)).id
    cancelled = (await enqueue("eight", {}, **options)).id
    await harness.queue.cancel(cancelled)
    found["cancelled"] = cancelled
    return {name: str(task)[-26:] for name, task in found.items()}


async def entry_of(harness: Harness, task: str) -> str:
    """The entry that a task names."""
    found: bytes = await harness.client.hget(harness.keys.task(task), "entry")
    return found.decode()


async def stream(harness: Harness) -> list[str]:
    """The tasks of the stream's entries, in order."""
    entries = await harness.client.xrange(harness.keys.ready())
    return [fields[b"task"].decode() for _, fields in entries]


async def pending(harness: Harness) -> dict[str, str]:
    """Entry -> its consumer."""
    held = await harness.client.xpending_range(harness.keys.ready(), "workers", "-", "+", 100)
    return {one["message_id"].decode(): one["consumer"].decode() for one in held}


async def repaired(harness: Harness) -> int:
    """How many repairs were counted."""
    return int(await harness.client.hget(harness.keys.stats(), "repaired") or 0)
