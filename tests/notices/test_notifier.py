"""Each sink receives the notices it wants, at least once and at its own pace."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import pytest

from rqueue.clock import SYSTEM
from rqueue.core.events import Severity
from rqueue.doctor import read_queue
from rqueue.errors import StoreUnavailable
from rqueue.gauges import gather, gather_queues
from rqueue.maintenance.janitor import Janitor
from rqueue.notices.notifier import DeliveryCounts, Notifier
from rqueue.notices.sender import Undelivered
from rqueue.notices.sink import LogSink
from rqueue.notices.store import forget
from rqueue.notices.wording import Message
from rqueue.process.monitor import ServedQueue
from rqueue.process.service import ServiceCounters, note_work
from tests.harness import Harness, opened
from tests.servers import Server


class Receiver:
    """A receiver that keeps messages, and refuses them on demand."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.refuses = 0
        self.gate: asyncio.Event | None = None

    async def send(self, message: Message) -> None:
        if self.refuses:
            self.refuses -= 1
            raise Undelivered("it is down")
        if self.gate is not None:
            await self.gate.wait()
        self.messages.append(message)


def a_notifier(harness: Harness, box: Receiver, name: str = "ops", **options: Any) -> Notifier:
    sink = LogSink(kind="log", name=name, **options)
    return Notifier(
        harness.queue._internals.shard, sink, box, queue="sales", clock=SYSTEM, random=Random(7)
    )


async def dead(harness: Harness) -> str:
    """A dead task."""
    lease = await harness.running()
    await lease.fail("error", "no", permanent=True)
    return str(lease.id)


async def due(harness: Harness, sink: str = "ops") -> None:
    """Makes notices that wait for a retry due."""
    key = harness.keys.undelivered(sink)
    for notice in await harness.client.zrange(key, 0, -1):
        await harness.client.zadd(key, {notice: 1})


async def test_dead_tasks_and_opened_breakers_are_sent_by_default(harness: Harness) -> None:
    box = Receiver()
    notifier = a_notifier(harness, box)
    await notifier.tick()

    task = await dead(harness)
    await harness.queue.limits.open_breaker("code", 60)
    await harness.queue.limits.close_breaker("code")

    assert await notifier.tick() == DeliveryCounts(delivered=2)
    first, second = box.messages
    assert first.line == f"[sales] Task {task} moved to dead letter queue: error"
    assert second.line == "[sales] Circuit breaker OPEN for code, half-open after 60000 ms"
    assert await harness.client.xlen(harness.keys.notices()) == 0


async def test_a_sink_filters_by_name_and_severity(harness: Harness) -> None:
    box = Receiver()
    notifier = a_notifier(harness, box, events=["breaker.*"], min_severity="notice")
    await notifier.tick()

    await dead(harness)
    await harness.queue.limits.open_breaker("code", 60)
    await harness.queue.limits.close_breaker("code")

    await notifier.tick()
    assert [message.event.name for message in box.messages] == ["breaker.opened", "breaker.closed"]
    assert [message.event.severity for message in box.messages] == [
        Severity.WARNING,
        Severity.NOTICE,
    ]


async def test_a_failed_notice_is_retried_with_the_same_id_until_it_arrives(
    harness: Harness,
) -> None:
    box = Receiver()
    box.refuses = 2
    notifier = a_notifier(harness, box)
    await notifier.tick()
    await dead(harness)

    done = []
    for _ in range(3):
        done.append(await notifier.tick())
        await due(harness)

    assert done == [DeliveryCounts(failed=1), DeliveryCounts(failed=1), DeliveryCounts(delivered=1)]
    assert len(box.messages) == 1
    assert await notifier.tick() == DeliveryCounts()


async def test_a_failed_notice_is_not_retried_immediately(harness: Harness) -> None:
    box = Receiver()
    box.refuses = 1
    notifier = a_notifier(harness, box)
    await notifier.tick()
    await dead(harness)
    await notifier.tick()

    assert await notifier.tick() == DeliveryCounts()

    assert box.messages == []


