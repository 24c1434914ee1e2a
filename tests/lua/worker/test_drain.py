"""drain: a worker gets no more tasks, claimed or delivered; a later run under its name does."""

from __future__ import annotations

import pytest

from rqueue.core.counts import answer_all
from rqueue.core.workers import drain, leave, read_fleet
from rqueue.errors import WorkerNotFound
from tests.harness import Harness
from tests.lua.rows import claim, everything, submitted
from tests.lua.worker.registered import age, register_worker


async def drained(harness: Harness, worker: str = "w1") -> int:
    return await drain(harness.queue._internals.shard, worker)


async def test_an_unknown_or_gone_worker_is_an_error(harness: Harness) -> None:
    await register_worker(harness, "left", "left/a")
    await leave(harness.queue._internals.shard, "left", "left/a")
    await register_worker(harness, "silent", "silent/a")
    await age(harness, "silent", "silent/a", by_ms=30_001)
    await harness.queue.claim(worker="by-hand")
    before = await harness.dump()

    for name in ("nobody", "left", "silent", "by-hand"):
        with pytest.raises(WorkerNotFound) as raised:
            await drained(harness, name)
        assert raised.value.worker == name

    assert await harness.dump() == before


async def test_a_waiting_worker_is_notified_in_its_mailbox(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await claim(harness, waiter="w1/a", box="abc", wait_ms=5000)
    before = await everything(harness)

    assert await drained(harness) == 1

    after = await everything(harness)
    assert after["mail:abc"] == ["drain w1/a"]
    ((_, event),) = after["events"][0].items()
    assert event == {"event": "worker.draining", "worker": "w1", "detail": "w1/a"}
    assert set(after["worker:w1"]) == {"run:w1/a", "drain:w1/a"}
    assert set(after) - set(before) == {"mail:abc", "events"}
    for name in before.keys() - {"worker:w1"}:
        assert after[name] == before[name]


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await claim(harness, waiter="w1/a", box="abc")
    await drained(harness)
    before = await everything(harness)

    assert await drained(harness) == 1
    assert await everything(harness) == before


async def test_a_blamed_worker_is_emitted_once_and_stored(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")

    assert await drain(harness.queue._internals.shard, "w1", why="failed 9 tasks") == 1

    found = await everything(harness)
    assert set(found) == {"worker:w1", "workers", "events"}
    assert set(found["worker:w1"]) == {"run:w1/a", "drain:w1/a", "blamed"}
    emitted = [event for entry in found["events"] for event in entry.values()]
    assert [event["event"] for event in emitted] == ["worker.draining", "worker.blamed"]
    assert emitted[1] | {"event": ""} == {"event": "", "worker": "w1", "detail": "failed 9 tasks"}
    before = await everything(harness)
    assert await drain(harness.queue._internals.shard, "w1", why="failed 10 tasks") == 1
    assert await everything(harness) == before
    await leave(harness.queue._internals.shard, "w1", "w1/a")
    ((one,),) = (
        [one for one in await read_fleet(harness.queue._internals.shard) if one.name == "w1"],
    )
    assert one.blamed_ms is not None
    assert one.blamed_ms < 60_000


async def test_a_draining_worker_is_not_blamed(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await drained(harness)
    before = await everything(harness)

    assert await drain(harness.queue._internals.shard, "w1", why="failed 9 tasks") == 1
    assert await everything(harness) == before


async def test_a_worker_that_has_not_claimed_yet_is_marked_too(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")

    assert await drained(harness) == 1

    found = await everything(harness)
    assert set(found) == {"worker:w1", "workers", "events"}
    assert await register_worker(harness, "w1", "w1/a")


async def test_all_runs_under_a_name_are_drained(harness: Harness) -> None:
    for run in ("w1/a", "w1/b"):
        await register_worker(harness, "w1", run)
        await claim(harness, waiter=run, box=run[-1])
    await register_worker(harness, "w2", "w2/a")

    assert await drained(harness) == 2

    found = await everything(harness)
    assert (found["mail:a"], found["mail:b"]) == (["drain w1/a"], ["drain w1/b"])
    assert set(found["worker:w2"]) == {"run:w2/a"}


async def test_a_drained_worker_gets_no_task_and_others_do(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await drained(harness)
    task = await submitted(harness)
    before = await everything(harness)

    refused = await claim(harness, waiter="w1/a", seq=1, start=1)

    assert refused[3:] == []
    after = await everything(harness)
    assert after["lane:1"] == before["lane:1"]
    assert after["ready"] == before["ready"]
    assert after[f"task:{task}"] == before[f"task:{task}"]
    given = await claim(harness, waiter="w2/a", consumer="w2", seq=1)
    assert [grant.task for grant in given[3:]] == [task]


async def test_its_waiting_claim_is_skipped(harness: Harness) -> None:
    await submitted(harness)
    await claim(harness, waiter="gone", consumer="w9")
    await register_worker(harness, "w1", "w1/a")
    await claim(harness, waiter="w1/a", box="a", wait_ms=5000)
    await claim(harness, waiter="w2/a", consumer="w2", box="b", wait_ms=5000)
    await drained(harness)

    task = await submitted(harness)

    found = await everything(harness)
    assert found["mail:a"] == ["drain w1/a"]
    assert found["mail:b"][0].split(" ")[:3] == ["tasks", "1", task]


async def test_a_task_submitted_while_only_it_waits_stays_for_others(harness: Harness) -> None:
    await submitted(harness)
    await claim(harness, waiter="gone", consumer="w9")
    await register_worker(harness, "w1", "w1/a")
    await claim(harness, waiter="w1/a", box="a", wait_ms=5000)
    await drained(harness)

    task = await submitted(harness)
    await answer_all(harness.queue._internals.shard)

    found = await everything(harness)
    assert list(found["lane:1"]) == [task]
    assert found["mail:a"] == ["drain w1/a"]


async def test_a_repeated_claim_still_returns_its_earlier_tasks(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    task = await submitted(harness)
    await claim(harness, waiter="w1/a", start=1)
    await drained(harness)
    before = await harness.dump()

    again = await claim(harness, waiter="w1/a", start=1)

    assert [grant.task for grant in again[3:]] == [task]
    assert await harness.dump() == before


async def test_a_new_run_under_the_same_name_gets_tasks(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await drained(harness)
    await register_worker(harness, "w1", "w1/b")
    task = await submitted(harness)

    given = await claim(harness, waiter="w1/b")

    assert [grant.task for grant in given[3:]] == [task]


async def test_a_manual_claim_under_its_name_is_not_drained(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/a")
    await drained(harness)
    await harness.queue.enqueue("code")

    (lease,) = await harness.queue.claim(worker="w1")

    assert lease.worker == "w1"
