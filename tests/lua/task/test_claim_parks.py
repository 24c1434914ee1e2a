"""claim: with nothing to give it waits, and carries what was mailed to it."""

from __future__ import annotations

from typing import Any

from rqueue.model.lane import Lane
from rqueue.store.leases import Held, start
from tests.house import House
from tests.lua.rows import a_row, claim, everything, served_profile, submit, submitted

PARK = 5000


async def parked(house: House, n: int = 1, **changes: Any) -> str:
    """A claim that waits for `n` tasks; the name of its profile."""
    first = a_row()
    await submit(house, [first])
    await house.queue.cancel(f"task_{first.task}")
    assert await claim(house, n, park_ms=PARK, **changes) == ["OK", "*", PARK]
    return await served_profile(house)


async def test_a_claim_that_finds_nothing_parks(house: House) -> None:
    profile = await parked(house, n=3)

    found = await everything(house)
    now = found["workers"]["w1"]
    assert found[f"waiting:{profile}"] == {"one": now}
    assert found[f"profile:{profile}"] == '[[1,0,"code",false]]'
    assert found["profiles:1"] == found["profiles:new"] == {profile}
    assert (found["waiter:one"]["n"], found["waiter:one"]["profile"]) == ("3", profile)
    assert found["waiter:one"]["until"] == f"{now + PARK:.0f}"
    assert 0 < await house.client.pttl(house.keys.profile(profile)) <= PARK * 12
    assert await house.client.pttl(house.keys.waiter("one")) == -1


async def test_a_parked_claim_sent_again_is_still_parked_and_changes_nothing(house: House) -> None:
    await parked(house)
    before = await house.dump()

    reply = await claim(house, park_ms=PARK)

    assert reply[:2] == ["OK", "*"]
    assert 0 < reply[2] <= PARK
    assert await house.dump() == before


async def test_a_claim_that_got_a_part_parks_for_the_rest(house: House) -> None:
    task = await submitted(house)

    reply = await claim(house, 3, park_ms=PARK)

    found = await everything(house)
    assert [row.task for row in reply[3:]] == [task]
    assert reply[2] == PARK
    assert found["waiter:one"]["n"] == "2"
    assert found["waiter:one"]["given"] == f"{task} 1:bits"
    assert list(found[f"waiting:{await served_profile(house)}"]) == ["one"]


async def test_a_claim_that_got_all_does_not_park(house: House) -> None:
    await submitted(house)

    reply = await claim(house, 1, park_ms=PARK)

    assert reply[2] == 0
    assert not [name for name in await everything(house) if name.startswith("waiting:")]


async def test_a_paused_queue_lets_a_claim_wait(house: House) -> None:
    await submitted(house)
    await house.queue.pause()

    assert (await claim(house, park_ms=PARK))[2:] == [PARK]

    await house.queue.resume()
    assert (await everything(house))["mail:box"][0].startswith("tasks 1 ")


async def test_the_next_claim_ends_the_wait_of_the_one_before(house: House) -> None:
    profile = await parked(house)

    assert await claim(house, 0, seq=2) == ["OK", "*", 0]

    found = await everything(house)
    assert f"waiting:{profile}" not in found
    assert found["waiter:one"]["until"] == "0"
    task = await submitted(house)
    assert (await everything(house))[f"task:{task}"]["state"] == "READY"


async def test_what_was_mailed_and_not_seen_is_carried_by_the_next_claim(house: House) -> None:
    await parked(house, n=2)
    mailed = await submitted(house)
    fresh = [await submitted(house) for _ in range(2)]

    reply = await claim(house, 2, seq=2, bits="new")

    found = await everything(house)
    assert [row[:2] for row in reply[3:]] == [(fresh[0], "1:new"), (mailed, "1:bits")]
    assert "handoffs" not in found
    assert found["waiter:one"]["given"] == f"{fresh[0]} 1:new {mailed} 1:bits"
    assert found["waiter:one"]["mailed"] == ""
    assert list(found["lane:1"]) == [fresh[1]]
    before = await house.dump()
    assert await claim(house, 2, seq=2) == reply
    assert await house.dump() == before


async def test_the_claim_that_was_mailed_to_gives_it_when_sent_again(house: House) -> None:
    await parked(house)
    mailed = await submitted(house)
    before = await house.dump()

    reply = await claim(house, park_ms=PARK)

    assert reply[2] == 0
    assert [row[:2] for row in reply[3:]] == [(mailed, "1:bits")]
    assert await house.dump() == before


async def test_mail_that_was_started_is_carried_too_and_taken_for_its_slot(house: House) -> None:
    await parked(house)
    mailed = await submitted(house)
    await submitted(house)
    assert await start(house.queue.shard, [Held(mailed, "1:bits")]) == ["OK"]

    reply = await claim(house, 1, seq=2)

    assert [row.task for row in reply[3:]] == [mailed]
    assert (await everything(house))["stats"]["1:RUNNING"] == "1"


async def test_mail_that_was_recalled_is_not_carried(house: House) -> None:
    await parked(house)
    mailed = await submitted(house)
    await house.client.zadd(house.keys.handoffs(), {f"{mailed}:1": 1})
    await house.promoter.tick()

    reply = await claim(house, 1, seq=2, bits="new")

    assert [row[:2] for row in reply[3:]] == [(mailed, "2:new")]


async def test_a_claim_by_hand_is_forgotten_after_its_memo(house: House) -> None:
    await submitted(house)

    await claim(house, memo_ms=120_000)

    assert 0 < await house.client.pttl(house.keys.waiter("one")) <= 120_000


async def test_two_conversations_of_one_worker_park_side_by_side(house: House) -> None:
    profile = await parked(house, waiter="one", box="a")
    await claim(house, waiter="two", box="b", park_ms=PARK)

    rows = [a_row(), a_row()]
    await submit(house, rows)

    found = await everything(house)
    assert f"waiting:{profile}" not in found
    assert {found["mail:a"][0].split(" ")[2], found["mail:b"][0].split(" ")[2]} == {
        row.task for row in rows
    }
    assert set(found["ready"][1].values()) == {"w1"}


async def test_a_claim_for_other_lanes_parks_under_another_profile(house: House) -> None:
    await submit(house, [a_row(lane=2)], lanes=[Lane("code", 0.0), Lane("mail", 0.0)])
    await claim(house, waiter="one", types=["code"], lanes="[]", profile="none", park_ms=PARK)

    await submitted(house)

    found = await everything(house)
    assert list(found["waiting:none"]) == ["one"]
    assert "mail:box" not in found or found["mail:box"][0].startswith("lanes")
