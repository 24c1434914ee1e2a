"""reap: the lease of a silent worker is ended, after a second check; a renewed one is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.errors import LeaseLost
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keyspace import (
    CODE_LANE,
    EXCLUSIVE_LANE,
    LANES,
    W1,
    all_keys,
    mailbox_lines,
    run_move,
    waiting_claim,
)

TERMS: dict[str, Argument] = {
    "idle_ms": 30_000, "archive": 0, "keep": 100, "events": 1000, "tries": 100, "max_lanes": 512,
}  # fmt: skip
TWO_LANES = {"lanes": {CODE_LANE: "1", EXCLUSIVE_LANE: "2", "next": "2", "version": "*"}}
LOST = {
    "attempts": "1", "reclaims": "1", "reason": "heartbeat_timeout", "settled": "reap",
    "def0": "*", "holder": "* * w1", "score": "*", "token": "1:*", "flags": "f",
}  # fmt: skip


def row(
    lease: Lease,
    delay: str = "60000",
    exclusive: str = EXCLUSIVE_LANE,
    blame: tuple[str, str] = ("", ""),
) -> tuple[Argument, ...]:
    reason, record = "heartbeat_timeout", '{"attempt":1}'
    return (lease.id.ulid, lease.token, delay, 1, 1, reason, record, "code", "", *blame, exclusive)


async def silent(harness: Harness, lease: Lease) -> Lease:
    await harness.age(lease, 60)
    return lease


REAPED = {"event": "task.reaped", "task": "a", "detail": "w1"}


def event(name: str, more: str = "") -> list[dict[str, str]]:
    return [REAPED, {"event": name, "task": "a", "detail": f"heartbeat_timeout{more}"}]


async def test_a_claimed_task_becomes_ready_without_an_attempt(harness: Harness) -> None:
    lease = await silent(harness, await harness.claimed())

    reply = await run_move(harness, "task/reap", TERMS, [row(lease)])

    assert reply == ["OK", 0, "READY"]
    assert await all_keys(harness, a=lease.id) == LANES | W1 | {
        "task:a": {
            "def0": "*", "entry": "*", "holder": "* 0 w1", "lane": "1", "score": "*",
            "settled": "reap", "state": "READY", "token": "1:*",
        },
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "events": [REAPED],
        "stats": {"submitted": 1},
    }  # fmt: skip


async def test_a_running_task_waits_for_its_next_attempt_in_its_exclusive_lane(
    harness: Harness,
) -> None:
    lease = await silent(harness, await harness.running())

    reply = await run_move(harness, "task/reap", TERMS, [row(lease)])

    assert reply == ["OK", 0, "RETRYING"]
    assert await all_keys(harness, a=lease.id) == TWO_LANES | W1 | {
        "task:a": LOST
        | {"created": "*", "due": "*", "lane": "2", "state": "RETRYING"}
        | {"owed": f"{lease.token} 0 w1"},
        "ready": ([], {}),
        "delayed": ["a"],
        "failures:a": ['{"attempt":1,"duration_sec":*}'],
        "events": event("task.retrying", " 1 60000"),
        "stats": {"2:RETRYING": 1, "submitted": 1},
    }


async def test_a_task_that_was_lost_too_often_is_dead(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await silent(harness, await harness.running())

    reply = await run_move(harness, "task/reap", TERMS | {"archive": 1}, [row(lease, delay="")])

    assert reply == ["OK", 0, "DEAD_LETTERED"]
    found: dict[str, Any] = await all_keys(harness, a=lease.id)
    life, state, copy = found.pop("outbox")[0]["a"].split(" ", 2)
    assert (life, state, json.loads(copy)["task"]["attempts"]) == ("1", "DEAD_LETTERED", "1")
    assert found == TWO_LANES | W1 | {
        "task:a": LOST
        | {"entry": "*", "finished": "*", "lane": "2", "state": "DEAD_LETTERED"}
        | {"owed": f"{lease.token} 0 w1"},
        "ready": ([], {}),
        "dead": ["a"],
        "failures:a": ['{"attempt":1,"duration_sec":*}'],
        "events": event("task.dead_lettered"),
        "stats": {"2:DEAD_LETTERED": 1, "submitted": 1, "outbox": 1},
    }


async def test_a_task_that_kills_workers_is_a_poison_pill(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())

    reply = await run_move(harness, "task/reap", TERMS, [row(lease, "", "", blame=("w0 w1", "1"))])

    assert reply == ["OK", 0, "DEAD_LETTERED"]
    found = await all_keys(harness, a=lease.id)
    assert found["task:a"] == LOST | {
        "entry": "*", "finished": "*", "lane": "1", "state": "DEAD_LETTERED",
        "failed_by": "w0 w1", "poison": "1", "owed": f"{lease.token} 0 w1",
    }  # fmt: skip
    assert [one["event"] for one in found["events"]] == [
        "task.reaped",
        "task.poisoned",
        "task.dead_lettered",
    ]
    assert (await harness.task(lease.id)).poison_pill


async def test_a_silent_worker_is_lost_and_that_is_emitted_once(
    harness: Harness,
) -> None:
    leases = [await silent(harness, await harness.running()) for _ in range(2)]
    await harness.client.zadd(harness.keys.workers(), {"w1": 1})

    await run_move(harness, "task/reap", TERMS, [row(lease) for lease in leases])

    found = (await all_keys(harness))["events"]
    lost = [one for one in found if one["event"] == "worker.lost"]
    assert lost == [{"event": "worker.lost", "worker": "w1", "detail": "2"}]


async def test_a_worker_with_a_recent_heartbeat_is_not_lost_with_its_lease(
    harness: Harness,
) -> None:
    lease = await silent(harness, await harness.running())

    await run_move(harness, "task/reap", TERMS, [row(lease)])

    assert "worker.lost" not in [one["event"] for one in (await all_keys(harness))["events"]]


async def test_without_an_exclusive_lane_the_task_keeps_its_lane(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())

    await run_move(harness, "task/reap", TERMS, [row(lease, exclusive="")])

    found = await all_keys(harness, a=lease.id)
    assert (found["task:a"]["lane"], found["stats"]["1:RETRYING"]) == ("1", 1)
    assert found["lanes"] == LANES["lanes"]


async def test_where_no_lane_may_be_added_the_task_keeps_its_lane(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())

    reply = await run_move(harness, "task/reap", TERMS | {"max_lanes": 1}, [row(lease)])

    found = await all_keys(harness, a=lease.id)
    assert reply == ["OK", 0, "RETRYING"]
    assert (found["task:a"]["lane"], found["lanes"]) == ("1", LANES["lanes"])


async def test_a_lease_renewed_since_the_decision_is_held(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    decided = row(lease)
    await lease.renew()
    before = await harness.dump()

    assert await run_move(harness, "task/reap", TERMS, [decided]) == ["OK", 0, "HELD"]
    assert await harness.dump() == before
    await lease.complete()


async def test_a_lease_started_since_the_decision_is_held(harness: Harness) -> None:
    lease = await silent(harness, await harness.claimed())
    await lease.start()
    before = await harness.dump()

    assert await run_move(harness, "task/reap", TERMS, [row(lease)]) == ["OK", 0, "HELD"]
    assert await harness.dump() == before


async def test_a_decision_about_an_earlier_claim_changes_nothing(harness: Harness) -> None:
    first = await harness.running()
    await first.release()
    (second,) = await harness.queue.claim(worker="w1", types=["code"])
    await second.start()
    await harness.age(second, 60)
    before = await harness.dump()

    assert await run_move(harness, "task/reap", TERMS, [row(first)]) == ["OK", 0, "HELD"]
    assert await harness.dump() == before


async def test_a_task_without_a_lease_is_not_changed(harness: Harness) -> None:
    lease = await harness.running()
    await lease.complete()
    before = await harness.dump()

    assert await run_move(harness, "task/reap", TERMS, [row(lease)]) == ["OK", 0, "HELD"]
    assert await harness.dump() == before


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    await run_move(harness, "task/reap", TERMS, [row(lease)])
    before = await harness.dump()

    assert await run_move(harness, "task/reap", TERMS, [row(lease)]) == ["OK", 0, "HELD"]
    assert await harness.dump() == before


async def test_a_worker_that_returns_is_fenced(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    await run_move(harness, "task/reap", TERMS, [row(lease)])
    before = await harness.dump()

    for call in (lease.complete, lease.fail, lease.release, lease.validate, lease.start):
        with pytest.raises(LeaseLost):
            await call()

    assert await harness.dump() == before


async def test_a_waiting_claim_gets_the_reaped_task(harness: Harness) -> None:
    lease = await silent(harness, await harness.claimed())
    waiter = await waiting_claim(harness)

    await run_move(harness, "task/reap", TERMS, [row(lease)])

    assert (await mailbox_lines(harness, waiter))[0].startswith(f"tasks 1 {lease.id.ulid} 2:")


async def test_a_lost_task_is_claimed_exclusively(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    await run_move(harness, "task/reap", TERMS, [row(lease)])
    await harness.queue.run_now(lease.id)
    await harness.queue.enqueue_many([harness.queue.call("code", {}, priority=90)] * 3)

    first = await harness.queue.claim(worker="w2", types=["code"], n=4)
    beside = await harness.queue.claim(worker="w2", types=["code"], n=4)
    others = await harness.queue.claim(worker="w3", types=["code"], n=4)

    assert [one.id for one in first] == [lease.id]
    assert beside == []
    assert len(others) == 3
    assert await harness.client.hget(harness.keys.worker("w2"), "alone") == lease.id.ulid.encode()


async def test_a_worker_with_a_lease_does_not_get_a_lost_task(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    await run_move(harness, "task/reap", TERMS, [row(lease)])
    await harness.queue.enqueue("code", {}, priority=0)
    await harness.queue.claim(worker="w2", types=["code"])
    await harness.queue.run_now(lease.id)

    assert await harness.queue.claim(worker="w2", types=["code"]) == []
    (exclusive,) = await harness.queue.claim(worker="w3", types=["code"])
    assert exclusive.id == lease.id


async def test_after_it_its_worker_gets_other_tasks_again(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    await run_move(harness, "task/reap", TERMS, [row(lease)])
    await harness.queue.run_now(lease.id)
    (exclusive,) = await harness.queue.claim(worker="w2", types=["code"])
    await exclusive.start()
    await exclusive.complete()
    await harness.queue.enqueue_many([harness.queue.call("code")] * 2)

    assert len(await harness.queue.claim(worker="w2", types=["code"], n=2)) == 2
    assert (await harness.task(lease.id)).state is State.COMPLETED
