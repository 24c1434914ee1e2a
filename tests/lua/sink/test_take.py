"""take: a notifier is handed what a sink was not told, and nobody else is, for a while."""

from __future__ import annotations

from tests.house import House
from tests.lua.sink.told import (
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
from tests.lua.task.afterwards import ask


async def test_a_sink_that_is_not_known_is_told_so(house: House) -> None:
    assert await ask(house, "sink/take", TAKE) == ["GONE"]
    assert await house.dump() == {}


async def test_new_ones_are_handed_out_and_written_down(house: House) -> None:
    await served(house, "ops")
    await happens(house)
    (notice,) = await notices(house)

    word, more, row = await ask(house, "sink/take", TAKE)

    assert (word, more) == ("OK", 0)
    assert row[:-1] == [notice, 1, *OPENED]
    found = await sink_keys(house)
    assert found["sink:ops"] == {
        b"last": notice.encode(), b"wants": b"breaker.opened", notice.encode(): b"1 t1",
    }  # fmt: skip
    ((open_one, due),) = found["undelivered:ops"]
    assert open_one == notice.encode()
    assert 0 < due - int(notice.split("-")[0]) - 60_000 < 60_000
    assert await notices(house) == [notice]


async def test_sent_again_the_same_are_handed_out_and_nothing_changes(house: House) -> None:
    await served(house, "ops")
    await happens(house, 2)
    first = await ask(house, "sink/take", TAKE)
    await happens(house)
    before = await sink_keys(house)

    assert (await ask(house, "sink/take", TAKE))[2:] == first[2:]

    assert await sink_keys(house) == before


async def test_another_notifier_gets_only_what_this_one_has_not(house: House) -> None:
    await served(house, "ops")
    await happens(house)
    await taken(house)
    await happens(house)

    assert await taken(house, taker="t2") == (await notices(house))[1:]
    assert await taken(house, taker="t3") == []


async def test_what_was_not_settled_in_time_goes_to_another(house: House) -> None:
    await served(house, "ops")
    await happens(house)
    (notice,) = await taken(house)
    await make_due(house, notice)

    (row,) = (await ask(house, "sink/take", TAKE | {"taker": "t2"}))[2:]

    assert row[:2] == [notice, 2]
    assert await taken(house, taker="t1") == []


async def test_each_sink_has_a_place_of_its_own(house: House) -> None:
    await served(house, "ops", "other")
    await happens(house)

    assert await taken(house, sink="ops") == await taken(house, sink="other", taker="t2")


async def test_what_a_sink_does_not_want_is_passed_over_and_goes(house: House) -> None:
    await served(house, "ops", wants="breaker.opened breaker.closed")
    await served(house, "closed", wants="breaker.closed")
    await happens(house)
    await settled(house, *await taken(house))

    assert await taken(house, sink="closed", taker="t2") == []

    assert await notices(house) == []


async def test_what_is_to_be_tried_again_comes_before_what_is_new(house: House) -> None:
    await served(house, "ops")
    await happens(house)
    (first,) = await taken(house)
    await settled(house, first, delay=1)
    await make_due(house, first)
    await happens(house)

    assert await taken(house, taker="t2", limit=1) == [first]
    assert await taken(house, taker="t3", limit=1) == (await notices(house))[1:]


async def test_no_more_are_out_than_may_be(house: House) -> None:
    await served(house, "ops")
    await happens(house, 5)

    first = await taken(house, window=3)

    assert len(first) == 3
    assert await taken(house, taker="t2", window=3) == []
    await settled(house, first[0])
    assert len(await taken(house, taker="t2", window=3)) == 1


async def test_a_page_at_a_time_is_looked_at_and_it_says_that_there_is_more(house: House) -> None:
    await served(house, "ops", wants="breaker.opened breaker.closed")
    await happens(house, 3)
    await long_ago(house, "breaker.opened")
    await served(house, "ops", wants="breaker.closed")

    replies = [await ask(house, "sink/take", TAKE | {"page": 2}) for _ in range(2)]

    assert replies == [["OK", 1], ["OK", 0]]


async def test_a_notice_that_is_gone_from_the_stream_is_forgotten(house: House) -> None:
    await served(house, "ops")
    await happens(house)
    (notice,) = await taken(house)
    await house.client.delete(house.keys.notices())
    await make_due(house, notice)

    assert await taken(house, taker="t2") == []

    found = await sink_keys(house)
    assert "undelivered:ops" not in found
    assert notice.encode() not in found["sink:ops"]
