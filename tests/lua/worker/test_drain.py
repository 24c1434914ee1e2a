"""drain: a worker gets nothing more, whatever it asks for or waits for; who comes after it does."""

from __future__ import annotations

import pytest

from rqueue.core.counts import answer_all
from rqueue.core.workers import drain, leave, read_fleet
from rqueue.errors import WorkerNotFound
from tests.harness import Harness
from tests.lua.rows import claim, everything, submitted
from tests.lua.worker.crew import age, enrol


async def drained(harness: Harness, worker: str = "w1") -> int:
    return await drain(harness.queue._internals.shard, worker)


async def test_one_that_nobody_knows_or_that_is_gone_is_an_error(harness: Harness) -> None:
    await enrol(harness, "left", "left/a")
    await leave(harness.queue._internals.shard, "left", "left/a")
    await enrol(harness, "silent", "silent/a")
    await age(harness, "silent", "silent/a", by_ms=30_001)
    await harness.queue.claim(worker="by-hand")
    before = await harness.dump()

    for name in ("nobody", "left", "silent", "by-hand"):
        with pytest.raises(WorkerNotFound) as raised:
            await drained(harness, name)
        assert raised.value.worker == name

    assert await harness.dump() == before


async def test_a_parked_worker_is_told_by_mail(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
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


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await claim(harness, waiter="w1/a", box="abc")
    await drained(harness)
    before = await everything(harness)

    assert await drained(harness) == 1
    assert await everything(harness) == before


async def test_one_that_is_blamed_is_told_of_once_and_remembered(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")

    assert await drain(harness.queue._internals.shard, "w1", why="failed 9 tasks") == 1

    found = await everything(harness)
    assert set(found) == {"worker:w1", "workers", "events"}
    assert set(found["worker:w1"]) == {"run:w1/a", "drain:w1/a", "blamed"}
    told = [event for entry in found["events"] for event in entry.values()]
    assert [event["event"] for event in told] == ["worker.draining", "worker.blamed"]
    assert told[1] | {"event": ""} == {"event": "", "worker": "w1", "detail": "failed 9 tasks"}
    before = await everything(harness)
    assert await drain(harness.queue._internals.shard, "w1", why="failed 10 tasks") == 1
    assert await everything(harness) == before
    await leave(harness.queue._internals.shard, "w1", "w1/a")
    ((one,),) = (
        [one for one in await read_fleet(harness.queue._internals.shard) if one.name == "w1"],
    )
    assert one.blamed_ms is not None
    assert one.blamed_ms < 60_000


async def test_one_that_goes_already_is_not_blamed(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await drained(harness)
    before = await everything(harness)

    assert await drain(harness.queue._internals.shard, "w1", why="failed 9 tasks") == 1
    assert await everything(harness) == before


async def test_one_that_has_not_claimed_yet_is_marked_all_the_same(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")

    assert await drained(harness) == 1

    found = await everything(harness)
    assert set(found) == {"worker:w1", "workers", "events"}
    assert await enrol(harness, "w1", "w1/a")


async def test_all_that_run_under_a_name_are_meant(harness: Harness) -> None:
    for run in ("w1/a", "w1/b"):
        await enrol(harness, "w1", run)
        await claim(harness, waiter=run, box=run[-1])
    await enrol(harness, "w2", "w2/a")

    assert await drained(harness) == 2

    found = await everything(harness)
    assert (found["mail:a"], found["mail:b"]) == (["drain w1/a"], ["drain w1/b"])
    assert set(found["worker:w2"]) == {"run:w2/a"}


async def test_a_drained_worker_is_given_nothing_and_others_are(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
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


async def test_its_parked_claim_is_passed_by(harness: Harness) -> None:
    await submitted(harness)
    await claim(harness, waiter="gone", consumer="w9")
    await enrol(harness, "w1", "w1/a")
    await claim(harness, waiter="w1/a", box="a", wait_ms=5000)
    await claim(harness, waiter="w2/a", consumer="w2", box="b", wait_ms=5000)
    await drained(harness)

    task = await submitted(harness)

    found = await everything(harness)
    assert found["mail:a"] == ["drain w1/a"]
    assert found["mail:b"][0].split(" ")[:3] == ["tasks", "1", task]


async def test_what_comes_while_it_alone_waits_stays_for_others(harness: Harness) -> None:
    await submitted(harness)
    await claim(harness, waiter="gone", consumer="w9")
    await enrol(harness, "w1", "w1/a")
    await claim(harness, waiter="w1/a", box="a", wait_ms=5000)
    await drained(harness)

    task = await submitted(harness)
    await answer_all(harness.queue._internals.shard)

    found = await everything(harness)
    assert list(found["lane:1"]) == [task]
    assert found["mail:a"] == ["drain w1/a"]


async def test_what_it_was_given_before_is_told_again(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    task = await submitted(harness)
    await claim(harness, waiter="w1/a", start=1)
    await drained(harness)
    before = await harness.dump()

    again = await claim(harness, waiter="w1/a", start=1)

    assert [grant.task for grant in again[3:]] == [task]
    assert await harness.dump() == before


async def test_one_that_starts_anew_under_the_same_name_is_given_work(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await drained(harness)
    await enrol(harness, "w1", "w1/b")
    task = await submitted(harness)

    given = await claim(harness, waiter="w1/b")

    assert [grant.task for grant in given[3:]] == [task]


async def test_a_claim_by_hand_under_its_name_is_not_meant(harness: Harness) -> None:
    await enrol(harness, "w1", "w1/a")
    await drained(harness)
    await harness.queue.enqueue("code")

    (lease,) = await harness.queue.claim(worker="w1")

    assert lease.worker == "w1"
