"""reschedule: a waiting task waits until another time."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.store.leases import Settled, complete
from rqueue.store.reaping import read_seen
from tests.house import House
from tests.lua.rows import everything, held, submitted
from tests.lua.task.afterwards import ask

AT = 4_000_000_000_000


async def reschedule(
    house: House, task: str, *, delay: int | str = "", at: int | str = ""
) -> list[Any]:
    args: dict[str, Any] = {"task": task, "delay": delay, "at": at}
    return await ask(house, "task/reschedule", args)


async def test_a_ready_task_leaves_lane_and_stream_and_waits(house: House) -> None:
    task = await submitted(house)
    before = await everything(house)
    (entry,) = before["ready"][0]
    earliest, _ = await read_seen(house.queue.shard)

    assert await reschedule(house, task, at=AT) == ["OK", AT]

    found = await everything(house)
    since = found["blocked"][task]
    fields = before[f"task:{task}"]
    del fields["entry"], before["lane:1"]
    fields.update(state="PENDING", created=entry.split("-")[0], due=str(AT))
    before.update({
        "ready": ({}, {}),
        "blocked": {task: since},
        "delayed": {task: float(AT)},
        f"waits:{task}": {"@time"},
    })  # fmt: skip
    before["stats"]["1:PENDING"] = "1"
    assert found == before
    assert since >= earliest


async def test_a_delay_counts_from_the_servers_now(house: House) -> None:
    task = await submitted(house)
    before, _ = await read_seen(house.queue.shard)

    word, due = await reschedule(house, task, delay=60_000)

    after, _ = await read_seen(house.queue.shard)
    assert word == "OK"
    assert before + 60_000 <= due <= after + 60_000
    assert (await everything(house))["delayed"] == {task: float(due)}


async def test_sent_again_with_its_instant_it_changes_nothing(house: House) -> None:
    task = await submitted(house)
    await reschedule(house, task, at=AT)
    before = await everything(house)

    assert await reschedule(house, task, at=AT) == ["OK", AT]

    assert await everything(house) == before


async def test_a_scheduled_task_gets_another_time(house: House) -> None:
    task = await submitted(house, ask={"delay": 60_000})
    before = await everything(house)

    assert await reschedule(house, task, at=AT) == ["OK", AT]

    before["delayed"] = {task: float(AT)}
    before[f"task:{task}"]["due"] = str(AT)
    assert await everything(house) == before


async def test_a_blocked_task_waits_for_its_time_as_well(house: House) -> None:
    parent = await submitted(house)
    child = await submitted(house, ask={"parents": [parent]})
    before = await everything(house)

    await reschedule(house, child, at=AT)

    before["delayed"] = {child: float(AT)}
    before[f"waits:{child}"] = {parent, "@time"}
    before[f"task:{child}"]["due"] = str(AT)
    assert await everything(house) == before


async def test_a_retrying_task_stays_so_and_waits_anew(house: House) -> None:
    await submitted(house)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", "once")
    before = await everything(house)

    assert await reschedule(house, lease.id.ulid, at=AT) == ["OK", AT]

    before["delayed"] = {lease.id.ulid: float(AT)}
    before[f"task:{lease.id.ulid}"]["due"] = str(AT)
    assert await everything(house) == before


async def test_a_rescheduled_task_runs_when_its_time_has_come(house: House) -> None:
    task = await submitted(house)
    score = (await everything(house))["lane:1"]
    await reschedule(house, task, at=1)

    await house.promoter.tick()

    found = await everything(house)
    assert found["lane:1"] == score
    assert found[f"task:{task}"]["state"] == "READY"
    assert not {"delayed", "blocked", f"waits:{task}"} & set(found)
    assert found["stats"]["1:PENDING"] == "0"


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "COMPLETED", "CANCELLED"])
async def test_a_task_in_hand_or_ended_is_not_rescheduled(house: House, state: str) -> None:
    lease = await held(house, start=int(state != "CLAIMED"))
    if state == "COMPLETED":
        await complete(house.queue.shard, [Settled(*lease, b"")])
    if state == "CANCELLED":
        await house.queue.cancel(f"task_{lease.task}")
    before = await house.dump()

    assert await reschedule(house, lease.task, at=AT) == ["STATE", state]

    assert await house.dump() == before


async def test_an_unknown_task_is_gone(house: House) -> None:
    assert await reschedule(house, "NOBODY", delay=1) == ["GONE"]

    assert await house.dump() == {}
