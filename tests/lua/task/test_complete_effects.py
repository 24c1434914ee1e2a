"""complete: its effects on the idempotency key, watchers and dependents of a task."""

from __future__ import annotations

from typing import Any

from rqueue.core.leases import HeldLease, Settled, complete
from tests.harness import Harness
from tests.lua.rows import a_row, claim, everything, held, pttl, submit, submitted, words

WINDOW = 60_000
KEY = {"idem": "key", "window": WINDOW, "unique": "until_done"}


async def ended(harness: Harness, lease: HeldLease) -> None:
    assert await complete(harness.queue._internals.shard, [Settled(*lease, b"")]) == ["OK"]


async def limited(harness: Harness, lease: HeldLease, *, limit: int, tries: int = 100) -> list[Any]:
    """The move's own reply, with bounds of the test's choice."""
    args: dict[str, Any] = {
        "archive": 0,
        "ttl": 1000_000,
        "limit": limit,
        "tries": tries,
        "events": 99,
    }
    reply = await harness.queue._internals.shard.run("task/complete", args, [Settled(*lease, b"")])
    found: list[Any] = words(reply)
    return found


async def test_the_key_is_kept_for_its_window(harness: Harness) -> None:
    lease = await held(harness, more=KEY)

    await ended(harness, lease)

    assert (await everything(harness))["idem:key"] == lease.task
    assert WINDOW - 30_000 < await pttl(harness, "idem:key") <= WINDOW


async def test_a_key_without_a_window_is_released_at_once(harness: Harness) -> None:
    lease = await held(harness, more={**KEY, "window": 0})

    await ended(harness, lease)

    assert "idem:key" not in await everything(harness)


async def test_a_key_that_another_task_holds_now_is_unchanged(harness: Harness) -> None:
    lease = await held(harness, more={**KEY, "unique": "until_start"})
    second = await submitted(harness, more=KEY)

    await ended(harness, lease)

    assert (await everything(harness))["idem:key"] == second
    assert await pttl(harness, "idem:key") == -1


async def test_a_task_with_the_shortest_ttl_is_kept_as_long_as_calls_are_repeated(
    harness: Harness,
) -> None:
    handle = await harness.queue.enqueue("code", {}, result_ttl_sec=0.0)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()

    await ended(harness, lease.held)

    await ended(harness, lease.held)
    assert 10_000 < await pttl(harness, f"task:{handle.id.ulid}") <= 20_000


async def test_the_deadline_is_removed(harness: Harness) -> None:
    lease = await held(harness, more={"deadline": 1, "on_deadline": "fail"})

    await ended(harness, lease)

    assert "deadlines" not in await everything(harness)


async def test_failures_of_earlier_attempts_expire_with_the_task(harness: Harness) -> None:
    await submitted(harness)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", "once")
    await harness.queue.run_now(lease.id)
    (again,) = await harness.queue.claim(worker="w1")
    await again.start()

    await ended(harness, again.held)

    assert 0 < await pttl(harness, f"failures:{again.id.ulid}") <= 86_400_000


async def test_each_watcher_is_notified_once(harness: Harness) -> None:
    lease = await held(harness)
    for box in ("a", "b"):
        args: dict[str, Any] = {"box": box, "keep_ms": 60_000}
        await harness.queue._internals.shard.run("task/watch", args, [(lease.task,)])

    await ended(harness, lease)
    await ended(harness, lease)

    found = await everything(harness)
    assert found["mail:a"] == found["mail:b"] == [f"ended {lease.task}"]
    assert f"watchers:{lease.task}" not in found
    assert 0 < await pttl(harness, "mail:a") <= 120_000


async def test_the_last_dependency_makes_its_dependents_ready(harness: Harness) -> None:
    first, second = [await held(harness) for _ in range(2)]
    row = a_row(options={"parents": [first.task, second.task]})
    await submit(harness, [row])

    await ended(harness, first)

    found = await everything(harness)
    assert found[f"waits:{row.task}"] == {second.task}
    assert found[f"task:{row.task}"]["state"] == "PENDING"
    assert f"dependents:{first.task}" not in found
    await ended(harness, second)
    found = await everything(harness)
    dependent = found[f"task:{row.task}"]
    assert dependent["state"] == "READY"
    assert found["ready"][0] == {dependent["entry"]: {"task": row.task}}
    assert found["lane:1"] == {row.task: float(dependent["score"])}
    assert found["stats"]["1:PENDING"] == "0"
    (event,) = found["events"][0].values()
    assert event == {"event": "task.ready", "task": row.task, "detail": "1"}
    assert set(found) == {
        "ready", "lanes", "lane:1", "stats", "workers", "events", "dags", "unfinished",
        f"dag:{first.task}", f"members:{first.task}", f"task:{row.task}",
        f"task:{first.task}", f"task:{second.task}",
        *(name for name in found if name.startswith("waiter:")),
    }  # fmt: skip


async def test_a_task_still_waits_for_its_time_when_its_dependencies_are_met(
    harness: Harness,
) -> None:
    lease = await held(harness)
    dependent = await submitted(harness, options={"parents": [lease.task], "delay": 60_000})

    await ended(harness, lease)

    found = await everything(harness)
    assert found[f"waits:{dependent}"] == {"@time"}
    assert found[f"task:{dependent}"]["state"] == "PENDING"


async def test_a_dependent_answers_a_waiting_claim(harness: Harness) -> None:
    lease = await held(harness)
    dependent = await submitted(harness, options={"parents": [lease.task]})
    await claim(harness, consumer="w2", wait_ms=5000)

    await ended(harness, lease)

    found = await everything(harness)
    assert found["mail:box"] == [f"tasks 1 {dependent} 1:bits"]
    assert found[f"task:{dependent}"]["state"] == "CLAIMED"
    assert list(found["handoffs"]) == [f"{dependent}:1"]


async def test_more_dependents_than_the_limit_are_left_to_the_promoter(harness: Harness) -> None:
    lease = await held(harness)
    dependents = [a_row(options={"parents": [lease.task]}) for _ in range(5)]
    await submit(harness, dependents)

    assert await limited(harness, lease, limit=2) == ["OK", 1, "OK"]

    found = await everything(harness)
    assert found["unblocking"] == {lease.task}
    assert len(found[f"dependents:{lease.task}"]) == 3
    assert len(found["lane:1"]) == 2
    await harness.promoter.tick()
    found = await everything(harness)
    assert set(found["lane:1"]) == {row.task for row in dependents}
    assert not {"unblocking", f"dependents:{lease.task}", "blocked"} & set(found)


async def test_more_waiting_claims_than_tries_are_left_to_the_next_call(harness: Harness) -> None:
    lease = await held(harness)
    await submit(harness, [a_row(options={"parents": [lease.task]}) for _ in range(2)])
    for name in ("w2", "w3"):
        await claim(harness, waiter=name, consumer=name, box=name, wait_ms=5000)

    assert await limited(harness, lease, limit=9, tries=1) == ["OK", 1, "OK"]

    found = await everything(harness)
    assert ("mail:w2" in found, "mail:w3" in found) == (True, False)


async def test_a_repeated_call_unblocks_nothing_more(harness: Harness) -> None:
    lease = await held(harness)
    await submit(harness, [a_row(options={"parents": [lease.task]}) for _ in range(5)])
    await limited(harness, lease, limit=2)
    before = await harness.dump()

    assert await limited(harness, lease, limit=2) == ["OK", 0, "OK"]

    assert await harness.dump() == before
