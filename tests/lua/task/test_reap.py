"""reap: a silent worker's lease is taken, after a second look; a renewed one is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.errors import LeaseLost
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import (
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
    alone: str = ALONE_LANE,
    blame: tuple[str, str] = ("", ""),
) -> tuple[Argument, ...]:
    reason, record = "heartbeat_timeout", '{"attempt":1}'
    return (lease.id.ulid, lease.token, delay, 1, 1, reason, record, "code", "", *blame, alone)


async def silent(house: House, lease: Lease) -> Lease:
    await house.age(lease, 60)
    return lease


REAPED = {"event": "task.reaped", "task": "a", "detail": "w1"}


def event(name: str, more: str = "") -> list[dict[str, str]]:
    return [REAPED, {"event": name, "task": "a", "detail": f"heartbeat_timeout{more}"}]


async def test_a_claim_that_never_started_comes_back_free(house: House) -> None:
    lease = await silent(house, await house.claimed())

    said = await ask(house, "task/reap", TERMS, [row(lease)])

    assert said == ["OK", 0, "READY"]
    assert await afterwards(house, a=lease.id) == LANES | W1 | {
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
    house: House,
) -> None:
    lease = await silent(house, await house.running())

    said = await ask(house, "task/reap", TERMS, [row(lease)])

    assert said == ["OK", 0, "RETRYING"]
    assert await afterwards(house, a=lease.id) == TWO_LANES | W1 | {
        "task:a": LOST
        | {"created": "*", "due": "*", "lane": "2", "state": "RETRYING"}
        | {"owed": f"{lease.token} 0 w1"},
        "ready": ([], {}),
        "delayed": ["a"],
        "failures:a": ['{"attempt":1,"duration_sec":*}'],
        "events": event("task.retrying", " 1 60000"),
        "stats": {"2:RETRYING": 1, "submitted": 1},
    }


async def test_one_that_was_lost_too_often_is_dead(archived_house: House) -> None:
    house = archived_house
    lease = await silent(house, await house.running())

    said = await ask(house, "task/reap", TERMS | {"archive": 1}, [row(lease, delay="")])

    assert said == ["OK", 0, "DEAD_LETTERED"]
    found: dict[str, Any] = await afterwards(house, a=lease.id)
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


async def test_a_killer_of_workers_is_called_a_poison_pill(house: House) -> None:
    lease = await silent(house, await house.running())

    said = await ask(house, "task/reap", TERMS, [row(lease, "", "", blame=("w0 w1", "1"))])

    assert said == ["OK", 0, "DEAD_LETTERED"]
    found = await afterwards(house, a=lease.id)
    assert found["task:a"] == LOST | {
        "entry": "*", "finished": "*", "lane": "1", "state": "DEAD_LETTERED",
        "failed_by": "w0 w1", "poison": "1", "owed": f"{lease.token} 0 w1",
    }  # fmt: skip
    assert [one["event"] for one in found["events"]] == [
        "task.reaped",
        "task.poisoned",
        "task.dead_lettered",
    ]
    assert (await house.task(lease.id)).poison_pill


async def test_a_worker_that_is_heard_of_no_more_is_lost_and_that_is_told_once(
    house: House,
) -> None:
    leases = [await silent(house, await house.running()) for _ in range(2)]
    await house.client.zadd(house.keys.workers(), {"w1": 1})

    await ask(house, "task/reap", TERMS, [row(lease) for lease in leases])

    found = (await afterwards(house))["events"]
    lost = [one for one in found if one["event"] == "worker.lost"]
    assert lost == [{"event": "worker.lost", "worker": "w1", "detail": "2"}]


async def test_a_worker_that_is_heard_of_is_not_lost_with_its_lease(house: House) -> None:
    lease = await silent(house, await house.running())

    await ask(house, "task/reap", TERMS, [row(lease)])

    assert "worker.lost" not in [one["event"] for one in (await afterwards(house))["events"]]


async def test_without_a_lane_of_its_own_it_stays_where_it_was(house: House) -> None:
    lease = await silent(house, await house.running())

    await ask(house, "task/reap", TERMS, [row(lease, alone="")])

    found = await afterwards(house, a=lease.id)
    assert (found["task:a"]["lane"], found["stats"]["1:RETRYING"]) == ("1", 1)
    assert found["lanes"] == LANES["lanes"]


async def test_where_no_more_lanes_may_be_made_it_stays_where_it_was(house: House) -> None:
    lease = await silent(house, await house.running())

    said = await ask(house, "task/reap", TERMS | {"max_lanes": 1}, [row(lease)])

    found = await afterwards(house, a=lease.id)
    assert said == ["OK", 0, "RETRYING"]
    assert (found["task:a"]["lane"], found["lanes"]) == ("1", LANES["lanes"])


async def test_one_renewed_since_the_decision_is_held(house: House) -> None:
    lease = await silent(house, await house.running())
    decided = row(lease)
    await lease.renew()
    before = await house.dump()

    assert await ask(house, "task/reap", TERMS, [decided]) == ["OK", 0, "HELD"]
    assert await house.dump() == before
    await lease.complete()


async def test_one_started_since_the_decision_is_held(house: House) -> None:
    lease = await silent(house, await house.claimed())
    await lease.start()
    before = await house.dump()

    assert await ask(house, "task/reap", TERMS, [row(lease)]) == ["OK", 0, "HELD"]
    assert await house.dump() == before


async def test_a_decision_about_an_earlier_claim_changes_nothing(house: House) -> None:
    first = await house.running()
    await first.release()
    (second,) = await house.queue.claim(worker="w1", types=["code"])
    await second.start()
    await house.age(second, 60)
    before = await house.dump()

    assert await ask(house, "task/reap", TERMS, [row(first)]) == ["OK", 0, "HELD"]
    assert await house.dump() == before


async def test_one_that_nobody_holds_is_left_alone(house: House) -> None:
    lease = await house.running()
    await lease.complete()
    before = await house.dump()

    assert await ask(house, "task/reap", TERMS, [row(lease)]) == ["OK", 0, "HELD"]
    assert await house.dump() == before


async def test_sent_again_it_changes_nothing(house: House) -> None:
    lease = await silent(house, await house.running())
    await ask(house, "task/reap", TERMS, [row(lease)])
    before = await house.dump()

    assert await ask(house, "task/reap", TERMS, [row(lease)]) == ["OK", 0, "HELD"]
    assert await house.dump() == before


async def test_the_worker_that_comes_back_is_fenced(house: House) -> None:
    lease = await silent(house, await house.running())
    await ask(house, "task/reap", TERMS, [row(lease)])
    before = await house.dump()

    for call in (lease.complete, lease.fail, lease.release, lease.validate, lease.start):
        with pytest.raises(LeaseLost):
            await call()

    assert await house.dump() == before


async def test_a_claim_that_waits_gets_what_comes_back(house: House) -> None:
    lease = await silent(house, await house.claimed())
    waiter = await parked(house)

    await ask(house, "task/reap", TERMS, [row(lease)])

    assert (await mail(house, waiter))[0].startswith(f"tasks 1 {lease.id.ulid} 2:")


async def test_a_lost_task_is_claimed_alone(house: House) -> None:
    lease = await silent(house, await house.running())
    await ask(house, "task/reap", TERMS, [row(lease)])
    await house.queue.run_now(lease.id)
    await house.queue.enqueue_many([house.queue.call("code", {}, priority=90)] * 3)

    first = await house.queue.claim(worker="w2", types=["code"], n=4)
    beside = await house.queue.claim(worker="w2", types=["code"], n=4)
    others = await house.queue.claim(worker="w3", types=["code"], n=4)

    assert [one.id for one in first] == [lease.id]
    assert beside == []
    assert len(others) == 3
    assert await house.client.hget(house.keys.worker("w2"), "alone") == lease.id.ulid.encode()


async def test_who_has_something_in_hand_is_not_given_a_lost_task(house: House) -> None:
    lease = await silent(house, await house.running())
    await ask(house, "task/reap", TERMS, [row(lease)])
    await house.queue.enqueue("code", {}, priority=0)
    await house.queue.claim(worker="w2", types=["code"])
    await house.queue.run_now(lease.id)

    assert await house.queue.claim(worker="w2", types=["code"]) == []
    (alone,) = await house.queue.claim(worker="w3", types=["code"])
    assert alone.id == lease.id


async def test_after_it_its_worker_is_given_others_again(house: House) -> None:
    lease = await silent(house, await house.running())
    await ask(house, "task/reap", TERMS, [row(lease)])
    await house.queue.run_now(lease.id)
    (alone,) = await house.queue.claim(worker="w2", types=["code"])
    await alone.start()
    await alone.complete()
    await house.queue.enqueue_many([house.queue.call("code")] * 2)

    assert len(await house.queue.claim(worker="w2", types=["code"], n=2)) == 2
    assert (await house.task(lease.id)).state is State.COMPLETED
