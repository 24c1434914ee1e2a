"""serve: a sink has its place among the notices, and what it wants becomes one from now on."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.notice.told import happens, long_ago, notices, served, sink_keys, taken


async def test_a_sink_is_written_down_with_what_it_wants(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened task.dead_lettered")

    found = await sink_keys(harness)

    ((name, at),) = found.pop("sinks")
    assert (name, at > 1e12) == (b"ops", True)
    assert found.pop("wanted:ops") == [(b"breaker.opened", at), (b"task.dead_lettered", at)]
    assert found == {
        "noticed": {b"breaker.opened", b"task.dead_lettered"},
        "sink:ops": {b"last": b"0-0", b"wants": b"breaker.opened task.dead_lettered"},
    }


async def test_nothing_is_a_notice_that_no_sink_wants(harness: Harness) -> None:
    await happens(harness)
    await served(harness, "ops", wants="task.dead_lettered")

    await happens(harness)

    assert await notices(harness) == []
    assert await harness.client.xlen(harness.keys.events()) == 2


async def test_what_some_sink_wants_is_a_notice_with_the_id_of_its_event(harness: Harness) -> None:
    await served(harness, "ops")

    await happens(harness)

    ((entry, fields),) = await harness.client.xrange(harness.keys.events())
    ((_, notice),) = await harness.client.xrange(harness.keys.notices())
    assert notice == {**fields, b"id": entry}


async def test_a_new_sink_begins_behind_all_that_is_there(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness)

    await served(harness, "late")
    await happens(harness)

    assert len(await taken(harness, sink="ops")) == 2
    assert await taken(harness, sink="late") == (await notices(harness))[1:]


async def test_served_again_a_sink_keeps_its_place(harness: Harness) -> None:
    await served(harness, "ops")
    await happens(harness)

    await served(harness, "ops")

    assert await taken(harness) == await notices(harness)


async def test_sent_again_only_the_time_is_new(harness: Harness) -> None:
    await served(harness, "ops")
    before = await sink_keys(harness)
    await harness.client.zadd(harness.keys.sinks(), {"ops": 1})

    await served(harness, "ops")

    after = await sink_keys(harness)
    for key in ("sinks", "wanted:ops"):
        assert after.pop(key)[0][1] >= before.pop(key)[0][1]
    assert after == before


async def test_sinks_want_together_what_each_wants(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened")
    await served(harness, "money", wants="budget.exhausted")

    wanted = await harness.client.smembers(harness.keys.noticed())

    assert wanted == {b"breaker.opened", b"budget.exhausted"}


async def test_a_sink_wants_what_one_of_its_notifiers_wants(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened task.unserved")
    await served(harness, "ops", wants="breaker.closed breaker.opened")
    await happens(harness)

    found = await sink_keys(harness)

    all_of = b"breaker.closed breaker.opened task.unserved"
    assert found["sink:ops"][b"wants"] == all_of
    assert found["noticed"] == set(all_of.split())
    assert await taken(harness) == await notices(harness)


async def test_what_no_notifier_has_lately_wanted_is_wanted_no_more(harness: Harness) -> None:
    await served(harness, "ops", wants="breaker.opened task.unserved")
    await long_ago(harness, "breaker.opened", "task.unserved")

    await served(harness, "ops", wants="breaker.opened")

    found = await sink_keys(harness)
    assert found["sink:ops"][b"wants"] == b"breaker.opened"
    assert found["noticed"] == {b"breaker.opened"}
    assert [name for name, _ in found["wanted:ops"]] == [b"breaker.opened"]


async def test_what_was_wanted_stays_so_while_no_notifier_is_there(harness: Harness) -> None:
    await served(harness, "ops")
    await long_ago(harness, "breaker.opened")

    await happens(harness)
    await served(harness, "ops")

    assert len(await taken(harness)) == 1


async def test_a_set_that_was_lost_is_written_anew(harness: Harness) -> None:
    await served(harness, "ops")
    await harness.client.delete(harness.keys.noticed())

    await served(harness, "ops")

    assert await harness.client.smembers(harness.keys.noticed()) == {b"breaker.opened"}
