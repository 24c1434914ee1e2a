"""take: a notifier gets the undelivered notices of a sink; no other does for a while."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.notice.sinks import (
    OPENED,
    TAKE,
    age_wanted,
    emit_events,
    make_due,
    notices,
    served,
    settled,
    sink_keys,
    taken,
)
from tests.lua.task.keyspace import run_move


async def test_an_unknown_sink_is_gone(harness: Harness) -> None:
    assert await run_move(harness, "notice/take", TAKE) == ["GONE"]
    assert await harness.dump() == {}


async def test_new_notices_are_returned_and_stored_as_taken(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)
    (notice,) = await notices(harness)

    word, more, row = await run_move(harness, "notice/take", TAKE)

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


async def test_a_repeated_call_returns_the_same_and_changes_nothing(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness, 2)
    first = await run_move(harness, "notice/take", TAKE)
    await emit_events(harness)
    before = await sink_keys(harness)

    assert (await run_move(harness, "notice/take", TAKE))[2:] == first[2:]

    assert await sink_keys(harness) == before


async def test_another_notifier_gets_only_the_other_notices(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)
    await taken(harness)
    await emit_events(harness)

    assert await taken(harness, taker="t2") == (await notices(harness))[1:]
    assert await taken(harness, taker="t3") == []


async def test_a_notice_that_was_not_settled_in_time_goes_to_another(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)
    (notice,) = await taken(harness)
    await make_due(harness, notice)

    (row,) = (await run_move(harness, "notice/take", TAKE | {"taker": "t2"}))[2:]

    assert row[:2] == [notice, 2]
    assert await taken(harness, taker="t1") == []


async def test_each_sink_has_its_own_position(harness: Harness) -> None:
    await served(harness, "ops", "other")
    await emit_events(harness)

    assert await taken(harness, sink="ops") == await taken(harness, sink="other", taker="t2")


async def test_notices_that_a_sink_does_not_want_are_skipped_and_deleted(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened breaker.closed")
    await served(harness, "closed", wants="breaker.closed")
    await emit_events(harness)
    await settled(harness, *await taken(harness))

    assert await taken(harness, sink="closed", taker="t2") == []

    assert await notices(harness) == []


async def test_retries_come_before_new_notices(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)
    (first,) = await taken(harness)
    await settled(harness, first, delay=1)
    await make_due(harness, first)
    await emit_events(harness)

    assert await taken(harness, taker="t2", limit=1) == [first]
    assert await taken(harness, taker="t3", limit=1) == (await notices(harness))[1:]


async def test_no_more_than_the_window_are_taken(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness, 5)

    first = await taken(harness, window=3)

    assert len(first) == 3
    assert await taken(harness, taker="t2", window=3) == []
    await settled(harness, first[0])
    assert len(await taken(harness, taker="t2", window=3)) == 1


async def test_one_page_is_checked_and_the_reply_has_more(
    harness: Harness,
) -> None:
    await served(harness, "ops", wants="breaker.opened breaker.closed")
    await emit_events(harness, 3)
    await age_wanted(harness, "breaker.opened")
    await served(harness, "ops", wants="breaker.closed")

    replies = [await run_move(harness, "notice/take", TAKE | {"page": 2}) for _ in range(2)]

    assert replies == [["OK", 1], ["OK", 0]]


async def test_a_notice_that_left_the_stream_is_removed(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)
    (notice,) = await taken(harness)
    await harness.client.delete(harness.keys.notices())
    await make_due(harness, notice)

    assert await taken(harness, taker="t2") == []

    found = await sink_keys(harness)
    assert "undelivered:ops" not in found
    assert notice.encode() not in found["sink:ops"]
