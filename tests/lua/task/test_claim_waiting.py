"""claim: with nothing to claim it waits, and includes what was delivered to it."""

from __future__ import annotations

from typing import Any

from rqueue.core.leases import HeldLease, start
from rqueue.task.lane import Lane
from tests.harness import Harness
from tests.lua.rows import a_row, claim, everything, served_profile, submit, submitted

PARK = 5000


async def waiting_claim(harness: Harness, n: int = 1, **changes: Any) -> str:
    """A claim that waits for `n` tasks; the name of its profile."""
    first = a_row()
    await submit(harness, [first])
    await harness.queue.cancel(f"task_{first.task}")
    assert await claim(harness, n, wait_ms=PARK, **changes) == ["OK", "*", PARK]
    return await served_profile(harness)


async def test_a_claim_that_finds_nothing_waits(harness: Harness) -> None:
    profile = await waiting_claim(harness, n=3)

    found = await everything(harness)
    now = found["workers"]["w1"]
    assert found[f"waiting:{profile}"] == {"one": now}
    assert found[f"profile:{profile}"] == '[[1,0,"code",false]]'
    assert found["profiles:1"] == found["profiles:new"] == {profile}
    assert (found["waiter:one"]["n"], found["waiter:one"]["profile"]) == ("3", profile)
    assert found["waiter:one"]["until"] == f"{now + PARK:.0f}"
    assert 0 < await harness.client.pttl(harness.keys.profile(profile)) <= PARK * 12
    assert await harness.client.pttl(harness.keys.waiter("one")) == -1


async def test_a_repeated_waiting_claim_still_waits_and_changes_nothing(
    harness: Harness,
) -> None:
    await waiting_claim(harness)
    before = await harness.dump()

    reply = await claim(harness, wait_ms=PARK)

    assert reply[:2] == ["OK", "*"]
    assert 0 < reply[2] <= PARK
    assert await harness.dump() == before


async def test_a_partly_filled_claim_waits_for_the_rest(harness: Harness) -> None:
    task = await submitted(harness)

    reply = await claim(harness, 3, wait_ms=PARK)

    found = await everything(harness)
    assert [row.task for row in reply[3:]] == [task]
    assert reply[2] == PARK
    assert found["waiter:one"]["n"] == "2"
    assert found["waiter:one"]["given"] == f"{task} 1:bits"
    assert list(found[f"waiting:{await served_profile(harness)}"]) == ["one"]


async def test_a_filled_claim_does_not_wait(harness: Harness) -> None:
    await submitted(harness)

    reply = await claim(harness, 1, wait_ms=PARK)

    assert reply[2] == 0
    assert not [name for name in await everything(harness) if name.startswith("waiting:")]


async def test_a_paused_queue_lets_a_claim_wait(harness: Harness) -> None:
    await submitted(harness)
    await harness.queue.pause()

    assert (await claim(harness, wait_ms=PARK))[2:] == [PARK]

    await harness.queue.resume()
    assert (await everything(harness))["mail:box"][0].startswith("tasks 1 ")


async def test_the_next_claim_ends_the_wait_of_the_one_before(harness: Harness) -> None:
    profile = await waiting_claim(harness)

    assert await claim(harness, 0, seq=2) == ["OK", "*", 0]

    found = await everything(harness)
    assert f"waiting:{profile}" not in found
    assert found["waiter:one"]["until"] == "0"
    task = await submitted(harness)
    assert (await everything(harness))[f"task:{task}"]["state"] == "READY"


async def test_an_unread_delivery_is_included_in_the_next_claim(harness: Harness) -> None:
    await waiting_claim(harness, n=2)
    mailed = await submitted(harness)
    fresh = [await submitted(harness) for _ in range(2)]

    reply = await claim(harness, 2, seq=2, bits="new")

    found = await everything(harness)
    assert [row[:2] for row in reply[3:]] == [(fresh[0], "1:new"), (mailed, "1:bits")]
    assert "handoffs" not in found
    assert found["waiter:one"]["given"] == f"{fresh[0]} 1:new {mailed} 1:bits"
    assert found["waiter:one"]["mailed"] == ""
    assert list(found["lane:1"]) == [fresh[1]]
    before = await harness.dump()
    assert await claim(harness, 2, seq=2) == reply
    assert await harness.dump() == before


async def test_a_repeated_claim_returns_its_delivery(harness: Harness) -> None:
    await waiting_claim(harness)
    mailed = await submitted(harness)
    before = await harness.dump()

    reply = await claim(harness, wait_ms=PARK)

    assert reply[2] == 0
    assert [row[:2] for row in reply[3:]] == [(mailed, "1:bits")]
    assert await harness.dump() == before


async def test_a_started_delivery_is_included_too_and_counts_for_its_slot(
    harness: Harness,
) -> None:
    await waiting_claim(harness)
    mailed = await submitted(harness)
    await submitted(harness)
    assert await start(harness.queue._internals.shard, [HeldLease(mailed, "1:bits")]) == ["OK"]

    reply = await claim(harness, 1, seq=2)

    assert [row.task for row in reply[3:]] == [mailed]
    assert (await everything(harness))["stats"]["1:RUNNING"] == "1"


async def test_a_recalled_delivery_is_not_included(harness: Harness) -> None:
    await waiting_claim(harness)
    mailed = await submitted(harness)
    await harness.client.zadd(harness.keys.deliveries(), {f"{mailed}:1": 1})
    await harness.promoter.tick()

    reply = await claim(harness, 1, seq=2, bits="new")

    assert [row[:2] for row in reply[3:]] == [(mailed, "2:new")]


async def test_a_manual_claim_expires_with_its_memo(harness: Harness) -> None:
    await submitted(harness)

    await claim(harness, memo_ms=120_000)

    assert 0 < await harness.client.pttl(harness.keys.waiter("one")) <= 120_000


async def test_two_sessions_of_one_worker_wait_side_by_side(harness: Harness) -> None:
    profile = await waiting_claim(harness, waiter="one", box="a")
    await claim(harness, waiter="two", box="b", wait_ms=PARK)

    rows = [a_row(), a_row()]
    await submit(harness, rows)

    found = await everything(harness)
    assert f"waiting:{profile}" not in found
    assert {found["mail:a"][0].split(" ")[2], found["mail:b"][0].split(" ")[2]} == {
        row.task for row in rows
    }
    assert set(found["ready"][1].values()) == {"w1"}


async def test_a_claim_for_other_lanes_waits_under_another_profile(harness: Harness) -> None:
    await submit(harness, [a_row(lane=2)], lanes=[Lane("code", 0.0), Lane("mail", 0.0)])
    await claim(harness, waiter="one", types=["code"], lanes="[]", profile="none", wait_ms=PARK)

    await submitted(harness)

    found = await everything(harness)
    assert list(found["waiting:none"]) == ["one"]
    assert "mail:box" not in found or found["mail:box"][0].startswith("lanes")
