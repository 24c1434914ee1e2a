"""Idempotency keys of archived tasks: a completed task is not submitted again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.services import scheduler_services
from rqueue.settings.load import Settings
from tests.archive.reading.reader_harness import ReaderHarness, reader_harness
from tests.postgres import Database
from tests.servers import Server


@pytest.fixture
async def long_window(valkey: Server, postgres: Database) -> AsyncIterator[ReaderHarness]:
    """A queue whose archive is read before each submission with a key."""
    async with reader_harness(valkey, postgres, dedupe_archive=True) as found:
        yield found


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"archive": "none"}, "dedupe_archive"),
        ({"archive": "postgres"}, "dedupe_archive"),
        ({"postgres_url": "postgresql://x/y", "dedupe_window_sec": 60}, "dedupe_window_sec"),
    ],
)
def test_a_window_longer_than_the_retention_is_refused(given: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings(name="q", url="redis://x", dedupe_archive=True, **given)

    assert refused.value.setting == setting


async def test_a_task_that_completed_is_not_submitted_again(long_window: ReaderHarness) -> None:
    task = await long_window.completed(idempotency_key="order-7")
    await long_window.moved()

    again = await long_window.queue.enqueue("code", idempotency_key="order-7")

    assert (again.id, again.created) == (task.id, False)
    assert await again.result(timeout=5) is None
    assert await long_window.harness.client.keys("*task:*") == []
    other = await long_window.queue.enqueue("code", idempotency_key="order-8")
    assert other.created


async def test_deduplication_by_content_uses_the_archive(long_window: ReaderHarness) -> None:
    task = await long_window.completed(payload={"a": [1, 2]}, dedupe="content")
    await long_window.moved()

    same = await long_window.queue.enqueue("code", {"a": [1, 2]}, dedupe="content")
    new = await long_window.queue.enqueue("code", {"a": [1, 3]}, dedupe="content")

    assert (same.id, same.created, new.created) == (task.id, False, True)


async def test_a_dead_or_cancelled_task_does_not_block(long_window: ReaderHarness) -> None:
    await long_window.dead(idempotency_key="dead")
    waiting = await long_window.queue.enqueue("code", delay=60, idempotency_key="cancelled")
    await waiting.cancel()
    gone = await long_window.dead(idempotency_key="discarded")
    await long_window.queue.dead.discard(gone.id)
    await long_window.moved()

    for key in ("dead", "cancelled", "discarded"):
        assert (await long_window.queue.enqueue("code", idempotency_key=key)).created


@pytest.mark.parametrize("unique", ["until_start", "until_done"])
async def test_a_key_that_is_free_when_the_task_starts_does_not_block(
    long_window: ReaderHarness, unique: Any
) -> None:
    await long_window.completed(idempotency_key="k", unique="until_start")
    await long_window.moved()

    again = await long_window.queue.enqueue("code", idempotency_key="k", unique=unique)

    assert again.created


async def test_many_keys_are_read_in_one_statement(
    long_window: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = [(await long_window.completed(idempotency_key=f"k{n}")).id for n in range(3)]
    await long_window.moved()
    past = long_window.queue._internals.runtime.archive_reader
    assert past is not None
    reads: list[list[str]] = []
    rows = past.rows

    async def counted(statement: str, given: Any) -> Any:
        reads.append(given["shas"])
        return await rows(statement, given)

    monkeypatch.setattr(past, "rows", counted)
    calls = [{"type": "code", "idempotency_key": f"k{n}"} for n in range(6)]
    handles = await long_window.queue.enqueue_many([*calls, {"type": "code"}, calls[0]])

    assert len(reads) == 1
    assert len(reads[0]) == 6
    assert [handle.id for handle in handles[:3]] == done
    assert [handle.created for handle in handles] == [False] * 3 + [True] * 4 + [False]
    await long_window.queue.enqueue("code")
    assert len(reads) == 1


async def test_the_inbox_reads_the_archive_too(long_window: ReaderHarness) -> None:
    task = await long_window.completed(idempotency_key="order-7")
    await long_window.moved()
    harness = long_window.harness
    for key in ("order-7", "order-8"):
        document = json.dumps({"type": "code", "idempotency_key": key})
        await harness.client.xadd(harness.keys.inbox(), {"task": document})

    (inbox,) = [
        one
        for one in scheduler_services(long_window.queue._internals.service_parts, "s1")
        if one.name == "inbox"
    ]
    await inbox.tick()

    live = [found.spec.idempotency_key async for found in long_window.queue.find()]
    assert live == ["order-8"]
    assert (await long_window.queue.get(task.id)).state == "COMPLETED"


async def test_without_the_archive_a_key_is_refused_and_nothing_is_sent(
    valkey: Server, own_pg: Database
) -> None:
    async with reader_harness(valkey, own_pg, dedupe_archive=True, call_timeout_sec=1) as env:
        own_pg.stop()
        before = await env.harness.dump()

        with pytest.raises(StoreUnavailable):
            await env.queue.enqueue("code", idempotency_key="k")
        with pytest.raises(StoreUnavailable):
            await env.queue.enqueue_many([{"type": "code", "idempotency_key": "k"}])

        assert await env.harness.dump() == before
        assert (await env.queue.enqueue("code")).created
        own_pg.start()
        assert (await env.queue.enqueue("code", idempotency_key="k")).created


async def test_a_queue_without_the_setting_does_not_read_the_archive(
    pg_env: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pg_env.completed(idempotency_key="k")
    await pg_env.moved()
    monkeypatch.setattr(pg_env.queue._internals.runtime.archive_reader, "rows", None)

    assert (await pg_env.queue.enqueue("code", idempotency_key="k")).created
