"""Each sink is told what it wants, at least once and in its own time."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from rqueue.clock import SYSTEM
from rqueue.errors import StoreUnavailable
from rqueue.model.event import Severity
from rqueue.model.sink import LogSink
from rqueue.policy.telling import Letter
from rqueue.services.gathering import Watched, gather, gather_queues
from rqueue.services.janitor import Janitor
from rqueue.services.notifier import Noticed, Notifier
from rqueue.services.service import Figures, note_work
from rqueue.services.sinks.sending import Undelivered
from rqueue.store.checkup import read_queue
from tests.house import House, opened
from tests.servers import Server


class Box:
    """A receiver that keeps letters, and refuses while it is told to."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.refuses = 0
        self.gate: asyncio.Event | None = None

    async def send(self, letter: Letter) -> None:
        if self.refuses:
            self.refuses -= 1
            raise Undelivered("it is down")
        if self.gate is not None:
            await self.gate.wait()
        self.letters.append(letter)


def a_notifier(house: House, box: Box, name: str = "ops", **options: Any) -> Notifier:
    sink = LogSink(kind="log", name=name, **options)
    return Notifier(house.queue.shard, sink, box, queue="house", clock=SYSTEM, random=Random(7))


async def dead(house: House) -> str:
    """A task that fails for good."""
    lease = await house.running()
    await lease.fail("error", "no", permanent=True)
    return str(lease.id)


async def due(house: House, sink: str = "ops") -> None:
    """Lets what is to be tried again come due."""
    key = house.keys.undelivered(sink)
    for notice in await house.client.zrange(key, 0, -1):
        await house.client.zadd(key, {notice: 1})


async def test_the_dead_and_opened_breakers_are_noticed_by_default(house: House) -> None:
    box = Box()
    notifier = a_notifier(house, box)
    await notifier.tick()

    task = await dead(house)
    await house.queue.open_breaker("code", 60)
    await house.queue.close_breaker("code")

    assert await notifier.tick() == Noticed(delivered=2)
    first, second = box.letters
    assert first.line == f"[house] Task {task} moved to dead letter queue: error"
    assert second.line == "[house] Circuit breaker OPEN for code, tried again after 60000 ms"
    assert await house.client.xlen(house.keys.notices()) == 0


async def test_a_sink_is_told_by_name_and_severity(house: House) -> None:
    box = Box()
    notifier = a_notifier(house, box, events=["breaker.*"], min_severity="notice")
    await notifier.tick()

    await dead(house)
    await house.queue.open_breaker("code", 60)
    await house.queue.close_breaker("code")

    await notifier.tick()
    assert [letter.event.name for letter in box.letters] == ["breaker.opened", "breaker.closed"]
    assert [letter.event.severity for letter in box.letters] == [Severity.WARNING, Severity.NOTICE]


async def test_what_failed_is_tried_again_until_it_arrives_under_the_same_id(
    house: House,
) -> None:
    box = Box()
    box.refuses = 2
    notifier = a_notifier(house, box)
    await notifier.tick()
    await dead(house)

    done = []
    for _ in range(3):
        done.append(await notifier.tick())
        await due(house)

    assert done == [Noticed(failed=1), Noticed(failed=1), Noticed(delivered=1)]
    assert len(box.letters) == 1
    assert await notifier.tick() == Noticed()


async def test_what_failed_is_not_tried_at_once(house: House) -> None:
    box = Box()
    box.refuses = 1
    notifier = a_notifier(house, box)
    await notifier.tick()
    await dead(house)
    await notifier.tick()

    assert await notifier.tick() == Noticed()

    assert box.letters == []


async def test_a_sink_that_is_down_delays_no_other(house: House) -> None:
    stuck, well = Box(), Box()
    stuck.gate = asyncio.Event()
    down, up = a_notifier(house, stuck, "down"), a_notifier(house, well, "up")
    await asyncio.gather(down.tick(), up.tick())
    await dead(house)

    hanging = asyncio.create_task(down.tick())
    assert await up.tick() == Noticed(delivered=1)
    await dead(house)
    assert await up.tick() == Noticed(delivered=1)

    assert (len(well.letters), len(stuck.letters)) == (2, 0)
    assert await house.client.xlen(house.keys.notices()) == 2
    stuck.gate.set()
    await hanging
    await down.tick()
    assert len(stuck.letters) == 2
    assert await house.client.xlen(house.keys.notices()) == 0


async def test_one_that_was_killed_after_the_delivery_is_followed_by_one_with_the_same_id(
    house: House,
) -> None:
    box = Box()
    first = a_notifier(house, box)
    await first.tick()
    await dead(house)
    settling = asyncio.Event()

    async def killed(*_: object) -> None:
        settling.set()
        await asyncio.Event().wait()

    first.shard = Dying(house.queue.shard, killed)  # type: ignore[assignment]
    ticking = asyncio.create_task(first.tick())
    await settling.wait()
    ticking.cancel()
    await asyncio.wait({ticking})
    assert len(box.letters) == 1
    assert await a_notifier(house, box).tick() == Noticed()
    await due(house)

    await a_notifier(house, box).tick()

    one, again = box.letters
    assert one.id == again.id
    assert await house.client.xlen(house.keys.notices()) == 0


class Dying:
    """A shard whose settle calls are not heard of."""

    def __init__(self, shard: Any, settle: Any) -> None:
        self.shard = shard
        self.settle = settle

    async def run(self, name: str, *words: Any) -> Any:
        if name == "sink/settle":
            await self.settle()
        return await self.shard.run(name, *words)


