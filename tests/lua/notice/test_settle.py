"""settle: a notice is deleted when every sink has had it; one that was not delivered is retried."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.notice.sinks import emit_events, make_due, notices, served, settled, sink_keys, taken


async def test_a_notice_delivered_to_all_sinks_is_deleted(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness, 2)
    found = await taken(harness)

    assert await settled(harness, *found) == 2

    left = await sink_keys(harness)
    del left["sinks"], left["wanted:ops"]
    assert left == {
        "noticed": {b"breaker.opened"},
        "notices": ([], []),
        "sink:ops": {b"last": found[-1].encode(), b"wants": b"breaker.opened"},
    }


async def test_a_notice_stays_until_the_last_sink_has_had_it(harness: Harness) -> None:
    await served(harness, "ops", "down")
    await emit_events(harness, 2)
    one, two = await taken(harness)
    await taken(harness, sink="down", taker="t2")

    await settled(harness, one, two)
    await settled(harness, one, sink="down", taker="t2", delay=1000)
    assert await notices(harness) == [one, two]

    await settled(harness, one, sink="down", taker="t2")
    assert await notices(harness) == [two]
    await settled(harness, two, sink="down", taker="t2")
    assert await notices(harness) == []


async def test_a_late_notice_keeps_only_the_notices_behind_it(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness, 3)
    one, two, three = await taken(harness)

    await settled(harness, two)
    assert await notices(harness) == [one, two, three]
    await settled(harness, one)

    assert await notices(harness) == [three]


async def test_a_sink_that_has_not_reached_a_notice_keeps_it(harness: Harness) -> None:
    await served(harness, "ops", "slow")
    await emit_events(harness)

    await settled(harness, *await taken(harness))

    assert len(await notices(harness)) == 1


async def test_an_undelivered_notice_is_retried_when_it_is_due(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)
    (notice,) = await taken(harness)

    assert await settled(harness, notice, delay=3_600_000) == 1

    found = await sink_keys(harness)
    assert found["sink:ops"][notice.encode()] == b"1 "
    assert found["undelivered:ops"][0][1] > int(notice.split("-")[0]) + 3_500_000
    assert await taken(harness, taker="t2") == []


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness, 2)
    one, two = await taken(harness)
    await settled(harness, one)
    await settled(harness, two, delay=60_000)
    before = await sink_keys(harness)

    assert await settled(harness, one) == 0
    assert await settled(harness, two, delay=60_000) == 0

    assert await sink_keys(harness) == before


async def test_a_notifier_that_lost_the_notice_postpones_nothing(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)
    (notice,) = await taken(harness)
    await make_due(harness, notice)
    await taken(harness, taker="t2")
    before = await sink_keys(harness)

    assert await settled(harness, notice, delay=1, taker="t1") == 0

    assert await sink_keys(harness) == before


async def test_a_delivery_counts_whichever_notifier_made_it(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)
    (notice,) = await taken(harness)
    await make_due(harness, notice)
    await taken(harness, taker="t2")

    assert await settled(harness, notice, taker="t1") == 1

    assert await notices(harness) == []
