"""Dead tasks for tests, and their reviews."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rqueue import TaskId
from rqueue.core.notes import note
from rqueue.dead.reviews import Review
from rqueue.task.task import Note
from tests.harness import Harness


async def died(harness: Harness, error: str = "no", type: str = "code", **options: Any) -> TaskId:
    options.setdefault("payload", {"n": 1})
    handle = await harness.queue.enqueue(type, options.pop("payload"), **options)
    agents = [options["agent_name"]] if "agent_name" in options else []
    (lease,) = await harness.queue.claim(worker="w1", types=[type], agents=agents)
    await lease.start()
    await note(harness.queue._internals.shard, lease.held, Note(usd=0.5, tokens_in=3), seq=1)
    await lease.fail("error", error, permanent=True)
    return handle.id


async def reviews(harness: Harness) -> list[Review]:
    return [review async for review in harness.queue.dead.reviews()]


def text_of(path: str) -> str:
    return Path(path).read_text("utf-8")
