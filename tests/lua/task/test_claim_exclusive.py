"""claim: an exclusive task is leased only to a worker without leases, and nothing beside it."""

from __future__ import annotations

from rqueue.core.leases import HeldLease, Settled, complete
from rqueue.store.shard import ANSWER_LIMITS
from rqueue.task.lane import Lane
from tests.harness import Harness
from tests.lua.rows import BASE, PLAIN, a_row, claim, everything, submit

LOST = Lane("code", 0.0, exclusive=True)
LANES = (PLAIN, LOST)
OTHER = Lane("mail", 0.0)


async def test_an_exclusive_task_is_claimed_alone_by_an_idle_worker(harness: Harness) -> None:
    lost, other = a_row(lane=2, base=1), a_row(lane=1)
    await submit(harness, [lost, other], lanes=LANES)

    reply = await claim(harness, 5)

    found = await everything(harness)
    assert [row.task for row in reply[3:]] == [lost.task]
    assert found["worker:w1"] == {"alone": lost.task}
    # Lanes are numbered as they are made.
    assert found["lane:2"] == {other.task: float(BASE)}


async def test_only_one_of_two_exclusive_tasks_is_claimed(harness: Harness) -> None:
    rows = [a_row(lane=1), a_row(lane=1)]
    await submit(harness, rows, lanes=[LOST])

    reply = await claim(harness, 5)

    assert [row.task for row in reply[3:]] == [rows[0].task]


async def test_tasks_of_higher_priority_come_first_and_then_the_worker_drains(
    harness: Harness,
) -> None:
    first, lost, last = a_row(lane=1, base=1), a_row(lane=2, base=2), a_row(lane=1, base=3)
    await submit(harness, [first, lost, last], lanes=LANES)

    reply = await claim(harness, 5)

    found = await everything(harness)
    assert [row.task for row in reply[3:]] == [first.task]
    assert found["lane:2"] == {lost.task: 2.0}
    assert found["draining"]["2"].endswith(" w1")
    assert "worker:w1" not in found


async def test_only_one_worker_drains(harness: Harness) -> None:
    held, lost, other = a_row(lane=1, base=0), a_row(lane=2, base=1), a_row(lane=1, base=2)
    await submit(harness, [held, lost, other], lanes=LANES)
    await claim(harness, 1, seq=1)
    await claim(harness, 5, seq=2)
    busy = await claim(harness, 5, waiter="two", consumer="w2", seq=1, types=["none"])

    drained = await claim(harness, 5, seq=3)
    others = await claim(harness, 5, waiter="three", consumer="w3", seq=1)

    assert drained[3:] == busy[3:] == []
    # An idle worker gets it at once, whichever worker drains for it.
    assert [row.task for row in others[3:]] == [lost.task]
    assert "draining" not in await everything(harness)


async def test_a_busy_worker_skips_a_task_that_another_drains_for(
    harness: Harness,
) -> None:
    rows = [a_row(lane=1, base=at) for at in (0, 1)]
    lost, other = a_row(lane=2, base=2), a_row(lane=1, base=3)
    await submit(harness, [*rows, lost, other], lanes=LANES)
    await claim(harness, 1, seq=1)
    await claim(harness, 1, waiter="two", consumer="w2", seq=1)
    await claim(harness, 5, seq=2)

    passed = await claim(harness, 5, waiter="two", consumer="w2", seq=2)

    assert [row.task for row in passed[3:]] == [other.task]


async def test_a_worker_drains_for_a_limited_time(harness: Harness) -> None:
    rows = [a_row(lane=1, base=at) for at in (0, 1)]
    lost, other = a_row(lane=2, base=2), a_row(lane=1, base=3)
    await submit(harness, [*rows, lost, other], lanes=LANES)
    await claim(harness, 1, seq=1)
    await claim(harness, 1, waiter="two", consumer="w2", seq=1)
    await claim(harness, 5, seq=2)
    await harness.client.hset(harness.keys.draining(), 2, "1 w1")

    took_over = await claim(harness, 5, waiter="two", consumer="w2", seq=2)

    assert took_over[3:] == []
    assert (await everything(harness))["draining"]["2"].endswith(" w2")


