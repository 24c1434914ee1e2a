"""serve: a sink has its own position in the notices; events that it wants become notices."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.notice.sinks import age_wanted, emit_events, notices, served, sink_keys, taken


async def test_a_sink_is_stored_with_the_events_it_wants(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened task.dead_lettered")

    found = await sink_keys(harness)

    ((name, at),) = found.pop("sinks")
    assert (name, at > 1e12) == (b"ops", True)
    assert found.pop("wanted:ops") == [(b"breaker.opened", at), (b"task.dead_lettered", at)]
    assert found == {
        "noticed": {b"breaker.opened", b"task.dead_lettered"},
        "sink:ops": {b"last": b"0-0", b"wants": b"breaker.opened task.dead_lettered"},
    }


async def test_an_event_that_no_sink_wants_is_no_notice(harness: Harness) -> None:
    await emit_events(harness)
    await served(harness, "ops", wants="task.dead_lettered")

    await emit_events(harness)

    assert await notices(harness) == []
    assert await harness.client.xlen(harness.keys.events()) == 2


async def test_an_event_that_a_sink_wants_is_a_notice_with_the_id_of_the_event(
    harness: Harness,
) -> None:
    await served(harness, "ops")

    await emit_events(harness)

    ((entry, fields),) = await harness.client.xrange(harness.keys.events())
    ((_, notice),) = await harness.client.xrange(harness.keys.notices())
    assert notice == {**fields, b"id": entry}


async def test_a_new_sink_starts_at_the_end_of_the_stream(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)

    await served(harness, "late")
    await emit_events(harness)

    assert len(await taken(harness, sink="ops")) == 2
    assert await taken(harness, sink="late") == (await notices(harness))[1:]


async def test_a_sink_that_is_served_again_keeps_its_position(harness: Harness) -> None:
    await served(harness, "ops")
    await emit_events(harness)

    await served(harness, "ops")

    assert await taken(harness) == await notices(harness)


async def test_a_repeated_call_changes_only_the_time(harness: Harness) -> None:
    await served(harness, "ops")
    before = await sink_keys(harness)
    await harness.client.zadd(harness.keys.sinks(), {"ops": 1})

    await served(harness, "ops")

    after = await sink_keys(harness)
    for key in ("sinks", "wanted:ops"):
        assert after.pop(key)[0][1] >= before.pop(key)[0][1]
    assert after == before


async def test_the_wanted_events_are_those_of_all_sinks(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened")
    await served(harness, "money", wants="budget.exhausted")

    wanted = await harness.client.smembers(harness.keys.noticed())

    assert wanted == {b"breaker.opened", b"budget.exhausted"}


async def test_a_sink_wants_the_events_of_all_its_notifiers(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened task.unserved")
    await served(harness, "ops", wants="breaker.closed breaker.opened")
    await emit_events(harness)

    found = await sink_keys(harness)

    all_of = b"breaker.closed breaker.opened task.unserved"
    assert found["sink:ops"][b"wants"] == all_of
    assert found["noticed"] == set(all_of.split())
    assert await taken(harness) == await notices(harness)


async def test_an_event_that_no_notifier_wanted_lately_is_dropped(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened task.unserved")
    await age_wanted(harness, "breaker.opened", "task.unserved")

    await served(harness, "ops", wants="breaker.opened")

    found = await sink_keys(harness)
    assert found["sink:ops"][b"wants"] == b"breaker.opened"
    assert found["noticed"] == {b"breaker.opened"}
    assert [name for name, _ in found["wanted:ops"]] == [b"breaker.opened"]


async def test_wanted_events_stay_while_no_notifier_runs(harness: Harness) -> None:
    await served(harness, "ops")
    await age_wanted(harness, "breaker.opened")

    await emit_events(harness)
    await served(harness, "ops")

    assert len(await taken(harness)) == 1


async def test_a_lost_set_is_written_again(harness: Harness) -> None:
    await served(harness, "ops")
    await harness.client.delete(harness.keys.noticed())

    await served(harness, "ops")

    assert await harness.client.smembers(harness.keys.noticed()) == {b"breaker.opened"}
