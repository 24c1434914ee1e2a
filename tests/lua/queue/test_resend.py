"""resend: what has ended and is lost goes into the outbox again, and nothing else does."""

from __future__ import annotations

import json
from typing import Any

from rqueue import TaskId
from tests.house import House
from tests.lua.task.afterwards import ask


async def lost(house: House) -> None:
    """Empties the outbox, as a server does that loses it."""
    await house.client.delete(house.keys.outbox())
    await house.client.hdel(house.keys.stats(), "outbox")


async def lines(house: House) -> list[dict[str, str]]:
    found = await house.client.xrange(house.keys.outbox())
    return [{name.decode(): value.decode() for name, value in fields.items()}
            for _, fields in found]  # fmt: skip


async def sent(house: House, *lives: tuple[TaskId, int]) -> Any:
    return await ask(house, "queue/resend", {}, [(task.ulid, life) for task, life in lives])


async def counter(house: House) -> int:
    return int(await house.client.hget(house.keys.stats(), "outbox") or 0)


async def test_what_completed_is_sent_by_its_name_alone(archived_house: House) -> None:
    house = archived_house
    lease = await house.running()
    await lease.complete("done")
    before = await house.dump()
    await lost(house)

    assert await sent(house, (lease.id, 1)) == ["OK", 1]

    assert await lines(house) == [{lease.id.ulid: "1 COMPLETED"}]
    assert await counter(house) == 1
    root = house.keys.root
    for key, value in (await house.dump()).items():
        if key != f"{root}outbox":
            assert value == before[key]


async def test_the_dead_are_sent_as_they_are_now(archived_house: House) -> None:
    house = archived_house
    lease = await house.running()
    await lease.fail(permanent=True)
    (before,) = await lines(house)
    await lost(house)

    assert await sent(house, (lease.id, 1)) == ["OK", 1]

    (line,) = await lines(house)
    word, state, copy = line[lease.id.ulid].split(" ", 2)
    assert (word, state) == ("1", "DEAD_LETTERED")
    assert json.loads(copy) == json.loads(before[lease.id.ulid].split(" ", 2)[2])


async def test_what_has_not_ended_or_lives_again_is_passed_over(archived_house: House) -> None:
    house = archived_house
    running = await house.running("a")
    dead = await house.running("b")
    await dead.fail(permanent=True)
    await house.queue.revive(dead.id)
    (again,) = await house.queue.claim(worker="w1", types=["b"])
    await again.start()
    await again.complete()
    gone = TaskId.from_ulid("01JZ0000007000800000000000")
    await lost(house)

    assert await sent(house, (running.id, 1), (dead.id, 1), (gone, 1)) == ["OK", 0]
    assert (await lines(house), await counter(house)) == ([], 0)

    assert await sent(house, (dead.id, 2)) == ["OK", 1]
    assert await lines(house) == [{dead.id.ulid: "2 COMPLETED"}]


async def test_a_key_of_another_type_stands_in_no_others_way(archived_house: House) -> None:
    house = archived_house
    lease = await house.running()
    await lease.complete()
    broken = TaskId.from_ulid("01JZ0000007000800000000000")
    await house.client.set(house.keys.task(broken.ulid), "no hash")
    await lost(house)

    assert await sent(house, (broken, 1), (lease.id, 1)) == ["OK", 1]
    assert await counter(house) == 1


async def test_sent_again_it_is_there_twice_and_counted_so(archived_house: House) -> None:
    house = archived_house
    lease = await house.running()
    await lease.complete()
    await lost(house)

    for number in (1, 2):
        assert await sent(house, (lease.id, 1)) == ["OK", 1]
        assert (len(await lines(house)), await counter(house)) == (number, number)
