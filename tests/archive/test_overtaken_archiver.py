"""A slow archiver whose entries another archiver has taken over."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.archive import archiver as module
from rqueue.core import outbox
from tests.archive.archiver_harness import ArchiverHarness


async def overtaken(pg_env: ArchiverHarness) -> None:
    """Another archiver takes over the entries and archives them; the tasks expire in Redis."""
    harness = pg_env.harness
    key = harness.keys.outbox()
    pending = await harness.client.xpending_range(key, outbox.GROUP, "-", "+", 100)
    for one in pending:
        await harness.client.xclaim(
            key, outbox.GROUP, one["consumer"], 0, [one["message_id"]], idle=module.IDLE_MS,
            justid=True,
        )  # fmt: skip
    await pg_env.another().tick()
    assert await pg_env.outbox() == 0
    await forgotten(pg_env)


async def forgotten(pg_env: ArchiverHarness) -> None:
    """Deletes all tasks, as if they had expired."""
    keys = await pg_env.harness.client.keys(f"{pg_env.harness.keys.root}task:*")
    assert keys
    await pg_env.harness.client.delete(*keys)


async def test_a_task_archived_by_another_archiver_is_not_quarantined(
    pg_env: ArchiverHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await pg_env.completed()

    async def slowly(*asked: Any, **how: Any) -> list[outbox.Entry]:
        monkeypatch.undo()
        found = await outbox.collect(*asked, **how)
        await overtaken(pg_env)
        return found

    monkeypatch.setattr(module, "collect", slowly)
    done = await pg_env.archiver.tick()

    assert (done.tasks, done.repeated, done.quarantined) == (0, 3, 0)
    assert (pg_env.count(), pg_env.count("quarantine"), pg_env.count("conflicts")) == (3, 0, 0)


async def test_an_expired_task_that_was_not_archived_is_quarantined(
    pg_env: ArchiverHarness,
) -> None:
    await pg_env.completed()
    await forgotten(pg_env)

    done = await pg_env.archiver.tick()

    assert (done.tasks, done.repeated, done.quarantined) == (1, 0, 1)
    assert (pg_env.count(), pg_env.count("quarantine")) == (0, 1)
