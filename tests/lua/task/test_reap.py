"""reap: a silent worker's lease is taken, after a second look; a renewed one is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.errors import LeaseLost
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.task.keys_after import (
    ALONE_LANE,
    CODE_LANE,
    LANES,
    W1,
    afterwards,
    ask,
    mail,
    parked,
)

TERMS: dict[str, Argument] = {
    "idle_ms": 30_000, "archive": 0, "keep": 100, "events": 1000, "tries": 100, "max_lanes": 512,
}  # fmt: skip
TWO_LANES = {"lanes": {CODE_LANE: "1", ALONE_LANE: "2", "next": "2", "version": "*"}}
LOST = {
    "attempts": "1", "reclaims": "1", "reason": "heartbeat_timeout", "settled": "reap",
    "def0": "*", "holder": "* * w1", "score": "*", "token": "1:*", "flags": "f",
}  # fmt: skip


def row(
    lease: Lease,
    delay: str = "60000",
    exclusive: str = ALONE_LANE,
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


async def test_a_claim_that_never_started_comes_back_free(harness: Harness) -> None:
    lease = await silent(harness, await harness.claimed())

    said = await ask(harness, "task/reap", TERMS, [row(lease)])

    assert said == ["OK", 0, "READY"]
    assert await afterwards(harness, a=lease.id) == LANES | W1 | {
        "task:a": {
            "def0": "*", "entry": "*", "holder": "* 0 w1", "lane": "1", "score": "*",
            "settled": "reap", "state": "READY", "token": "1:*",
        },
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "events": [REAPED],
        "stats": {"submitted": 1},
    }  # fmt: skip


async def test_a_started_one_waits_for_its_next_attempt_in_the_lane_of_its_own(
    harness: Harness,
) -> None:
    lease = await silent(harness, await harness.running())

    said = await ask(harness, "task/reap", TERMS, [row(lease)])

    assert said == ["OK", 0, "RETRYING"]
    assert await afterwards(harness, a=lease.id) == TWO_LANES | W1 | {
        "task:a": LOST
        | {"created": "*", "due": "*", "lane": "2", "state": "RETRYING"}
        | {"owed": f"{lease.token} 0 w1"},
        "ready": ([], {}),
        "delayed": ["a"],
        "failures:a": ['{"attempt":1,"duration_sec":*}'],
        "events": event("task.retrying", " 1 60000"),
        "stats": {"2:RETRYING": 1, "submitted": 1},
    }


async def test_one_that_was_lost_too_often_is_dead(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await silent(harness, await harness.running())

    said = await ask(harness, "task/reap", TERMS | {"archive": 1}, [row(lease, delay="")])

    assert said == ["OK", 0, "DEAD_LETTERED"]
    found: dict[str, Any] = await afterwards(harness, a=lease.id)
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


async def test_a_killer_of_workers_is_called_a_poison_pill(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())

    said = await ask(harness, "task/reap", TERMS, [row(lease, "", "", blame=("w0 w1", "1"))])

    assert said == ["OK", 0, "DEAD_LETTERED"]
    found = await afterwards(harness, a=lease.id)
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


async def test_a_worker_that_is_heard_of_no_more_is_lost_and_that_is_told_once(
    harness: Harness,
) -> None:
    leases = [await silent(harness, await harness.running()) for _ in range(2)]
    await harness.client.zadd(harness.keys.workers(), {"w1": 1})

    await ask(harness, "task/reap", TERMS, [row(lease) for lease in leases])

    found = (await afterwards(harness))["events"]
    lost = [one for one in found if one["event"] == "worker.lost"]
    assert lost == [{"event": "worker.lost", "worker": "w1", "detail": "2"}]


async def test_a_worker_that_is_heard_of_is_not_lost_with_its_lease(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())

    await ask(harness, "task/reap", TERMS, [row(lease)])

    assert "worker.lost" not in [one["event"] for one in (await afterwards(harness))["events"]]


async def test_without_a_lane_of_its_own_it_stays_where_it_was(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())

    await ask(harness, "task/reap", TERMS, [row(lease, exclusive="")])

    found = await afterwards(harness, a=lease.id)
    assert (found["task:a"]["lane"], found["stats"]["1:RETRYING"]) == ("1", 1)
    assert found["lanes"] == LANES["lanes"]


async def test_where_no_more_lanes_may_be_made_it_stays_where_it_was(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())

    said = await ask(harness, "task/reap", TERMS | {"max_lanes": 1}, [row(lease)])

    found = await afterwards(harness, a=lease.id)
    assert said == ["OK", 0, "RETRYING"]
    assert (found["task:a"]["lane"], found["lanes"]) == ("1", LANES["lanes"])


async def test_one_renewed_since_the_decision_is_held(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    decided = row(lease)
    await lease.renew()
    before = await harness.dump()

    assert await ask(harness, "task/reap", TERMS, [decided]) == ["OK", 0, "HELD"]
    assert await harness.dump() == before
    await lease.complete()


async def test_one_started_since_the_decision_is_held(harness: Harness) -> None:
    lease = await silent(harness, await harness.claimed())
    await lease.start()
    before = await harness.dump()

    assert await ask(harness, "task/reap", TERMS, [row(lease)]) == ["OK", 0, "HELD"]
    assert await harness.dump() == before


async def test_a_decision_about_an_earlier_claim_changes_nothing(harness: Harness) -> None:
    first = await harness.running()
    await first.release()
    (second,) = await harness.queue.claim(worker="w1", types=["code"])
    await second.start()
    await harness.age(second, 60)
    before = await harness.dump()

    assert await ask(harness, "task/reap", TERMS, [row(first)]) == ["OK", 0, "HELD"]
    assert await harness.dump() == before


async def test_one_that_nobody_holds_is_left_alone(harness: Harness) -> None:
    lease = await harness.running()
    await lease.complete()
    before = await harness.dump()

    assert await ask(harness, "task/reap", TERMS, [row(lease)]) == ["OK", 0, "HELD"]
    assert await harness.dump() == before


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    await ask(harness, "task/reap", TERMS, [row(lease)])
    before = await harness.dump()

    assert await ask(harness, "task/reap", TERMS, [row(lease)]) == ["OK", 0, "HELD"]
    assert await harness.dump() == before


async def test_the_worker_that_comes_back_is_fenced(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    await ask(harness, "task/reap", TERMS, [row(lease)])
    before = await harness.dump()

    for call in (lease.complete, lease.fail, lease.release, lease.validate, lease.start):
        with pytest.raises(LeaseLost):
            await call()

    assert await harness.dump() == before


async def test_a_claim_that_waits_gets_what_comes_back(harness: Harness) -> None:
    lease = await silent(harness, await harness.claimed())
    waiter = await parked(harness)

    await ask(harness, "task/reap", TERMS, [row(lease)])

    assert (await mail(harness, waiter))[0].startswith(f"tasks 1 {lease.id.ulid} 2:")


async def test_a_lost_task_is_claimed_alone(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    await ask(harness, "task/reap", TERMS, [row(lease)])
    await harness.queue.run_now(lease.id)
    await harness.queue.enqueue_many([harness.queue.call("code", {}, priority=90)] * 3)

    first = await harness.queue.claim(worker="w2", types=["code"], n=4)
    beside = await harness.queue.claim(worker="w2", types=["code"], n=4)
    others = await harness.queue.claim(worker="w3", types=["code"], n=4)

    assert [one.id for one in first] == [lease.id]
    assert beside == []
    assert len(others) == 3
    assert await harness.client.hget(harness.keys.worker("w2"), "alone") == lease.id.ulid.encode()


async def test_who_has_something_in_hand_is_not_given_a_lost_task(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    await ask(harness, "task/reap", TERMS, [row(lease)])
    await harness.queue.enqueue("code", {}, priority=0)
    await harness.queue.claim(worker="w2", types=["code"])
    await harness.queue.run_now(lease.id)

    assert await harness.queue.claim(worker="w2", types=["code"]) == []
    (exclusive,) = await harness.queue.claim(worker="w3", types=["code"])
    assert exclusive.id == lease.id


async def test_after_it_its_worker_is_given_others_again(harness: Harness) -> None:
    lease = await silent(harness, await harness.running())
    await ask(harness, "task/reap", TERMS, [row(lease)])
    await harness.queue.run_now(lease.id)
    (exclusive,) = await harness.queue.claim(worker="w2", types=["code"])
    await exclusive.start()
    await exclusive.complete()
    await harness.queue.enqueue_many([harness.queue.call("code")] * 2)

    assert len(await harness.queue.claim(worker="w2", types=["code"], n=2)) == 2
    assert (await harness.task(lease.id)).state is State.COMPLETED
