"""An archiver that was slow, and finds that another has done its work."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.archive import archiver as module
from rqueue.core import outbox
from tests.archive.library import Library


async def overtaken(shelf: Library) -> None:
    """Another takes over what the first holds, archives it, and Redis forgets the tasks."""
    harness = shelf.harness
    key = harness.keys.outbox()
    pending = await harness.client.xpending_range(key, outbox.GROUP, "-", "+", 100)
    for one in pending:
        await harness.client.xclaim(
            key, outbox.GROUP, one["consumer"], 0, [one["message_id"]], idle=module.IDLE_MS,
            justid=True,
        )  # fmt: skip
    await shelf.another().tick()
    assert await shelf.outbox() == 0
    await forgotten(shelf)


async def forgotten(shelf: Library) -> None:
    """The time of all tasks is over."""
    keys = await shelf.harness.client.keys(f"{shelf.harness.keys.root}task:*")
    assert keys
    await shelf.harness.client.delete(*keys)


async def test_what_another_has_archived_meanwhile_is_not_quarantined(
    shelf: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await shelf.completed()

    async def slowly(*asked: Any, **how: Any) -> list[outbox.Entry]:
        monkeypatch.undo()
        found = await outbox.collect(*asked, **how)
        await overtaken(shelf)
        return found

    monkeypatch.setattr(module, "collect", slowly)
    done = await shelf.archiver.tick()

    assert (done.tasks, done.repeated, done.quarantined) == (0, 3, 0)
    assert (shelf.count(), shelf.count("quarantine"), shelf.count("conflicts")) == (3, 0, 0)


async def test_what_nobody_has_archived_is_quarantined_though_nothing_is_kept(
    shelf: Library,
) -> None:
    await shelf.completed()
    await forgotten(shelf)

    done = await shelf.archiver.tick()

    assert (done.tasks, done.repeated, done.quarantined) == (1, 0, 1)
    assert (shelf.count(), shelf.count("quarantine")) == (0, 1)
