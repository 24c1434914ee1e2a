"""Reads of the outbox, on every kind of server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from rqueue.core.ended import snapshot_in
from rqueue.core.outbox import Entry, OutboxItem, archived, oldest_ms, portions
from rqueue.errors import StoreUnavailable
from tests.harness import Harness


async def test_the_age_of_the_first_entry_is_the_lag_of_the_archive(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    assert await oldest_ms(harness.queue._internals.shard) is None
    await harness.client.xadd(harness.keys.outbox(), {"a": "b"}, id="5-0")

    found = await oldest_ms(harness.queue._internals.shard)

    assert found is not None
    assert found > 1_000_000_000_000


async def test_a_snapshot_preserves_the_bytes(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.running(max_attempts=1)
    await harness.client.set(
        harness.keys.definition(lease.id.ulid), b'{"t":"code","p":"\xff/\x01"}'
    )
    await harness.client.hdel(harness.keys.task(lease.id.ulid), "def0")
    await lease.fail("error", "a/b\u2028c")
    ((_, fields),) = await harness.client.xrange(harness.keys.outbox())

    kept = snapshot_in(next(iter(fields.values())).split(b" ", 2)[2])

    assert kept.definition == b'{"t":"code","p":"\xff/\x01"}'
    assert json.loads(kept.failures[0])["error"] == "a/b\u2028c"
    assert b"DEAD_LETTERED" in kept.flat


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"task":[]}', b"\xff"])
def test_an_invalid_snapshot_raises_an_error(text: bytes) -> None:
    with pytest.raises((ValueError, LookupError, AttributeError, TypeError)):
        snapshot_in(text)


def test_entries_are_acknowledged_in_bounded_calls() -> None:
    entries = [Entry(str(n), [OutboxItem(b"", b"")] * 100) for n in range(7)]

    found = [[entry.id for entry in portion] for portion in portions(entries)]

    assert found == [["0", "1", "2"], ["3", "4", "5"], ["6"]]


async def test_a_failed_call_does_not_stop_the_other_calls(
    archived_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [Entry(f"{n}-0", [OutboxItem(b"", b"")] * 250) for n in range(1, 4)]
    ended: list[str] = []

    async def run(name: str, args: Any, rows: list[tuple[str]]) -> Any:
        if rows == [("1-0",)]:
            raise StoreUnavailable("away")
        await asyncio.sleep(0)
        ended.append(rows[0][0])
        return ["OK", 250]

    monkeypatch.setattr(archived_harness.queue._internals.shard, "run", run)
    with pytest.raises(StoreUnavailable):
        await archived(archived_harness.queue._internals.shard, entries)

    assert ended == ["2-0", "3-0"]
