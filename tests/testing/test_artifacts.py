"""Artifacts of a queue in memory: in a directory that is deleted at the end."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from rqueue import Context, Queue
from rqueue.errors import ArtifactRefused
from rqueue.task.attempt.outcome import Reason
from rqueue.testing import memory

LARGE = "x" * 400_000
NOWHERE = "redis://nowhere.invalid:1"


async def test_artifacts_of_handlers_are_recorded_and_read(tmp_path: Path) -> None:
    queue = Queue("shop", url=NOWHERE, data_dir=tmp_path / "never", max_artifacts=2)

    @queue.task("write", max_attempts=1)
    async def write(ctx: Context, times: int) -> str:
        found = [await ctx.artifacts.put(b"abc", name=f"{n}.txt") for n in range(times)]
        return found[-1].reference

    with memory(queue) as held:
        good, bad = await queue.enqueue("write", {"times": 2}), await queue.enqueue(
            "write", {"times": 3}
        )  # fmt: skip
        await held.run_until_idle()

        reference = str(await good.result(timeout=5))
        assert await queue.artifacts.get(reference) == b"abc"
        assert [one.name for one in await queue.artifacts.list(good.id)] == ["0.txt", "1.txt"]
        assert ArtifactRefused.__name__ in ((await bad.task()).last_error or "")
        folder = held.folder
        assert folder.is_dir()

    assert not folder.exists()
    assert not (tmp_path / "never").exists()


async def test_large_results_become_artifacts_as_the_settings_require() -> None:
    async def large() -> str:
        return LARGE

    with_place = Queue("shop", url=NOWHERE, artifacts_url="file:///never/used")
    without = Queue("shop", url=NOWHERE)
    for queue in (with_place, without):
        queue.task("large", max_attempts=1)(large)

    with memory(with_place) as held:
        handle = await with_place.enqueue("large")
        await held.run_until_idle()
        assert await handle.result(timeout=5) == LARGE
    with memory(without) as held:
        handle = await without.enqueue("large")
        await held.run_until_idle()
        assert (await handle.task()).failure_reason == Reason.INVALID_OUTPUT

    assert "never" not in os.listdir("/")


async def test_unreferenced_artifacts_are_swept_when_they_are_old_enough() -> None:
    queue = Queue("shop", url=NOWHERE)

    @queue.task("write")
    async def write(ctx: Context) -> str:
        return (await ctx.artifacts.put(b"abc")).reference

    with memory(queue) as held:
        await queue.enqueue("write")
        await held.run_until_idle()
        (task,) = held.tasks()
        await queue.enqueue("keeps", {"file": task.result})
        other = await queue._internals.runtime.shelf.put(b"orphan", task=task.id)

        assert (await queue.artifacts.sweep()).found == []
        held.advance(timedelta(days=40).total_seconds())
        assert (await queue.artifacts.sweep()).found == [other.id]
        assert await queue.artifacts.get(str(task.result)) == b"abc"
