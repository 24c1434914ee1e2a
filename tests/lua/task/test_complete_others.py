"""complete: what the end of a task means for its key, who watches and who waits."""

from __future__ import annotations

from typing import Any

from rqueue.store.leases import Held, Settled, complete
from tests.house import House
from tests.lua.rows import a_row, claim, everything, held, pttl, submit, submitted, words

WINDOW = 60_000
KEY = {"idem": "key", "window": WINDOW, "unique": "until_done"}


async def ended(house: House, lease: Held) -> None:
    assert await complete(house.queue.shard, [Settled(*lease, b"")]) == ["OK"]


async def limited(house: House, lease: Held, *, limit: int, tries: int = 100) -> list[Any]:
    """The script's own reply, with bounds of the test's choice."""
    args: dict[str, Any] = {
        "archive": 0,
        "ttl": 1000_000,
        "limit": limit,
        "tries": tries,
        "events": 99,
    }
    reply = await house.queue.shard.run("task/complete", args, [Settled(*lease, b"")])
    found: list[Any] = words(reply)
    return found


async def test_the_key_is_kept_for_its_window(house: House) -> None:
    lease = await held(house, more=KEY)

    await ended(house, lease)

    assert (await everything(house))["idem:key"] == lease.task
    assert WINDOW - 30_000 < await pttl(house, "idem:key") <= WINDOW


async def test_a_key_without_a_window_goes_at_once(house: House) -> None:
    lease = await held(house, more={**KEY, "window": 0})

    await ended(house, lease)

    assert "idem:key" not in await everything(house)


async def test_a_key_that_another_task_took_over_is_left_alone(house: House) -> None:
    lease = await held(house, more={**KEY, "unique": "until_start"})
    second = await submitted(house, more=KEY)

    await ended(house, lease)

    assert (await everything(house))["idem:key"] == second
    assert await pttl(house, "idem:key") == -1


async def test_a_task_that_wants_no_keeping_is_kept_until_nothing_is_sent_again(
    house: House,
) -> None:
    handle = await house.queue.enqueue("code", {}, result_ttl_sec=0.0)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()

    await ended(house, lease.held)

    await ended(house, lease.held)
    assert 10_000 < await pttl(house, f"task:{handle.id.ulid}") <= 20_000


async def test_the_deadline_is_forgotten(house: House) -> None:
    lease = await held(house, more={"deadline": 1, "on_deadline": "fail"})

    await ended(house, lease)

    assert "deadlines" not in await everything(house)


async def test_failures_of_earlier_attempts_expire_with_the_task(house: House) -> None:
    await submitted(house)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", "once")
    await house.queue.run_now(lease.id)
    (again,) = await house.queue.claim(worker="w1")
    await again.start()

    await ended(house, again.held)

    assert 0 < await pttl(house, f"failures:{again.id.ulid}") <= 86_400_000


async def test_everyone_who_watches_is_mailed_once(house: House) -> None:
    lease = await held(house)
    for box in ("a", "b"):
        args: dict[str, Any] = {"box": box, "keep_ms": 60_000}
        await house.queue.shard.run("task/watch", args, [(lease.task,)])

    await ended(house, lease)
    await ended(house, lease)

    found = await everything(house)
    assert found["mail:a"] == found["mail:b"] == [f"ended {lease.task}"]
    assert f"watchers:{lease.task}" not in found
    assert 0 < await pttl(house, "mail:a") <= 120_000


async def test_the_last_parent_makes_its_dependents_ready(house: House) -> None:
    first, second = [await held(house) for _ in range(2)]
    row = a_row(ask={"parents": [first.task, second.task]})
    await submit(house, [row])

    await ended(house, first)

    found = await everything(house)
    assert found[f"waits:{row.task}"] == {second.task}
    assert found[f"task:{row.task}"]["state"] == "PENDING"
    assert f"dependents:{first.task}" not in found
    await ended(house, second)
    found = await everything(house)
    child = found[f"task:{row.task}"]
    assert child["state"] == "READY"
    assert found["ready"][0] == {child["entry"]: {"task": row.task}}
    assert found["lane:1"] == {row.task: float(child["score"])}
    assert found["stats"]["1:PENDING"] == "0"
    (event,) = found["events"][0].values()
    assert event == {"event": "task.ready", "task": row.task, "detail": "1"}
    assert set(found) == {
        "ready", "lanes", "lane:1", "stats", "workers", "events", "dags", "unfinished",
        f"dag:{first.task}", f"members:{first.task}", f"task:{row.task}",
        f"task:{first.task}", f"task:{second.task}",
        *(name for name in found if name.startswith("waiter:")),
    }  # fmt: skip


async def test_time_is_still_waited_for_when_the_parents_are_met(house: House) -> None:
    lease = await held(house)
    child = await submitted(house, ask={"parents": [lease.task], "delay": 60_000})

    await ended(house, lease)

    found = await everything(house)
    assert found[f"waits:{child}"] == {"@time"}
    assert found[f"task:{child}"]["state"] == "PENDING"


async def test_a_dependent_answers_a_claim_that_waits(house: House) -> None:
    lease = await held(house)
    child = await submitted(house, ask={"parents": [lease.task]})
    await claim(house, consumer="w2", park_ms=5000)

    await ended(house, lease)

    found = await everything(house)
    assert found["mail:box"] == [f"tasks 1 {child} 1:bits"]
    assert found[f"task:{child}"]["state"] == "CLAIMED"
    assert list(found["handoffs"]) == [f"{child}:1"]


async def test_more_dependents_than_the_limit_are_left_to_the_promoter(house: House) -> None:
    lease = await held(house)
    children = [a_row(ask={"parents": [lease.task]}) for _ in range(5)]
    await submit(house, children)

    assert await limited(house, lease, limit=2) == ["OK", 1, "OK"]

    found = await everything(house)
    assert found["unblocking"] == {lease.task}
    assert len(found[f"dependents:{lease.task}"]) == 3
    assert len(found["lane:1"]) == 2
    await house.promoter.tick()
    found = await everything(house)
    assert set(found["lane:1"]) == {row.task for row in children}
    assert not {"unblocking", f"dependents:{lease.task}", "blocked"} & set(found)


async def test_more_waiting_claims_than_tries_are_told_of(house: House) -> None:
    lease = await held(house)
    await submit(house, [a_row(ask={"parents": [lease.task]}) for _ in range(2)])
    for name in ("w2", "w3"):
        await claim(house, waiter=name, consumer=name, box=name, park_ms=5000)

    assert await limited(house, lease, limit=9, tries=1) == ["OK", 1, "OK"]

    found = await everything(house)
    assert ("mail:w2" in found, "mail:w3" in found) == (True, False)


async def test_sent_again_it_unblocks_nothing_more(house: House) -> None:
    lease = await held(house)
    await submit(house, [a_row(ask={"parents": [lease.task]}) for _ in range(5)])
    await limited(house, lease, limit=2)
    before = await house.dump()

    assert await limited(house, lease, limit=2) == ["OK", 0, "OK"]

    assert await house.dump() == before
