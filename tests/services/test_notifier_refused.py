"""Notices that a receiver will never have: they leave, and others are told."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from rqueue.policy.telling import MOST_REFUSALS, Letter
from rqueue.services.gathering import Watched, gather
from rqueue.services.notifier import WINDOW, Noticed
from rqueue.services.service import Figures, note_work
from rqueue.services.sinks.sending import Undelivered
from tests.house import House, opened
from tests.servers import Server
from tests.services.receivers import web
from tests.services.test_notifier import Box, a_notifier, due
from tests.services.test_notifier_web import SECRET, a_sink
from tests.services.test_notifier_web import a_notifier as a_web_notifier


@pytest.fixture
async def house(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    async with opened(valkey) as found:
        yield found


class Picky(Box):
    """A receiver that will not hear of some breakers."""

    refused = True

    async def send(self, letter: Letter) -> None:
        if letter.event.subject.startswith("bad"):
            raise Undelivered("answered with HTTP status 400", refused=self.refused)
        await super().send(letter)


async def test_one_that_is_refused_too_often_is_given_up_and_named(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    notifier, figures = a_notifier(house, Picky()), Figures()
    await notifier.tick()
    await house.queue.open_breaker("bad", 60)
    (event,) = [one async for one in house.queue.events(wait=0)]

    done = []
    for _ in range(MOST_REFUSALS + 1):
        done.append(await notifier.tick())
        note_work(notifier.name, done[-1], figures)
        await due(house)

    again = [Noticed(failed=1)] * (MOST_REFUSALS - 1)
    assert done == [*again, Noticed(failed=1, given_up=1), Noticed()]
    assert await house.client.xlen(house.keys.notices()) == 0
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == "given up after 10 refusals: answered with HTTP status 400"
    facts = vars(record)
    assert (facts["sink"], facts["notice"]) == ("ops", "breaker.opened")
    assert facts["event"] == event.id
    watched = [Watched("house", house.queue.shard, services={notifier.name: figures})]
    counted = gather(watched).cells
    assert counted["rqueue_notices_given_up_total"] == {("house", "ops"): [1.0]}


async def test_so_many_that_are_refused_do_not_shut_out_the_others(house: House) -> None:
    box = Picky()
    notifier = a_notifier(house, box)
    await notifier.tick()
    for number in range(WINDOW):
        await house.queue.open_breaker(f"bad{number}", 60)
    await house.queue.open_breaker("good", 60)

    given_up = 0
    for _ in range(MOST_REFUSALS + 1):
        given_up += (await notifier.tick()).given_up
        await due(house)

    assert given_up == WINDOW
    assert [letter.event.subject for letter in box.letters] == ["good"]
    assert notifier.refusals == {}


async def test_other_failures_are_tried_for_ever_and_count_for_nothing(house: House) -> None:
    box = Picky()
    box.refused = False
    notifier = a_notifier(house, box)
    await notifier.tick()
    await house.queue.open_breaker("bad", 60)

    for _ in range(MOST_REFUSALS * 3):
        assert await notifier.tick() == Noticed(failed=1)
        await due(house)
    box.refused = True

    assert await notifier.tick() == Noticed(failed=1)
    assert await house.client.xlen(house.keys.notices()) == 1


async def test_only_answers_about_the_notice_itself_are_refusals(house: House) -> None:
    async with web() as receiver:
        notifier = a_web_notifier(house, a_sink(f"{receiver.origin}/hook"))
        await notifier.tick()
        await house.queue.open_breaker("code", 60)

        receiver.statuses = [400, 413, 415, 422, 401, 403, 404, 408, 410, 429, 500, 503]
        for _ in list(receiver.statuses):
            assert await notifier.tick() == Noticed(failed=1)
            await due(house, "hook")

        assert list(notifier.refusals.values()) == [4]
        assert await notifier.tick() == Noticed(delivered=1)
        assert notifier.refusals == {}
