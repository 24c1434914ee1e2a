"""Notices that a receiver always refuses: they are given up, and others are delivered."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from rqueue.gauges import gather
from rqueue.notices.notifier import MOST_REFUSALS, WINDOW, DeliveryCounts
from rqueue.notices.sender import Undelivered
from rqueue.notices.wording import Message
from rqueue.process.monitor import ServedQueue
from rqueue.process.service import ServiceCounters, note_work
from tests.harness import Harness, opened
from tests.notices.receivers import web
from tests.notices.test_notifier import Receiver, a_notifier, due
from tests.notices.test_notifier_web import SECRET, a_sink
from tests.notices.test_notifier_web import a_notifier as a_web_notifier
from tests.servers import Server


@pytest.fixture
async def harness(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    async with opened(valkey) as found:
        yield found


class Picky(Receiver):
    """A receiver that refuses some breakers."""

    refused = True

    async def send(self, message: Message) -> None:
        if message.event.subject.startswith("bad"):
            raise Undelivered("answered with HTTP status 400", refused=self.refused)
        await super().send(message)


async def test_a_notice_that_is_refused_too_often_is_given_up_and_logged(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    notifier, figures = a_notifier(harness, Picky()), ServiceCounters()
    await notifier.tick()
    await harness.queue.limits.open_breaker("bad", 60)
    (event,) = [one async for one in harness.queue.events(wait=0)]

    done = []
    for _ in range(MOST_REFUSALS + 1):
        done.append(await notifier.tick())
        note_work(notifier.name, done[-1], figures)
        await due(harness)

    again = [DeliveryCounts(failed=1)] * (MOST_REFUSALS - 1)
    assert done == [*again, DeliveryCounts(failed=1, given_up=1), DeliveryCounts()]
    assert await harness.client.xlen(harness.keys.notices()) == 0
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == "notice given up after 10 refusals: answered with HTTP status 400"
    facts = vars(record)
    assert (facts["sink"], facts["notice"]) == ("ops", "breaker.opened")
    assert facts["event"] == event.id
    served_queues = [
        ServedQueue("sales", harness.queue._internals.shard, services={notifier.name: figures})
    ]
    counted = gather(served_queues).cells
    assert counted["rqueue_notices_given_up_total"] == {("sales", "ops"): [1.0]}


async def test_many_refused_notices_do_not_block_others(harness: Harness) -> None:
    box = Picky()
    notifier = a_notifier(harness, box)
    await notifier.tick()
    for number in range(WINDOW):
        await harness.queue.limits.open_breaker(f"bad{number}", 60)
    await harness.queue.limits.open_breaker("good", 60)

    given_up = 0
    for _ in range(MOST_REFUSALS + 1):
        given_up += (await notifier.tick()).given_up
        await due(harness)

    assert given_up == WINDOW
    assert [message.event.subject for message in box.messages] == ["good"]
    assert notifier.refusals == {}


async def test_other_failures_are_retried_without_limit(harness: Harness) -> None:
    box = Picky()
    box.refused = False
    notifier = a_notifier(harness, box)
    await notifier.tick()
    await harness.queue.limits.open_breaker("bad", 60)

    for _ in range(MOST_REFUSALS * 3):
        assert await notifier.tick() == DeliveryCounts(failed=1)
        await due(harness)
    box.refused = True

    assert await notifier.tick() == DeliveryCounts(failed=1)
    assert await harness.client.xlen(harness.keys.notices()) == 1


async def test_only_statuses_about_the_notice_itself_are_refusals(harness: Harness) -> None:
    async with web() as receiver:
        notifier = a_web_notifier(harness, a_sink(f"{receiver.origin}/hook"))
        await notifier.tick()
        await harness.queue.limits.open_breaker("code", 60)

        receiver.statuses = [400, 413, 415, 422, 401, 403, 404, 408, 410, 429, 500, 503]
        for _ in list(receiver.statuses):
            assert await notifier.tick() == DeliveryCounts(failed=1)
            await due(harness, "hook")

        assert list(notifier.refusals.values()) == [4]
        assert await notifier.tick() == DeliveryCounts(delivered=1)
        assert notifier.refusals == {}
