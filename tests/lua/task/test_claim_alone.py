"""claim: a task that was lost once is given to empty hands only, and nothing beside it."""

from __future__ import annotations

from rqueue.model.lane import Lane
from rqueue.store.leases import Held, Settled, complete
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.rows import BASE, PLAIN, a_row, claim, everything, submit

LOST = Lane("code", 0.0, alone=True)
LANES = (PLAIN, LOST)
OTHER = Lane("mail", 0.0)


async def test_the_lost_task_is_given_alone_to_empty_hands(house: House) -> None:
    lost, other = a_row(lane=2, base=1), a_row(lane=1)
    await submit(house, [lost, other], lanes=LANES)

    reply = await claim(house, 5)

    found = await everything(house)
    assert [row.task for row in reply[3:]] == [lost.task]
    assert found["worker:w1"] == {"alone": lost.task}
    # Lanes are numbered as they are made.
    assert found["lane:2"] == {other.task: float(BASE)}


async def test_only_one_of_two_lost_tasks_is_given(house: House) -> None:
    rows = [a_row(lane=1), a_row(lane=1)]
    await submit(house, rows, lanes=[LOST])

    reply = await claim(house, 5)

    assert [row.task for row in reply[3:]] == [rows[0].task]


async def test_what_is_better_than_a_lost_task_comes_first_and_then_hands_are_kept_free(
    house: House,
) -> None:
    first, lost, last = a_row(lane=1, base=1), a_row(lane=2, base=2), a_row(lane=1, base=3)
    await submit(house, [first, lost, last], lanes=LANES)

    reply = await claim(house, 5)

    found = await everything(house)
    assert [row.task for row in reply[3:]] == [first.task]
    assert found["lane:2"] == {lost.task: 2.0}
    assert found["draining"]["2"].endswith(" w1")
    assert "worker:w1" not in found


async def test_one_worker_alone_keeps_its_hands_free(house: House) -> None:
    held, lost, other = a_row(lane=1, base=0), a_row(lane=2, base=1), a_row(lane=1, base=2)
    await submit(house, [held, lost, other], lanes=LANES)
    await claim(house, 1, seq=1)
    await claim(house, 5, seq=2)
    busy = await claim(house, 5, waiter="two", consumer="w2", seq=1, types=["none"])

    drained = await claim(house, 5, seq=3)
    others = await claim(house, 5, waiter="three", consumer="w3", seq=1)

    assert drained[3:] == busy[3:] == []
    # Empty hands get it at once, whoever keeps his free for it.
    assert [row.task for row in others[3:]] == [lost.task]
    assert "draining" not in await everything(house)


async def test_a_worker_with_something_in_hand_passes_by_what_another_drains_for(
    house: House,
) -> None:
    rows = [a_row(lane=1, base=at) for at in (0, 1)]
    lost, other = a_row(lane=2, base=2), a_row(lane=1, base=3)
    await submit(house, [*rows, lost, other], lanes=LANES)
    await claim(house, 1, seq=1)
    await claim(house, 1, waiter="two", consumer="w2", seq=1)
    await claim(house, 5, seq=2)

    passed = await claim(house, 5, waiter="two", consumer="w2", seq=2)

    assert [row.task for row in passed[3:]] == [other.task]


async def test_hands_are_kept_free_for_a_while_only(house: House) -> None:
    rows = [a_row(lane=1, base=at) for at in (0, 1)]
    lost, other = a_row(lane=2, base=2), a_row(lane=1, base=3)
    await submit(house, [*rows, lost, other], lanes=LANES)
    await claim(house, 1, seq=1)
    await claim(house, 1, waiter="two", consumer="w2", seq=1)
    await claim(house, 5, seq=2)
    await house.client.hset(house.keys.draining(), 2, "1 w1")

    took_over = await claim(house, 5, waiter="two", consumer="w2", seq=2)

    assert took_over[3:] == []
    assert (await everything(house))["draining"]["2"].endswith(" w2")


async def test_a_worker_that_always_holds_something_comes_to_a_lost_task(house: House) -> None:
    held, lost = a_row(lane=1, base=0), a_row(lane=2, base=1)
    rest = [a_row(lane=1, base=50) for _ in range(5)]
    await submit(house, [held, lost, *rest], lanes=LANES)
    first = (await claim(house, 2, seq=1, start=1))[3]

    kept = await claim(house, 2, seq=2)
    await complete(house.queue.shard, [Settled(first.task, first.token, b"")])
    reply = await claim(house, 2, seq=3)

    assert kept[3:] == []
    assert [row.task for row in reply[3:]] == [lost.task]


async def test_nothing_is_given_beside_it_until_it_has_ended(house: House) -> None:
    lost, other = a_row(lane=2, base=1), a_row(lane=1)
    await submit(house, [lost, other], lanes=LANES)
    (row,) = (await claim(house, 5, seq=1, start=1))[3:]

    while_it_runs = await claim(house, 5, seq=2)
    another_worker = await claim(house, 5, waiter="two", consumer="w2", start=1)

    assert while_it_runs[3:] == []
    assert [one.task for one in another_worker[3:]] == [other.task]
    await complete(house.queue.shard, [Settled(lost.task, row.token, b"")])
    third = a_row()
    await submit(house, [third])
    assert [one.task for one in (await claim(house, 5, seq=3))[3:]] == [third.task]
    assert "worker:w1" not in await everything(house)


async def test_nothing_is_given_beside_it_from_lanes_of_another_kind(house: House) -> None:
    lost, other = a_row(lane=1), a_row(lane=2)
    await submit(house, [lost, other], lanes=[LOST, OTHER])
    await claim(house, 1, start=1, types=["code"])

    reply = await claim(house, 5, waiter="two", types=["mail"])

    assert reply[3:] == []


async def test_a_waiting_claim_is_not_answered_beside_it(house: House) -> None:
    lost = a_row(lane=1)
    await submit(house, [lost], lanes=[LOST])
    await claim(house, 3, start=1, park_ms=5000)

    late = a_row()
    await submit(house, [late], lanes=[LOST])

    found = await everything(house)
    assert found[f"task:{late.task}"]["state"] == "READY"
    assert "mail:box" not in found


async def test_a_lost_task_that_was_given_back_frees_the_hands(house: House) -> None:
    lost = a_row(lane=1)
    await submit(house, [lost], lanes=[LOST])
    (row,) = (await claim(house, 1, seq=1))[3:]
    await house.queue.shard.run("task/release", {**FREED, "tries": 0}, [Held(*row[:2])])

    again = await claim(house, 1, seq=2, bits="new")

    assert [one[:2] for one in again[3:]] == [(lost.task, "2:new")]
    assert (await everything(house))["worker:w1"] == {"alone": lost.task}
