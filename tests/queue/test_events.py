"""Events are read from any position, and followed through failures."""

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
    """Opens the breaker of each of these types."""
    for type in types:
        await harness.queue.limits.open_breaker(type, 60)


async def read(harness: Harness, after: str | None = None, **options: Any) -> list[Event]:
    return [event async for event in harness.queue.events(after, wait=0, **options)]


async def first(walk: AsyncGenerator[Event, None]) -> Event:
    return await anext(walk)


async def test_a_new_queue_has_no_events(harness: Harness) -> None:
    assert await read(harness) == []
    assert await read(harness, "$") == []
    assert await read(harness, "1700000000000-0") == []
    assert await harness.dump() == {}


async def test_events_are_read_in_order_and_not_deleted(harness: Harness) -> None:
    await opened(harness, "a", "b")
    before = await harness.dump()

    found = await read(harness)

    assert [event.subject for event in found] == ["a", "b"]
    assert await read(harness) == found
    assert await harness.dump() == before


async def test_reading_continues_after_any_event(harness: Harness) -> None:
    await opened(harness, "a", "b", "c")
    first, *rest = await read(harness)

    assert await read(harness, first.id) == rest
    assert await read(harness, rest[-1].id) == []


async def test_events_are_filtered_by_name_and_by_task(harness: Harness) -> None:
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
async def test_invalid_arguments_are_refused(
    harness: Harness, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await anext(harness.queue.events(**options))

    assert refused.value.field == field


async def test_new_events_are_followed(harness: Harness) -> None:
    await opened(harness, "before")
    walk = harness.queue.events("$")
    coming = asyncio.create_task(first(walk))
    if not harness.queue._internals.runtime.connection.cluster:
        await blocked(harness)

    # On a cluster it may not block yet: it yields the first event after its first read.
    while not coming.done():
        await opened(harness, "after")
        await asyncio.sleep(0)

    assert (await coming).subject == "after"
    await walk.aclose()


async def test_a_cancelled_reader_loses_no_event_for_others(harness: Harness) -> None:
    coming = asyncio.create_task(first(harness.queue.events()))
    await asyncio.sleep(0)
    coming.cancel()
    await asyncio.wait({coming})

    await opened(harness, "a")

    assert [event.subject for event in await read(harness)] == ["a"]


async def test_a_reader_behind_the_oldest_event_gets_events_missed(harness: Harness) -> None:
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


async def test_a_position_before_the_first_event_misses_nothing(harness: Harness) -> None:
    await opened(harness, "a")

    assert len(await read(harness, "1000000000000-0")) == 1


async def test_many_events_are_read_in_pages(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PAGE", 3)
    await opened(harness, *"abcdefg")

    assert [event.subject for event in await read(harness)] == list("abcdefg")


async def test_reading_is_retried_while_the_server_is_unavailable(
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


async def test_foreign_stream_entries_do_not_stop_a_reader(harness: Harness) -> None:
    await harness.client.xadd(harness.keys.events(), {b"\xff": b"\xfe"})
    await harness.client.xadd(harness.keys.events(), {"event": "task.retrying", "task": "?" * 99})
    await opened(harness, "a")

    found = await read(harness)

    assert [event.name for event in found] == ["", "task.retrying", "breaker.opened"]
    assert found[1].task is None


async def test_the_blocking_call_yields_events_as_they_come(harness: Harness) -> None:
    await opened(harness, "a", "b")

    def first_and_all() -> tuple[str, list[str]]:
        walk = harness.queue.sync.events()
        first = next(walk).subject
        walk.close()
        found = [event.subject for event in harness.queue.sync.events(wait=0)]
        harness.queue.sync.aclose()
        return first, found

    assert await asyncio.to_thread(first_and_all) == ("a", ["a", "b"])


async def test_events_in_memory_have_the_time_of_the_test() -> None:
    queue = Queue("shop", url="redis://nowhere.invalid:1")

    with memory(queue) as held:
        handle = await queue.enqueue("code", delay=60)
        assert [event async for event in queue.events(wait=0)] == []
        held.advance(60)

        (event,) = [event async for event in queue.events(wait=0)]
        assert (event.name, event.at) == ("task.ready", held.now)
        assert handle.id.ulid in event.subject
        assert [event async for event in queue.events("$", wait=0.01)] == []