async def test_a_sink_that_is_down_delays_no_other(harness: Harness) -> None:
    stuck, well = Receiver(), Receiver()
    stuck.gate = asyncio.Event()
    down, up = a_notifier(harness, stuck, "down"), a_notifier(harness, well, "up")
    await asyncio.gather(down.tick(), up.tick())
    await dead(harness)

    hanging = asyncio.create_task(down.tick())
    assert await up.tick() == DeliveryCounts(delivered=1)
    await dead(harness)
    assert await up.tick() == DeliveryCounts(delivered=1)

    assert (len(well.messages), len(stuck.messages)) == (2, 0)
    assert await harness.client.xlen(harness.keys.notices()) == 2
    stuck.gate.set()
    await hanging
    await down.tick()
    assert len(stuck.messages) == 2
    assert await harness.client.xlen(harness.keys.notices()) == 0


async def test_a_notifier_killed_after_a_delivery_repeats_it_with_the_same_id(
    harness: Harness,
) -> None:
    box = Receiver()
    first = a_notifier(harness, box)
    await first.tick()
    await dead(harness)
    settling = asyncio.Event()

    async def killed(*_: object) -> None:
        settling.set()
        await asyncio.Event().wait()

    first.shard = ShardLosingReplies(harness.queue._internals.shard, killed)  # type: ignore[assignment]
    ticking = asyncio.create_task(first.tick())
    await settling.wait()
    ticking.cancel()
    await asyncio.wait({ticking})
    assert len(box.messages) == 1
    assert await a_notifier(harness, box).tick() == DeliveryCounts()
    await due(harness)

    await a_notifier(harness, box).tick()

    one, again = box.messages
    assert one.id == again.id
    assert await harness.client.xlen(harness.keys.notices()) == 0


class ShardLosingReplies:
    """A shard whose settle calls fail after they were carried out."""

    def __init__(self, shard: Any, settle: Any) -> None:
        self.shard = shard
        self.settle = settle

    async def run(self, name: str, *words: Any) -> Any:
        if name == "notice/settle":
            await self.settle()
        return await self.shard.run(name, *words)


async def test_a_delivered_notice_is_not_sent_again_after_a_lost_reply(harness: Harness) -> None:
    box = Receiver()
    notifier = a_notifier(harness, box)
    await notifier.tick()
    await dead(harness)

    async def lost() -> None:
        raise StoreUnavailable("notice/settle")

    notifier.shard = ShardLosingReplies(harness.queue._internals.shard, lost)  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable):
        await notifier.tick()
    notifier.shard = harness.queue._internals.shard
    await due(harness)

    assert await notifier.tick() == DeliveryCounts()

    assert len(box.messages) == 1
    assert await harness.client.xlen(harness.keys.notices()) == 0


async def test_two_notifiers_of_a_sink_share_its_notices(harness: Harness) -> None:
    one, two = Receiver(), Receiver()
    pair = a_notifier(harness, one), a_notifier(harness, two)
    await pair[0].tick()
    sent = [await dead(harness) for _ in range(40)]

    await asyncio.gather(*(each.tick() for each in pair))

    received = [message.event.task for message in one.messages + two.messages]
    assert sorted(str(task) for task in received) == sorted(sent)


async def test_two_notifiers_with_different_events_lose_none(harness: Harness) -> None:
    one, two = Receiver(), Receiver()
    wide = a_notifier(harness, one, min_severity="notice")
    narrow = a_notifier(harness, two, events=["task.dead_lettered"])
    await wide.tick()
    await narrow.tick()

    await harness.queue.limits.open_breaker("code", 60)
    await harness.queue.limits.close_breaker("code")
    await narrow.tick()
    await wide.tick()

    received = [message.event.name for message in one.messages + two.messages]
    assert received == ["breaker.opened", "breaker.closed"]


async def test_a_sink_is_registered_again_after_the_server_lost_its_data(harness: Harness) -> None:
    box = Receiver()
    notifier = a_notifier(harness, box)
    await notifier.tick()
    await harness.client.flushall()

    await notifier.tick()
    await dead(harness)

    assert await notifier.tick() == DeliveryCounts(delivered=1)


