"""settle: what was delivered goes when every sink has had it, what was not is tried again."""

from __future__ import annotations

from tests.house import House
from tests.lua.sink.told import happens, make_due, notices, served, settled, sink_keys, taken


async def test_what_was_delivered_to_all_leaves_nothing(house: House) -> None:
    await served(house, "ops")
    await happens(house, 2)
    found = await taken(house)

    assert await settled(house, *found) == 2

    left = await sink_keys(house)
    del left["sinks"], left["wanted:ops"]
    assert left == {
        "noticed": {b"breaker.opened"},
        "notices": ([], []),
        "sink:ops": {b"last": found[-1].encode(), b"wants": b"breaker.opened"},
    }


async def test_a_notice_stays_until_the_last_sink_has_had_it(house: House) -> None:
    await served(house, "ops", "down")
    await happens(house, 2)
    one, two = await taken(house)
    await taken(house, sink="down", taker="t2")

    await settled(house, one, two)
    await settled(house, one, sink="down", taker="t2", delay=1000)
    assert await notices(house) == [one, two]

    await settled(house, one, sink="down", taker="t2")
    assert await notices(house) == [two]
    await settled(house, two, sink="down", taker="t2")
    assert await notices(house) == []


async def test_one_that_is_late_keeps_those_behind_it_and_no_more(house: House) -> None:
    await served(house, "ops")
    await happens(house, 3)
    one, two, three = await taken(house)

    await settled(house, two)
    assert await notices(house) == [one, two, three]
    await settled(house, one)

    assert await notices(house) == [three]


async def test_a_sink_that_has_not_come_to_a_notice_keeps_it(house: House) -> None:
    await served(house, "ops", "slow")
    await happens(house)

    await settled(house, *await taken(house))

    assert len(await notices(house)) == 1


async def test_what_was_not_delivered_is_tried_again_when_it_is_time(house: House) -> None:
    await served(house, "ops")
    await happens(house)
    (notice,) = await taken(house)

    assert await settled(house, notice, delay=3_600_000) == 1

    found = await sink_keys(house)
    assert found["sink:ops"][notice.encode()] == b"1 "
    assert found["undelivered:ops"][0][1] > int(notice.split("-")[0]) + 3_500_000
    assert await taken(house, taker="t2") == []


async def test_sent_again_it_changes_nothing(house: House) -> None:
    await served(house, "ops")
    await happens(house, 2)
    one, two = await taken(house)
    await settled(house, one)
    await settled(house, two, delay=60_000)
    before = await sink_keys(house)

    assert await settled(house, one) == 0
    assert await settled(house, two, delay=60_000) == 0

    assert await sink_keys(house) == before


async def test_one_from_whom_it_was_taken_postpones_nothing(house: House) -> None:
    await served(house, "ops")
    await happens(house)
    (notice,) = await taken(house)
    await make_due(house, notice)
    await taken(house, taker="t2")
    before = await sink_keys(house)

    assert await settled(house, notice, delay=1, taker="t1") == 0

    assert await sink_keys(house) == before


async def test_delivered_is_delivered_whoever_has_it_now(house: House) -> None:
    await served(house, "ops")
    await happens(house)
    (notice,) = await taken(house)
    await make_due(house, notice)
    await taken(house, taker="t2")

    assert await settled(house, notice, taker="t1") == 1

    assert await notices(house) == []