async def test_what_is_known_to_have_arrived_is_not_sent_again(house: House) -> None:
    box = Box()
    notifier = a_notifier(house, box)
    await notifier.tick()
    await dead(house)

    async def lost() -> None:
        raise StoreUnavailable("sink/settle")

    notifier.shard = Dying(house.queue.shard, lost)  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable):
        await notifier.tick()
    notifier.shard = house.queue.shard
    await due(house)

    assert await notifier.tick() == Noticed()

    assert len(box.letters) == 1
    assert await house.client.xlen(house.keys.notices()) == 0


async def test_two_notifiers_of_a_sink_share_its_notices(house: House) -> None:
    one, two = Box(), Box()
    pair = a_notifier(house, one), a_notifier(house, two)
    await pair[0].tick()
    sent = [await dead(house) for _ in range(40)]

    await asyncio.gather(*(each.tick() for each in pair))

    told = [letter.event.task for letter in one.letters + two.letters]
    assert sorted(str(task) for task in told) == sorted(sent)


async def test_two_notifiers_that_were_told_different_events_lose_none(house: House) -> None:
    one, two = Box(), Box()
    wide = a_notifier(house, one, min_severity="notice")
    narrow = a_notifier(house, two, events=["task.dead_lettered"])
    await wide.tick()
    await narrow.tick()

    await house.queue.open_breaker("code", 60)
    await house.queue.close_breaker("code")
    await narrow.tick()
    await wide.tick()

    told = [letter.event.name for letter in one.letters + two.letters]
    assert told == ["breaker.opened", "breaker.closed"]


async def test_a_server_that_lost_its_memory_is_told_of_the_sink_again(house: House) -> None:
    box = Box()
    notifier = a_notifier(house, box)
    await notifier.tick()
    await house.client.flushall()

    await notifier.tick()
    await dead(house)

    assert await notifier.tick() == Noticed(delivered=1)


async def test_texts_are_one_line_unless_the_sink_asks_for_more(house: House) -> None:
    short, whole = Box(), Box()
    pair = [
        a_notifier(house, short, "short", events=["task.cancelled"], min_severity="info"),
        a_notifier(
            house, whole, "whole", events=["task.cancelled"], min_severity="info", detail=True
        ),
    ]
    for notifier in pair:
        await notifier.tick()
    task = await house.queue.enqueue("code")
    reason = "no\x1b[31m need\r\nBcc: all@example.org\n" + "x" * 300
    await house.client.xadd(
        house.keys.notices(),
        {"event": "task.cancelled", "task": task.id.ulid, "detail": reason, "id": "poison"},
    )

    for notifier in pair:
        await notifier.tick()

    assert short.letters[0].event.detail == {"reason": "no\\x1b[31m need\\r"}
    assert whole.letters[0].event.detail == {"reason": reason}
    assert "\n" not in whole.letters[0].line
    assert short.letters[0].event.task == task.id


async def test_the_scheduler_runs_a_notifier_for_each_sink_it_has_the_secret_of(
    valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    hook = {"kind": "webhook", "name": "hook", "url": "https://e.org", "secret_env": "HOOK_SECRET"}
    sinks = [{"kind": "log", "name": "ops"}, hook]
    async with opened(valkey, sinks=sinks) as house:
        left = [service.name for service in house.queue.scheduler().services]
        monkeypatch.setenv("HOOK_SECRET", "s")
        all_of = [service.name for service in house.queue.scheduler().services]

    assert [name for name in left if "notifier" in name] == ["notifier-ops"]
    assert [name for name in all_of if "notifier" in name] == ["notifier-ops", "notifier-hook"]


async def test_without_sinks_nothing_is_noticed_and_nobody_notifies(house: House) -> None:
    names = [service.name for service in house.queue.scheduler().services]

    await dead(house)

    assert not any("notifier" in name for name in names)
    assert not await house.client.exists(house.keys.notices())


async def test_what_it_does_is_counted_and_what_a_sink_lacks_is_shown(house: House) -> None:
    box = Box()
    box.refuses = 1
    notifier, figures = a_notifier(house, box), Figures()
    await notifier.tick()
    await dead(house)
    note_work(notifier.name, await notifier.tick(), figures)
    watched = [Watched("house", house.queue.shard, services={notifier.name: figures})]

    late = (await gather_queues(watched)).cells
    facts = await read_queue(house.queue.shard, "house")
    await due(house)
    note_work(notifier.name, await notifier.tick(), figures)
    now = (await gather_queues(watched)).cells

    assert late["rqueue_notices_open"] == {("house", "ops"): [1.0]}
    assert late["rqueue_notices_oldest_seconds"]["house", "ops"][0] > 0
    assert [(sink.name, sink.oldest_ms is not None) for sink in facts.sinks] == [("ops", True)]
    assert now["rqueue_notices_open"] == {("house", "ops"): [0.0]}
    assert now["rqueue_notices_oldest_seconds"] == {("house", "ops"): [0.0]}
    counted = gather(watched).cells
    assert counted["rqueue_notices_delivered_total"] == {("house", "ops"): [1.0]}
    assert counted["rqueue_notices_failed_total"] == {("house", "ops"): [1.0]}


async def test_a_sink_that_nobody_serves_is_forgotten_by_the_janitor(house: House) -> None:
    await a_notifier(house, Box()).tick()
    await dead(house)
    janitor = Janitor(house.queue.shard, keep_ms=60_000)
    assert (await janitor.tick()).sinks == 0
    await house.client.zadd(house.keys.sinks(), {"ops": 1})

    assert (await janitor.tick()).sinks == 1

    await dead(house)
    assert not await house.client.exists(house.keys.notices(), house.keys.noticed())
