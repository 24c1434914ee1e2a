"""What happened is read from any place on, and followed through trouble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from rqueue import Queue
from rqueue.client import following
from rqueue.errors import EventsMissed, InvalidTask, StoreUnavailable
from rqueue.model.event import Event
from rqueue.store.events import read_events
from rqueue.testing import memory
from tests.client.until import blocked
from tests.house import House


async def opened(house: House, *types: str) -> None:
    """Something happens to each of these types."""
    for type in types:
        await house.queue.open_breaker(type, 60)


async def read(house: House, after: str | None = None, **options: Any) -> list[Event]:
    return [event async for event in house.queue.events(after, wait=0, **options)]


async def first(walk: AsyncGenerator[Event, None]) -> Event:
    return await anext(walk)


async def test_nothing_has_happened_at_first(house: House) -> None:
    assert await read(house) == []
    assert await read(house, "$") == []
    assert await read(house, "1700000000000-0") == []
    assert await house.dump() == {}


async def test_what_happened_is_read_in_its_order_and_stays(house: House) -> None:
    await opened(house, "a", "b")
    before = await house.dump()

    found = await read(house)

    assert [event.subject for event in found] == ["a", "b"]
    assert await read(house) == found
    assert await house.dump() == before


async def test_it_is_resumed_after_any_event(house: House) -> None:
    await opened(house, "a", "b", "c")
    first, *rest = await read(house)

    assert await read(house, first.id) == rest
    assert await read(house, rest[-1].id) == []


async def test_it_is_chosen_by_name_and_by_task(house: House) -> None:
    lease, other = await house.running(), await house.running()
    await lease.fail("error", "no", permanent=True)
    await other.fail("timeout", "late")
    await opened(house, "code")

    dead = await read(house, names=["task.dead_lettered"])
    tasks = await read(house, names="task.*")
    of_one = await read(house, task=other.id)

    assert [(event.name, event.task) for event in dead] == [("task.dead_lettered", lease.id)]
    assert [event.name for event in tasks] == ["task.dead_lettered", "task.retrying"]
    assert [(event.name, event.detail["reason"]) for event in of_one] == [
        ("task.retrying", "timeout")
    ]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"after": "yesterday"}, "after"),
        ({"after": "5"}, "after"),
        ({"after": 5}, "after"),
        ({"names": ["task.unheard_of"]}, "names"),
        ({"wait": -1}, "wait"),
        ({"wait": "long"}, "wait"),
    ],
)
async def test_what_cannot_be_asked_for_is_told_so(
    house: House, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await anext(house.queue.events(**options))

    assert refused.value.field == field


async def test_what_happens_is_followed_from_now_on(house: House) -> None:
    await opened(house, "before")
    walk = house.queue.events("$")
    coming = asyncio.create_task(first(walk))
    if not house.queue.runtime.connection.cluster:
        await blocked(house)

    # On a cluster it may not wait yet: it sees the first one that comes after it looks.
    while not coming.done():
        await opened(house, "after")
        await asyncio.sleep(0)

    assert (await coming).subject == "after"
    await walk.aclose()


async def test_it_may_be_cancelled_while_it_waits_and_takes_nothing_along(house: House) -> None:
    coming = asyncio.create_task(first(house.queue.events()))
    await asyncio.sleep(0)
    coming.cancel()
    await asyncio.wait({coming})

    await opened(house, "a")

    assert [event.subject for event in await read(house)] == ["a"]


async def test_one_that_was_away_too_long_is_told_what_it_missed(house: House) -> None:
    await opened(house, "a")
    (first,) = await read(house)
    await opened(house, "b", "c")
    *_, last = await read(house)
    await house.client.xtrim(house.keys.events(), maxlen=1, approximate=False)

    with pytest.raises(EventsMissed) as missed:
        await read(house, first.id)

    assert (missed.value.after, missed.value.oldest) == (first.id, last.id)
    assert await read(house) == [last]
    assert await read(house, last.id) == []


async def test_a_place_before_the_first_event_misses_nothing(house: House) -> None:
    await opened(house, "a")

    assert len(await read(house, "1000000000000-0")) == 1


async def test_many_are_read_page_by_page(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAGE", 3)
    await opened(house, *"abcdefg")

    assert [event.subject for event in await read(house)] == list("abcdefg")


async def test_a_server_that_is_away_is_waited_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened(house, "a")
    faults = [StoreUnavailable("events")] * 3
    monkeypatch.setattr(following, "FIRST_PAUSE_SEC", 0.001)

    async def flaky(*place: Any) -> list[Event]:
        if faults:
            raise faults.pop()
        return await read_events(*place)

    monkeypatch.setattr(following, "read_events", flaky)
    found = house.queue.events()

    assert (await anext(found)).subject == "a"

    faults.append(StoreUnavailable("events"))
    with pytest.raises(StoreUnavailable):
        await read(house)


async def test_events_that_nobody_of_ours_wrote_stop_nobody(house: House) -> None:
    await house.client.xadd(house.keys.events(), {b"\xff": b"\xfe"})
    await house.client.xadd(house.keys.events(), {"event": "task.retrying", "task": "?" * 99})
    await opened(house, "a")

    found = await read(house)

    assert [event.name for event in found] == ["", "task.retrying", "breaker.opened"]
    assert found[1].task is None


async def test_the_blocking_twin_reads_as_it_comes(house: House) -> None:
    await opened(house, "a", "b")

    def first_and_all() -> tuple[str, list[str]]:
        walk = house.queue.sync.events()
        first = next(walk).subject
        walk.close()
        found = [event.subject for event in house.queue.sync.events(wait=0)]
        house.queue.sync.aclose()
        return first, found

    assert await asyncio.to_thread(first_and_all) == ("a", ["a", "b"])


async def test_in_memory_nothing_is_told() -> None:
    queue = Queue("shop", url="redis://nowhere.invalid:1")

    with memory(queue):
        await queue.enqueue("code")
        assert [event async for event in queue.events(wait=0)] == []
        assert [event async for event in queue.events("$", wait=0.01)] == []
