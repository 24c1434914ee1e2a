"""What happened is read from any place on, and followed through trouble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from rqueue import Queue
from rqueue.core import events
from rqueue.core.events import Event, read_events
from rqueue.errors import EventsMissed, InvalidTask, StoreUnavailable
from rqueue.testing import memory
from tests.harness import Harness
from tests.queue.until import blocked


async def opened(harness: Harness, *types: str) -> None:
    """Something happens to each of these types."""
    for type in types:
        await harness.queue.limits.open_breaker(type, 60)


async def read(harness: Harness, after: str | None = None, **options: Any) -> list[Event]:
    return [event async for event in harness.queue.events(after, wait=0, **options)]


async def first(walk: AsyncGenerator[Event, None]) -> Event:
    return await anext(walk)


async def test_nothing_has_happened_at_first(harness: Harness) -> None:
    assert await read(harness) == []
    assert await read(harness, "$") == []
    assert await read(harness, "1700000000000-0") == []
    assert await harness.dump() == {}


async def test_what_happened_is_read_in_its_order_and_stays(harness: Harness) -> None:
    await opened(harness, "a", "b")
    before = await harness.dump()

    found = await read(harness)

    assert [event.subject for event in found] == ["a", "b"]
    assert await read(harness) == found
    assert await harness.dump() == before


async def test_it_is_resumed_after_any_event(harness: Harness) -> None:
    await opened(harness, "a", "b", "c")
    first, *rest = await read(harness)

    assert await read(harness, first.id) == rest
    assert await read(harness, rest[-1].id) == []


async def test_it_is_chosen_by_name_and_by_task(harness: Harness) -> None:
    lease, other = await harness.running(), await harness.running()
    await lease.fail("error", "no", permanent=True)
    await other.fail("timeout", "late")
    await opened(harness, "code")

    dead = await read(harness, names=["task.dead_lettered"])
    tasks = await read(harness, names="task.*")
    of_one = await read(harness, task=other.id)

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
    harness: Harness, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await anext(harness.queue.events(**options))

    assert refused.value.field == field


async def test_what_happens_is_followed_from_now_on(harness: Harness) -> None:
    await opened(harness, "before")
    walk = harness.queue.events("$")
    coming = asyncio.create_task(first(walk))
    if not harness.queue._internals.runtime.connection.cluster:
        await blocked(harness)

    # On a cluster it may not wait yet: it sees the first one that comes after it looks.
    while not coming.done():
        await opened(harness, "after")
        await asyncio.sleep(0)

    assert (await coming).subject == "after"
    await walk.aclose()


async def test_it_may_be_cancelled_while_it_waits_and_takes_nothing_along(harness: Harness) -> None:
    coming = asyncio.create_task(first(harness.queue.events()))
    await asyncio.sleep(0)
    coming.cancel()
    await asyncio.wait({coming})

    await opened(harness, "a")

    assert [event.subject for event in await read(harness)] == ["a"]


async def test_one_that_was_away_too_long_is_told_what_it_missed(harness: Harness) -> None:
    await opened(harness, "a")
    (first,) = await read(harness)
    await opened(harness, "b", "c")
    *_, last = await read(harness)
    await harness.client.xtrim(harness.keys.events(), maxlen=1, approximate=False)

    with pytest.raises(EventsMissed) as missed:
        await read(harness, first.id)

    assert (missed.value.after, missed.value.oldest) == (first.id, last.id)
    assert await read(harness) == [last]
    assert await read(harness, last.id) == []


async def test_a_place_before_the_first_event_misses_nothing(harness: Harness) -> None:
    await opened(harness, "a")

    assert len(await read(harness, "1000000000000-0")) == 1


async def test_many_are_read_page_by_page(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PAGE", 3)
    await opened(harness, *"abcdefg")

    assert [event.subject for event in await read(harness)] == list("abcdefg")


async def test_a_server_that_is_away_is_waited_for(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened(harness, "a")
    faults = [StoreUnavailable("events")] * 3
    monkeypatch.setattr(events, "FIRST_PAUSE_SEC", 0.001)

    async def flaky(*place: Any) -> list[Event]:
        if faults:
            raise faults.pop()
        return await read_events(*place)

    monkeypatch.setattr(events, "read_events", flaky)
    found = harness.queue.events()

    assert (await anext(found)).subject == "a"

    faults.append(StoreUnavailable("events"))
    with pytest.raises(StoreUnavailable):
        await read(harness)


async def test_events_that_nobody_of_ours_wrote_stop_nobody(harness: Harness) -> None:
    await harness.client.xadd(harness.keys.events(), {b"\xff": b"\xfe"})
    await harness.client.xadd(harness.keys.events(), {"event": "task.retrying", "task": "?" * 99})
    await opened(harness, "a")

    found = await read(harness)

    assert [event.name for event in found] == ["", "task.retrying", "breaker.opened"]
    assert found[1].task is None


async def test_the_blocking_twin_reads_as_it_comes(harness: Harness) -> None:
    await opened(harness, "a", "b")

    def first_and_all() -> tuple[str, list[str]]:
        walk = harness.queue.sync.events()
        first = next(walk).subject
        walk.close()
        found = [event.subject for event in harness.queue.sync.events(wait=0)]
        harness.queue.sync.aclose()
        return first, found

    assert await asyncio.to_thread(first_and_all) == ("a", ["a", "b"])


async def test_in_memory_events_are_told_at_its_time() -> None:
    queue = Queue("shop", url="redis://nowhere.invalid:1")

    with memory(queue) as held:
        handle = await queue.enqueue("code", delay=60)
        assert [event async for event in queue.events(wait=0)] == []
        held.advance(60)

        (event,) = [event async for event in queue.events(wait=0)]
        assert (event.name, event.at) == ("task.ready", held.now)
        assert handle.id.ulid in event.subject
        assert [event async for event in queue.events("$", wait=0.01)] == []