async def test_texts_are_one_line_without_detail(harness: Harness) -> None:
    short, whole = Receiver(), Receiver()
    pair = [
        a_notifier(harness, short, "short", events=["task.cancelled"], min_severity="info"),
        a_notifier(
            harness, whole, "whole", events=["task.cancelled"], min_severity="info", detail=True
        ),
    ]
    for notifier in pair:
        await notifier.tick()
    task = await harness.queue.enqueue("code")
    reason = "no\x1b[31m need\r\nBcc: all@example.org\n" + "x" * 300
    await harness.client.xadd(
        harness.keys.notices(),
        {"event": "task.cancelled", "task": task.id.ulid, "detail": reason, "id": "poison"},
    )

    for notifier in pair:
        await notifier.tick()

    assert short.messages[0].event.detail == {"reason": "no\\x1b[31m need\\r"}
    assert whole.messages[0].event.detail == {"reason": reason}
    assert "\n" not in whole.messages[0].line
    assert short.messages[0].event.task == task.id


async def test_the_scheduler_runs_a_notifier_for_each_sink_whose_secret_is_set(
    valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    hook = {"kind": "webhook", "name": "hook", "url": "https://e.org", "secret_env": "HOOK_SECRET"}
    sinks = [{"kind": "log", "name": "ops"}, hook]
    async with opened(valkey, sinks=sinks) as harness:
        left = [service.name for service in harness.queue.scheduler().services]
        monkeypatch.setenv("HOOK_SECRET", "s")
        all_of = [service.name for service in harness.queue.scheduler().services]

    assert [name for name in left if "notifier" in name] == ["notifier-ops"]
    assert [name for name in all_of if "notifier" in name] == ["notifier-ops", "notifier-hook"]


async def test_without_sinks_there_are_no_notices_and_no_notifiers(harness: Harness) -> None:
    names = [service.name for service in harness.queue.scheduler().services]

    await dead(harness)

    assert not any("notifier" in name for name in names)
    assert not await harness.client.exists(harness.keys.notices())


async def test_deliveries_are_counted_and_backlogs_are_shown(harness: Harness) -> None:
    box = Receiver()
    box.refuses = 1
    notifier, figures = a_notifier(harness, box), ServiceCounters()
    await notifier.tick()
    await dead(harness)
    note_work(notifier.name, await notifier.tick(), figures)
    served_queues = [
        ServedQueue("sales", harness.queue._internals.shard, services={notifier.name: figures})
    ]

    late = (await gather_queues(served_queues)).cells
    facts = await read_queue(harness.queue._internals.shard, "sales")
    await due(harness)
    note_work(notifier.name, await notifier.tick(), figures)
    now = (await gather_queues(served_queues)).cells

    assert late["rqueue_notices_open"] == {("sales", "ops"): [1.0]}
    assert late["rqueue_notices_oldest_seconds"]["sales", "ops"][0] > 0
    assert [(sink.name, sink.oldest_ms is not None) for sink in facts.sinks] == [("ops", True)]
    assert now["rqueue_notices_open"] == {("sales", "ops"): [0.0]}
    assert now["rqueue_notices_oldest_seconds"] == {("sales", "ops"): [0.0]}
    counted = gather(served_queues).cells
    assert counted["rqueue_notices_delivered_total"] == {("sales", "ops"): [1.0]}
    assert counted["rqueue_notices_failed_total"] == {("sales", "ops"): [1.0]}


async def test_a_sink_without_a_notifier_is_deleted_by_the_janitor(harness: Harness) -> None:
    await a_notifier(harness, Receiver()).tick()
    await dead(harness)
    janitor = Janitor(
        harness.queue._internals.shard,
        forget_sinks=partial(forget, harness.queue._internals.shard, silent_ms=60_000),
    )
    assert (await janitor.tick()).sinks == 0
    await harness.client.zadd(harness.keys.sinks(), {"ops": 1})

    assert (await janitor.tick()).sinks == 1

    await dead(harness)
    assert not await harness.client.exists(harness.keys.notices(), harness.keys.noticed())
