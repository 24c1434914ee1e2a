"""reschedule: a waiting task waits until another time."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.leases import Settled, complete
from rqueue.core.timers import read_last_check
from tests.harness import Harness
from tests.lua.rows import everything, held, submitted
from tests.lua.task.keyspace import run_move

AT = 4_000_000_000_000


async def reschedule(
    harness: Harness, task: str, *, delay: int | str = "", at: int | str = ""
) -> list[Any]:
    args: dict[str, Any] = {"task": task, "delay": delay, "at": at}
    return await run_move(harness, "task/reschedule", args)


async def test_a_ready_task_leaves_its_lane_and_the_stream_and_waits(harness: Harness) -> None:
    task = await submitted(harness)
    before = await everything(harness)
    (entry,) = before["ready"][0]
    earliest, _ = await read_last_check(harness.queue._internals.shard)

    assert await reschedule(harness, task, at=AT) == ["OK", AT]

    found = await everything(harness)
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


async def test_a_delay_counts_from_the_servers_now(harness: Harness) -> None:
    task = await submitted(harness)
    before, _ = await read_last_check(harness.queue._internals.shard)

    word, due = await reschedule(harness, task, delay=60_000)

    after, _ = await read_last_check(harness.queue._internals.shard)
    assert word == "OK"
    assert before + 60_000 <= due <= after + 60_000
    assert (await everything(harness))["delayed"] == {task: float(due)}


async def test_a_repeated_call_with_an_instant_changes_nothing(harness: Harness) -> None:
    task = await submitted(harness)
    await reschedule(harness, task, at=AT)
    before = await everything(harness)

    assert await reschedule(harness, task, at=AT) == ["OK", AT]

    assert await everything(harness) == before


async def test_a_scheduled_task_gets_another_time(harness: Harness) -> None:
    task = await submitted(harness, options={"delay": 60_000})
    before = await everything(harness)

    assert await reschedule(harness, task, at=AT) == ["OK", AT]

    before["delayed"] = {task: float(AT)}
    before[f"task:{task}"]["due"] = str(AT)
    assert await everything(harness) == before


async def test_a_blocked_task_waits_for_its_time_as_well(harness: Harness) -> None:
    parent = await submitted(harness)
    child = await submitted(harness, options={"parents": [parent]})
    before = await everything(harness)

    await reschedule(harness, child, at=AT)

    before["delayed"] = {child: float(AT)}
    before[f"waits:{child}"] = {parent, "@time"}
    before[f"task:{child}"]["due"] = str(AT)
    assert await everything(harness) == before


async def test_a_retrying_task_keeps_its_state_and_waits_anew(harness: Harness) -> None:
    await submitted(harness)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", "once")
    before = await everything(harness)

    assert await reschedule(harness, lease.id.ulid, at=AT) == ["OK", AT]

    before["delayed"] = {lease.id.ulid: float(AT)}
    before[f"task:{lease.id.ulid}"]["due"] = str(AT)
    assert await everything(harness) == before


async def test_a_rescheduled_task_runs_when_it_is_due(harness: Harness) -> None:
    task = await submitted(harness)
    score = (await everything(harness))["lane:1"]
    await reschedule(harness, task, at=1)

    await harness.promoter.tick()

    found = await everything(harness)
    assert found["lane:1"] == score
    assert found[f"task:{task}"]["state"] == "READY"
    assert not {"delayed", "blocked", f"waits:{task}"} & set(found)
    assert found["stats"]["1:PENDING"] == "0"


@pytest.mark.parametrize("state", ["CLAIMED", "RUNNING", "COMPLETED", "CANCELLED"])
async def test_a_leased_or_ended_task_is_not_rescheduled(harness: Harness, state: str) -> None:
    lease = await held(harness, start=int(state != "CLAIMED"))
    if state == "COMPLETED":
        await complete(harness.queue._internals.shard, [Settled(*lease, b"")])
    if state == "CANCELLED":
        await harness.queue.cancel(f"task_{lease.task}")
    before = await harness.dump()

    assert await reschedule(harness, lease.task, at=AT) == ["STATE", state]

    assert await harness.dump() == before


async def test_an_unknown_task_is_gone(harness: Harness) -> None:
    assert await reschedule(harness, "NOBODY", delay=1) == ["GONE"]

    assert await harness.dump() == {}
