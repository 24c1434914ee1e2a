"""take: a notifier is handed what a sink was not told, and nobody else is, for a while."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.notice.told import (
    OPENED,
    TAKE,
    happens,
    long_ago,
    make_due,
    notices,
    served,
    settled,
    sink_keys,
    taken,
)
from tests.lua.task.keys_after import ask


async def test_a_sink_that_is_not_known_is_told_so(harness: Harness) -> None:
    assert await ask(harness, "notice/take", TAKE) == ["GONE"]
    assert await harness.dump() == {}


async def test_new_ones_are_handed_out_and_written_down(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness)
    (notice,) = await notices(harness)

    word, more, row = await ask(harness, "notice/take", TAKE)

    assert (word, more) == ("OK", 0)
    assert row[:-1] == [notice, 1, *OPENED]
    found = await sink_keys(harness)
    assert found["sink:ops"] == {
        b"last": notice.encode(), b"wants": b"breaker.opened", notice.encode(): b"1 t1",
    }  # fmt: skip
    ((open_one, due),) = found["undelivered:ops"]
    assert open_one == notice.encode()
    assert 0 <= due - int(notice.split("-")[0]) - 60_000 < 60_000
    assert await notices(harness) == [notice]


async def test_sent_again_the_same_are_handed_out_and_nothing_changes(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness, 2)
    first = await ask(harness, "notice/take", TAKE)
    await happens(harness)
    before = await sink_keys(harness)

    assert (await ask(harness, "notice/take", TAKE))[2:] == first[2:]

    assert await sink_keys(harness) == before


async def test_another_notifier_gets_only_what_this_one_has_not(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness)
    await taken(harness)
    await happens(harness)

    assert await taken(harness, taker="t2") == (await notices(harness))[1:]
    assert await taken(harness, taker="t3") == []


async def test_what_was_not_settled_in_time_goes_to_another(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness)
    (notice,) = await taken(harness)
    await make_due(harness, notice)

    (row,) = (await ask(harness, "notice/take", TAKE | {"taker": "t2"}))[2:]

    assert row[:2] == [notice, 2]
    assert await taken(harness, taker="t1") == []


async def test_each_sink_has_a_place_of_its_own(harness: Harness) -> None:
    await served(harness, "ops", "other")
    await happens(harness)

    assert await taken(harness, sink="ops") == await taken(harness, sink="other", taker="t2")


async def test_what_a_sink_does_not_want_is_passed_over_and_goes(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened breaker.closed")
    await served(harness, "closed", wants="breaker.closed")
    await happens(harness)
    await settled(harness, *await taken(harness))

    assert await taken(harness, sink="closed", taker="t2") == []

    assert await notices(harness) == []


async def test_what_is_to_be_tried_again_comes_before_what_is_new(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness)
    (first,) = await taken(harness)
    await settled(harness, first, delay=1)
    await make_due(harness, first)
    await happens(harness)

    assert await taken(harness, taker="t2", limit=1) == [first]
    assert await taken(harness, taker="t3", limit=1) == (await notices(harness))[1:]


async def test_no_more_are_out_than_may_be(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness, 5)

    first = await taken(harness, window=3)

    assert len(first) == 3
    assert await taken(harness, taker="t2", window=3) == []
    await settled(harness, first[0])
    assert len(await taken(harness, taker="t2", window=3)) == 1


async def test_a_page_at_a_time_is_looked_at_and_it_says_that_there_is_more(
    harness: Harness,
) -> None:
    await served(harness, "ops", wants="breaker.opened breaker.closed")
    await happens(harness, 3)
    await long_ago(harness, "breaker.opened")
    await served(harness, "ops", wants="breaker.closed")

    replies = [await ask(harness, "notice/take", TAKE | {"page": 2}) for _ in range(2)]

    assert replies == [["OK", 1], ["OK", 0]]


async def test_a_notice_that_is_gone_from_the_stream_is_forgotten(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness)
    (notice,) = await taken(harness)
    await harness.client.delete(harness.keys.notices())
    await make_due(harness, notice)

    assert await taken(harness, taker="t2") == []

    found = await sink_keys(harness)
    assert "undelivered:ops" not in found
    assert notice.encode() not in found["sink:ops"]
