"""The outbox as the store reads it, on every kind of server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from rqueue.errors import StoreUnavailable
from rqueue.store.kept import snapshot_in
from rqueue.store.outbox import Entry, Line, archived, oldest_ms, portions
from tests.house import House


async def test_the_first_entry_tells_how_far_the_archive_is_behind(archived_house: House) -> None:
    house = archived_house
    assert await oldest_ms(house.queue.shard) is None
    await house.client.xadd(house.keys.outbox(), {"a": "b"}, id="5-0")

    found = await oldest_ms(house.queue.shard)

    assert found is not None
    assert found > 1_000_000_000_000


async def test_a_snapshot_gives_back_the_bytes_that_were_there(archived_house: House) -> None:
    house = archived_house
    lease = await house.running(max_attempts=1)
    await house.client.set(house.keys.definition(lease.id.ulid), b'{"t":"code","p":"\xff/\x01"}')
    await house.client.hdel(house.keys.task(lease.id.ulid), "def0")
    await lease.fail("error", "a/b\u2028c")
    ((_, fields),) = await house.client.xrange(house.keys.outbox())

    kept = snapshot_in(next(iter(fields.values())).split(b" ", 2)[2])

    assert kept.definition == b'{"t":"code","p":"\xff/\x01"}'
    assert json.loads(kept.failures[0])["error"] == "a/b\u2028c"
    assert b"DEAD_LETTERED" in kept.flat


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"task":[]}', b"\xff"])
def test_a_snapshot_that_is_broken_is_none(text: bytes) -> None:
    with pytest.raises((ValueError, LookupError, AttributeError, TypeError)):
        snapshot_in(text)


def test_entries_are_let_go_of_in_bounded_calls() -> None:
    entries = [Entry(str(n), [Line(b"", b"")] * 100) for n in range(7)]

    found = [[entry.id for entry in portion] for portion in portions(entries)]

    assert found == [["0", "1", "2"], ["3", "4", "5"], ["6"]]


async def test_one_call_that_fails_leaves_none_of_the_others_behind(
    archived_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [Entry(f"{n}-0", [Line(b"", b"")] * 250) for n in range(1, 4)]
    ended: list[str] = []

    async def run(name: str, args: Any, rows: list[tuple[str]]) -> Any:
        if rows == [("1-0",)]:
            raise StoreUnavailable("away")
        await asyncio.sleep(0)
        ended.append(rows[0][0])
        return ["OK", 250]

    monkeypatch.setattr(archived_house.queue.shard, "run", run)
    with pytest.raises(StoreUnavailable):
        await archived(archived_house.queue.shard, entries)

    assert ended == ["2-0", "3-0"]
