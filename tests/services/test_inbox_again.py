"""The inbox service when things go wrong half-way: entries come again, tasks do not."""

from __future__ import annotations

import asyncio

import pytest

from rqueue import State
from rqueue.errors import InvalidGraph, Overloaded, StoreUnavailable
from rqueue.services import inbox as service
from rqueue.services.inbox import Inbox, InboxDone
from rqueue.store.inbox import receive
from tests.house import House
from tests.inbox import add, age, an_inbox, left, payloads, refused, send

GOOD = {"type": "code"}


@pytest.fixture
def inbox(house: House) -> Inbox:
    return an_inbox(house)


async def crash_before_letting_go(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick that submits and then dies."""

    async def dies(*_: object) -> int:
        raise StoreUnavailable("received")

    with monkeypatch.context() as patched:
        patched.setattr(service, "received", dies)
        with pytest.raises(StoreUnavailable):
            await inbox.tick()


@pytest.mark.parametrize("reader", ["r1", "r2"])
async def test_an_entry_dealt_with_twice_makes_no_task_twice(
    house: House, inbox: Inbox, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed = {"type": "code", "payload": 3, "delay": 60, "tags": ["t"]}
    entry = await send(house, {"type": "code", "payload": 1}, [delayed, {"no": "type"}])
    await crash_before_letting_go(inbox, monkeypatch)
    assert (await payloads(house), await refused(house)) == ([1, 3], [])
    if reader != "r1":
        await age(house, "r1", entry)

    assert await an_inbox(house, reader).tick() == InboxDone(taken=2, rejected=1)

    assert await payloads(house) == [1, 3]
    assert await refused(house) == [("2", "type: is required")]
    assert (await house.queue.counts()).submitted == 2
    assert await left(house) == 0


async def test_a_task_that_ran_meanwhile_is_not_made_again(
    house: House, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(house, GOOD)
    await crash_before_letting_go(inbox, monkeypatch)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.complete("done")

    assert await inbox.tick() == InboxDone(taken=1)

    assert (await house.queue.counts()).submitted == 1
    assert (await house.task(lease.id)).state is State.COMPLETED


@pytest.mark.parametrize("key", [None, "k"])
async def test_only_a_key_outlives_a_task_that_is_forgotten(
    house: House, inbox: Inbox, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(house, {"type": "code", "idempotency_key": key})
    await crash_before_letting_go(inbox, monkeypatch)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()
    await house.client.delete(house.keys.task(lease.id.ulid))

    assert await inbox.tick() == InboxDone(taken=1)

    assert (await house.queue.counts()).submitted == (1 if key else 2)


async def test_two_readers_at_once_make_each_task_once(house: House) -> None:
    for n in range(150):
        await send(house, {"type": "code", "payload": n}, "bad")
    one, two = an_inbox(house, "r1"), an_inbox(house, "r2")

    while await left(house):
        await asyncio.gather(one.tick(), two.tick())

    assert await payloads(house) == list(range(150))
    assert len(await refused(house)) == 150
    assert (await house.queue.counts()).submitted == 150


async def test_a_parent_in_a_lost_readers_hands_is_waited_for(house: House, inbox: Inbox) -> None:
    first = await send(house, {"type": "code", "external_id": "parent"})
    await receive(house.queue.shard, "dead", idle_ms=10_000)
    await send(house, {"type": "code", "depends_on": ["parent"]})
    assert await inbox.tick() == InboxDone()

    await age(house, "dead", first)

    assert await inbox.tick() == InboxDone(taken=2)
    assert await refused(house) == []


async def test_who_was_not_done_is_not_kept_waiting(
    house: House, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST", 1)
    monkeypatch.setattr(service, "TOGETHER", 1)
    entries = [await send(house, GOOD), await send(house, GOOD)]
    await receive(house.queue.shard, "dead", idle_ms=10_000)
    assert await inbox.tick() == InboxDone()
    assert await inbox.wait(0.001) is False

    await age(house, "dead", *entries)

    assert await inbox.tick() == InboxDone(taken=1)
    assert await inbox.wait(5) is True
    assert await inbox.tick() == InboxDone(taken=1)


async def test_a_full_server_loses_nothing(house: House, inbox: Inbox) -> None:
    parent = {"type": "code", "external_id": "a", "payload": 1}
    await add(house, "tsk", "1")
    await send(house, parent, "bad")
    await send(house, {"type": "code", "depends_on": ["a"], "payload": 2})
    await house.client.config_set("maxmemory", "1")
    try:
        assert await inbox.tick() == InboxDone(rejected=1, kept=2)
        assert await inbox.tick() == InboxDone(kept=2)
        assert (await inbox.wait(0.001), await left(house)) == (False, 2)
    finally:
        await house.client.config_set("maxmemory", "0")

    assert await inbox.tick() == InboxDone(taken=2, rejected=1)
    assert await payloads(house) == [1, 2]


async def test_a_child_stays_while_its_parent_is_refused_by_a_full_server(
    house: House, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(house, {"type": "code", "external_id": "a"})
    await send(house, {"type": "code", "depends_on": ["a"]})

    async def half_full(*_: object, **__: object) -> list[object]:
        return [Overloaded("memory"), InvalidGraph("depends on", ("b", "a"))]

    with monkeypatch.context() as patched:
        patched.setattr(service, "submit_others", half_full)
        assert await inbox.tick() == InboxDone(kept=2)

    assert await inbox.tick() == InboxDone(taken=2)
