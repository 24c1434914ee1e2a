"""serve: a sink has its place among the notices, and what it wants becomes one from now on."""

from __future__ import annotations

from tests.house import House
from tests.lua.sink.told import happens, long_ago, notices, served, sink_keys, taken


async def test_a_sink_is_written_down_with_what_it_wants(house: House) -> None:
    await served(house, "ops", wants="breaker.opened task.dead_lettered")

    found = await sink_keys(house)

    ((name, at),) = found.pop("sinks")
    assert (name, at > 1e12) == (b"ops", True)
    assert found.pop("wanted:ops") == [(b"breaker.opened", at), (b"task.dead_lettered", at)]
    assert found == {
        "noticed": {b"breaker.opened", b"task.dead_lettered"},
        "sink:ops": {b"last": b"0-0", b"wants": b"breaker.opened task.dead_lettered"},
    }


async def test_nothing_is_a_notice_that_no_sink_wants(house: House) -> None:
    await happens(house)
    await served(house, "ops", wants="task.dead_lettered")

    await happens(house)

    assert await notices(house) == []
    assert await house.client.xlen(house.keys.events()) == 2


async def test_what_some_sink_wants_is_a_notice_with_the_id_of_its_event(house: House) -> None:
    await served(house, "ops")

    await happens(house)

    ((entry, fields),) = await house.client.xrange(house.keys.events())
    ((_, notice),) = await house.client.xrange(house.keys.notices())
    assert notice == {**fields, b"id": entry}


async def test_a_new_sink_begins_behind_all_that_is_there(house: House) -> None:
    await served(house, "ops")
    await happens(house)

    await served(house, "late")
    await happens(house)

    assert len(await taken(house, sink="ops")) == 2
    assert await taken(house, sink="late") == (await notices(house))[1:]


async def test_served_again_a_sink_keeps_its_place(house: House) -> None:
    await served(house, "ops")
    await happens(house)

    await served(house, "ops")

    assert await taken(house) == await notices(house)


async def test_sent_again_only_the_time_is_new(house: House) -> None:
    await served(house, "ops")
    before = await sink_keys(house)
    await house.client.zadd(house.keys.sinks(), {"ops": 1})

    await served(house, "ops")

    after = await sink_keys(house)
    for key in ("sinks", "wanted:ops"):
        assert after.pop(key)[0][1] >= before.pop(key)[0][1]
    assert after == before


async def test_sinks_want_together_what_each_wants(house: House) -> None:
    await served(house, "ops", wants="breaker.opened")
    await served(house, "money", wants="budget.exhausted")

    wanted = await house.client.smembers(house.keys.noticed())

    assert wanted == {b"breaker.opened", b"budget.exhausted"}


async def test_a_sink_wants_what_one_of_its_notifiers_wants(house: House) -> None:
    await served(house, "ops", wants="breaker.opened task.unserved")
    await served(house, "ops", wants="breaker.closed breaker.opened")
    await happens(house)

    found = await sink_keys(house)

    all_of = b"breaker.closed breaker.opened task.unserved"
    assert found["sink:ops"][b"wants"] == all_of
    assert found["noticed"] == set(all_of.split())
    assert await taken(house) == await notices(house)


async def test_what_no_notifier_has_lately_wanted_is_wanted_no_more(house: House) -> None:
    await served(house, "ops", wants="breaker.opened task.unserved")
    await long_ago(house, "breaker.opened", "task.unserved")

    await served(house, "ops", wants="breaker.opened")

    found = await sink_keys(house)
    assert found["sink:ops"][b"wants"] == b"breaker.opened"
    assert found["noticed"] == {b"breaker.opened"}
    assert [name for name, _ in found["wanted:ops"]] == [b"breaker.opened"]


async def test_what_was_wanted_stays_so_while_no_notifier_is_there(house: House) -> None:
    await served(house, "ops")
    await long_ago(house, "breaker.opened")

    await happens(house)
    await served(house, "ops")

    assert len(await taken(house)) == 1


async def test_a_set_that_was_lost_is_written_anew(house: House) -> None:
    await served(house, "ops")
    await house.client.delete(house.keys.noticed())

    await served(house, "ops")

    assert await house.client.smembers(house.keys.noticed()) == {b"breaker.opened"}