async def test_a_worker_that_always_holds_a_lease_gets_to_an_exclusive_task(
    harness: Harness,
) -> None:
    held, lost = a_row(lane=1, base=0), a_row(lane=2, base=1)
    rest = [a_row(lane=1, base=50) for _ in range(5)]
    await submit(harness, [held, lost, *rest], lanes=LANES)
    first = (await claim(harness, 2, seq=1, start=1))[3]

    kept = await claim(harness, 2, seq=2)
    await complete(harness.queue._internals.shard, [Settled(first.task, first.token, b"")])
    reply = await claim(harness, 2, seq=3)

    assert kept[3:] == []
    assert [row.task for row in reply[3:]] == [lost.task]


async def test_nothing_is_claimed_beside_it_until_it_has_ended(harness: Harness) -> None:
    lost, other = a_row(lane=2, base=1), a_row(lane=1)
    await submit(harness, [lost, other], lanes=LANES)
    (row,) = (await claim(harness, 5, seq=1, start=1))[3:]

    while_it_runs = await claim(harness, 5, seq=2)
    another_worker = await claim(harness, 5, waiter="two", consumer="w2", start=1)

    assert while_it_runs[3:] == []
    assert [one.task for one in another_worker[3:]] == [other.task]
    await complete(harness.queue._internals.shard, [Settled(lost.task, row.token, b"")])
    third = a_row()
    await submit(harness, [third])
    assert [one.task for one in (await claim(harness, 5, seq=3))[3:]] == [third.task]
    assert "worker:w1" not in await everything(harness)


async def test_nothing_is_claimed_beside_it_from_other_lanes(harness: Harness) -> None:
    lost, other = a_row(lane=1), a_row(lane=2)
    await submit(harness, [lost, other], lanes=[LOST, OTHER])
    await claim(harness, 1, start=1, types=["code"])

    reply = await claim(harness, 5, waiter="two", types=["mail"])

    assert reply[3:] == []


async def test_a_waiting_claim_is_not_answered_beside_it(harness: Harness) -> None:
    lost = a_row(lane=1)
    await submit(harness, [lost], lanes=[LOST])
    await claim(harness, 3, start=1, wait_ms=5000)

    late = a_row()
    await submit(harness, [late], lanes=[LOST])

    found = await everything(harness)
    assert found[f"task:{late.task}"]["state"] == "READY"
    assert "mail:box" not in found


async def test_a_released_exclusive_task_ends_the_draining(harness: Harness) -> None:
    lost = a_row(lane=1)
    await submit(harness, [lost], lanes=[LOST])
    (row,) = (await claim(harness, 1, seq=1))[3:]
    await harness.queue._internals.shard.run(
        "task/release", {**ANSWER_LIMITS, "tries": 0}, [HeldLease(*row[:2])]
    )

    again = await claim(harness, 1, seq=2, bits="new")

    assert [one[:2] for one in again[3:]] == [(lost.task, "2:new")]
    assert (await everything(harness))["worker:w1"] == {"alone": lost.task}


async def test_a_new_task_of_another_lane_is_not_delivered_beside_it(harness: Harness) -> None:
    lost, first = a_row(lane=1), a_row(lane=2)
    await submit(harness, [lost, first], lanes=[LOST, OTHER])
    await claim(harness, 1, waiter="two", consumer="w2", types=["mail"])
    await claim(harness, 1, start=1, types=["code"])
    await claim(harness, 1, waiter="three", types=["mail"], wait_ms=5000, box="other")

    late = a_row()
    await submit(harness, [late], lanes=[OTHER])

    found = await everything(harness)
    assert found[f"task:{late.task}"]["state"] == "READY"
    assert "mail:other" not in found
