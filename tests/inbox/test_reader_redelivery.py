"""The inbox service after failures: entries are delivered again, tasks are not submitted twice."""

from __future__ import annotations

import asyncio

import pytest

from rqueue import State
from rqueue.errors import InvalidGraph, Overloaded, StoreUnavailable
from rqueue.inbox import reader as service
from rqueue.inbox.reader import Inbox, InboxDone
from rqueue.inbox.store import receive
from tests.harness import Harness
from tests.inbox_entries import add, age, an_inbox, left, payloads, refused, send

GOOD = {"type": "code"}


@pytest.fixture
def inbox(harness: Harness) -> Inbox:
    return an_inbox(harness)


async def crash_before_deleting(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick that submits and then crashes."""

    async def dies(*_: object) -> int:
        raise StoreUnavailable("received")

    with monkeypatch.context() as patched:
        patched.setattr(service, "received", dies)
        with pytest.raises(StoreUnavailable):
            await inbox.tick()


@pytest.mark.parametrize("reader", ["r1", "r2"])
async def test_a_repeated_entry_creates_no_task_twice(
    harness: Harness, inbox: Inbox, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed = {"type": "code", "payload": 3, "delay": 60, "tags": ["t"]}
    entry = await send(harness, {"type": "code", "payload": 1}, [delayed, {"no": "type"}])
    await crash_before_deleting(inbox, monkeypatch)
    assert (await payloads(harness), await refused(harness)) == ([1, 3], [])
    if reader != "r1":
        await age(harness, "r1", entry)

    assert await an_inbox(harness, reader).tick() == InboxDone(taken=2, rejected=1)

    assert await payloads(harness) == [1, 3]
    assert await refused(harness) == [("2", "type: is required")]
    assert (await harness.queue.counts()).submitted == 2
    assert await left(harness) == 0


async def test_a_task_that_ran_meanwhile_is_not_created_again(
    harness: Harness, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(harness, GOOD)
    await crash_before_deleting(inbox, monkeypatch)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete("done")

    assert await inbox.tick() == InboxDone(taken=1)

    assert (await harness.queue.counts()).submitted == 1
    assert (await harness.task(lease.id)).state is State.COMPLETED


@pytest.mark.parametrize("key", [None, "k"])
async def test_an_expired_task_is_created_again_unless_it_has_a_key(
    harness: Harness, inbox: Inbox, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(harness, {"type": "code", "idempotency_key": key})
    await crash_before_deleting(inbox, monkeypatch)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()
    await harness.client.delete(harness.keys.task(lease.id.ulid))

    assert await inbox.tick() == InboxDone(taken=1)

    assert (await harness.queue.counts()).submitted == (1 if key else 2)


async def test_concurrent_readers_create_each_task_once(harness: Harness) -> None:
    for n in range(150):
        await send(harness, {"type": "code", "payload": n}, "bad")
    one, two = an_inbox(harness, "r1"), an_inbox(harness, "r2")

    while await left(harness):
        await asyncio.gather(one.tick(), two.tick())

    assert await payloads(harness) == list(range(150))
    assert len(await refused(harness)) == 150
    assert (await harness.queue.counts()).submitted == 150


async def test_an_entry_waits_for_a_dependency_held_by_a_lost_reader(
    harness: Harness, inbox: Inbox
) -> None:
    first = await send(harness, {"type": "code", "external_id": "parent"})
    await receive(harness.queue._internals.shard, "dead", idle_ms=10_000)
    await send(harness, {"type": "code", "depends_on": ["parent"]})
    assert await inbox.tick() == InboxDone()

    await age(harness, "dead", first)

    assert await inbox.tick() == InboxDone(taken=2)
    assert await refused(harness) == []


async def test_an_unprocessed_entry_is_not_kept_waiting(
    harness: Harness, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST", 1)
    monkeypatch.setattr(service, "PORTION", 1)
    entries = [await send(harness, GOOD), await send(harness, GOOD)]
    await receive(harness.queue._internals.shard, "dead", idle_ms=10_000)
    assert await inbox.tick() == InboxDone()
    assert await inbox.wait(0.001) is False

    await age(harness, "dead", *entries)

    assert await inbox.tick() == InboxDone(taken=1)
    assert await inbox.wait(5) is True
    assert await inbox.tick() == InboxDone(taken=1)


async def test_a_full_server_loses_nothing(harness: Harness, inbox: Inbox) -> None:
    parent = {"type": "code", "external_id": "a", "payload": 1}
    await add(harness, "tsk", "1")
    await send(harness, parent, "bad")
    await send(harness, {"type": "code", "depends_on": ["a"], "payload": 2})
    await harness.client.config_set("maxmemory", "1")
    try:
        assert await inbox.tick() == InboxDone(rejected=1, kept=2)
        assert await inbox.tick() == InboxDone(kept=2)
        assert (await inbox.wait(0.001), await left(harness)) == (False, 2)
    finally:
        await harness.client.config_set("maxmemory", "0")

    assert await inbox.tick() == InboxDone(taken=2, rejected=1)
    assert await payloads(harness) == [1, 2]


async def test_a_child_stays_while_its_parent_is_refused_by_a_full_server(
    harness: Harness, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(harness, {"type": "code", "external_id": "a"})
    await send(harness, {"type": "code", "depends_on": ["a"]})

    async def half_full(*_: object, **__: object) -> list[object]:
        return [Overloaded("memory"), InvalidGraph("depends on", ("b", "a"))]

    with monkeypatch.context() as patched:
        patched.setattr(service, "submit_others", half_full)
        assert await inbox.tick() == InboxDone(kept=2)

    assert await inbox.tick() == InboxDone(taken=2)
