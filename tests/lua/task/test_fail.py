"""fail: an attempt ends as decided, again after a delay or dead, and only by its holder."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.core.submit import submit
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.task.keyspace import LANES, W1, all_keys, expiring_keys, run_move

TERMS: dict[str, Argument] = {"archive": 0, "keep": 100, "events": 1000, **ANSWER_LIMITS}
HELD = {"def0": "*", "holder": "* * w1", "lane": "1", "score": "*", "token": "1:*"}
FAILED = {"attempts": "1", "reclaims": "0", "reason": "error", "settled": "fail 1:*"}
AGAIN = HELD | FAILED | {"created": "*", "due": "*", "flags": "f", "state": "RETRYING"}
DEAD = HELD | FAILED | {"entry": "*", "finished": "*", "flags": "f", "state": "DEAD_LETTERED"}


def row(
    lease: Lease,
    delay: str = "60000",
    record: str = '{"attempt":1}',
    *,
    failed_by: str = "",
    poison: str = "",
    owes: str = "",
) -> tuple[Argument, ...]:
    """One attempt that failed; no delay means dead."""
    reply = failed_by, poison, owes
    return (lease.id.ulid, lease.token, delay, 1, 0, "error", record, "code", "", *reply)


def event(name: str, detail: str = "error") -> dict[str, str]:
    return {"event": name, "task": "a", "detail": detail}


async def test_a_failed_attempt_waits_for_its_next_one(harness: Harness) -> None:
    lease = await harness.running()

    reply = await run_move(harness, "task/fail", TERMS, [row(lease)])

    assert reply == ["OK", 0, "RETRYING"]
    assert await all_keys(harness, a=lease.id) == LANES | W1 | {
        "task:a": AGAIN,
        "ready": ([], {}),
        "delayed": ["a"],
        "failures:a": ['{"attempt":1,"duration_sec":*}'],
        "events": [event("task.retrying", "error 1 60000")],
        "stats": {"1:RETRYING": 1, "submitted": 1},
    }
    assert await expiring_keys(harness, a=lease.id) == set()


async def test_a_dead_task_is_listed_and_stays(harness: Harness) -> None:
    lease = await harness.running()

    reply = await run_move(harness, "task/fail", TERMS, [row(lease, delay="")])

    assert reply == ["OK", 0, "DEAD_LETTERED"]
    assert await all_keys(harness, a=lease.id) == LANES | W1 | {
        "task:a": DEAD,
        "ready": ([], {}),
        "dead": ["a"],
        "failures:a": ['{"attempt":1,"duration_sec":*}'],
        "events": [event("task.dead_lettered")],
        "stats": {"1:DEAD_LETTERED": 1, "submitted": 1},
    }
    assert await expiring_keys(harness, a=lease.id) == set()


async def test_workers_that_failed_a_task_are_stored_and_returned_to_the_next_holder(
    harness: Harness,
) -> None:
    lease = await harness.running()
    await run_move(harness, "task/fail", TERMS, [row(lease, failed_by="w1 ?w2")])
    await harness.make_due(lease.id)
    await harness.promoter.tick()
    (second,) = await harness.queue.claim(worker="w3", types=["code"])
    assert second.grant.failed_by == second.task.failed_by == ("w1", "?w2")
    assert (await harness.task(lease.id)).failed_by == ("w1", "?w2")

    await run_move(harness, "task/fail", TERMS, [row(second)])

    assert (await all_keys(harness, a=lease.id))["task:a"]["failed_by"] == "w1 ?w2"


async def test_a_poison_pill_is_a_dead_task_with_that_mark(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.running()
    pill = row(lease, delay="", failed_by="w1 w2", poison="1")

    reply = await run_move(harness, "task/fail", TERMS | {"archive": 1}, [pill])

    assert reply == ["OK", 0, "DEAD_LETTERED"]
    found = await all_keys(harness, a=lease.id)
    ((value,),) = [list(entry.values()) for entry in found.pop("outbox")]
    archived = json.loads(value.split(" ", 2)[2])["task"]
    assert (archived["poison"], archived["failed_by"]) == ("1", "w1 w2")
    assert found == LANES | W1 | {
        "task:a": DEAD | {"failed_by": "w1 w2", "poison": "1"},
        "ready": ([], {}),
        "dead": ["a"],
        "failures:a": ['{"attempt":1,"duration_sec":*}'],
        "events": [
            {"event": "task.poisoned", "task": "a", "detail": "w1 w2"},
            event("task.dead_lettered"),
        ],
        "stats": {"1:DEAD_LETTERED": 1, "submitted": 1, "outbox": 1},
    }
    assert (await harness.task(lease.id)).poison_pill
    before = await harness.dump()
    assert await run_move(harness, "task/fail", TERMS | {"archive": 1}, [pill]) == reply
    assert await harness.dump() == before


async def test_a_new_life_has_no_failed_workers(harness: Harness) -> None:
    lease = await harness.running()
    pill = row(lease, delay="", failed_by="w1 w2", poison="1")
    await run_move(harness, "task/fail", TERMS, [pill])

    await harness.queue.dead.retry(lease.id)

    found = await harness.task(lease.id)
    assert (found.poison_pill, found.failed_by, found.attempts) == (False, (), 0)
    assert len(found.failure_history) == 1
    kept = await harness.client.hkeys(harness.keys.task(lease.id.ulid))
    assert not {b"failed_by", b"poison"}.intersection(kept)


async def test_a_dead_task_goes_to_the_archive_with_a_snapshot(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.running(tags=["t"])

    await run_move(harness, "task/fail", TERMS | {"archive": 1}, [row(lease, delay="")])

    found = await all_keys(harness, a=lease.id)
    assert set(found) == {
        *LANES, *W1, "task:a", "ready", "dead", "tag:t", "failures:a", "events", "stats", "outbox",
    }  # fmt: skip
    assert found["tag:t"] == ["a"]
    assert found["stats"] == {"1:DEAD_LETTERED": 1, "submitted": 1, "outbox": 1}
    ((value,),) = [list(entry.values()) for entry in found["outbox"]]
    life, state, copy = value.split(" ", 2)
    snapshot: dict[str, Any] = json.loads(copy)
    kept = await harness.client.hgetall(harness.keys.task(lease.id.ulid))
    assert (life, state) == ("1", "DEAD_LETTERED")
    assert snapshot["task"] == {
        name.decode(): v.decode().replace(lease.id.ulid, "a") for name, v in kept.items()
    }
    assert [json.loads(record)["attempt"] for record in snapshot["failures"]] == [1]
    assert json.loads(snapshot["def"]) == {"t": "code", "tags": ["t"]}


async def test_a_retried_task_is_not_archived(archived_harness: Harness) -> None:
    lease = await archived_harness.running()

    await run_move(archived_harness, "task/fail", TERMS | {"archive": 1}, [row(lease)])

    assert "outbox" not in await all_keys(archived_harness)


async def test_dead_tasks_release_their_key_and_retrying_ones_keep_it(harness: Harness) -> None:
    again = await harness.running(idempotency_key="one")
    dead = await harness.running(idempotency_key="two")
    before = await harness.client.keys(harness.keys.idempotency("*"))

    await run_move(harness, "task/fail", TERMS, [row(again), row(dead, delay="")])

    (key,) = await harness.client.keys(harness.keys.idempotency("*"))
    assert len(before) == 2
    assert (await harness.client.get(key)).decode() == again.id.ulid
    assert (await harness.queue.enqueue("code", {}, idempotency_key="one")).created is False
    assert (await harness.queue.enqueue("code", {}, idempotency_key="two")).created is True


async def test_watchers_are_notified_only_of_a_dead_task(harness: Harness) -> None:
    lease = await harness.running()
    await run_move(harness, "task/watch", {"box": "b1", "keep_ms": 9000}, [(lease.id.ulid,)])
    await run_move(harness, "task/fail", TERMS, [row(lease)])
    assert await harness.client.exists(harness.keys.mail("b1")) == 0
    await harness.make_due(lease.id)
    await harness.promoter.tick()
    (second,) = await harness.queue.claim(worker="w1", types=["code"])

    await run_move(harness, "task/fail", TERMS, [row(second, delay="")])

    lines = await harness.client.lrange(harness.keys.mail("b1"), 0, -1)
    assert lines == [f"ended {lease.id.ulid}".encode()]
    assert 0 < await harness.client.pttl(harness.keys.mail("b1")) <= 120_000
    assert await harness.client.exists(harness.keys.watchers(lease.id.ulid)) == 0


async def test_the_newest_failures_are_kept(harness: Harness) -> None:
    lease = await harness.running()
    key = harness.keys.failures(lease.id.ulid)
    await harness.client.rpush(key, "1", "2", "3")

    await run_move(harness, "task/fail", TERMS | {"keep": 3}, [row(lease)])

    *older, newest = await harness.client.lrange(key, 0, -1)
    assert older == [b"2", b"3"]
    assert json.loads(newest)["attempt"] == 1


async def test_without_a_record_none_is_stored(harness: Harness) -> None:
    lease = await harness.running()

    await run_move(harness, "task/fail", TERMS, [row(lease, record="")])

    found = await all_keys(harness, a=lease.id)
    assert "failures:a" not in found
    assert "flags" not in found["task:a"]


@pytest.mark.parametrize("delay", ["60000", ""])
async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(
    harness: Harness, delay: str
) -> None:
    lease = await harness.running()
    first = await run_move(harness, "task/fail", TERMS, [row(lease, delay=delay)])
    before = await harness.dump()

    second = await run_move(harness, "task/fail", TERMS, [row(lease, delay=delay)])

    assert second == first
    assert await harness.dump() == before


async def test_a_stale_token_changes_nothing(harness: Harness) -> None:
    stale = await harness.running()
    await stale.release()
    (lease,) = await harness.queue.claim(worker="w2", types=["code"])
    before = await harness.dump()

    reply = await run_move(harness, "task/fail", TERMS, [row(stale), row(stale, delay="")])

    assert reply == ["OK", 0, "LOST", "LOST"]
    assert await harness.dump() == before
    await lease.start()


async def test_an_earlier_failure_is_no_reply_for_a_completed_task(harness: Harness) -> None:
    first = await harness.running()
    await run_move(harness, "task/fail", TERMS, [row(first)])
    await harness.make_due(first.id)
    await harness.promoter.tick()
    (second,) = await harness.queue.claim(worker="w1", types=["code"])
    await second.start()
    await second.complete()
    before = await harness.dump()

    reply = await run_move(harness, "task/fail", TERMS, [row(second)])

    assert reply == ["OK", 0, "LOST"]
    assert await harness.dump() == before


async def test_an_unknown_task_is_lost(harness: Harness) -> None:
    lease = await harness.running()
    await harness.client.flushall()

    assert await run_move(harness, "task/fail", TERMS, [row(lease)]) == ["OK", 0, "LOST"]
    assert await harness.dump() == {}


async def test_many_end_in_one_call_each_as_decided(archived_harness: Harness) -> None:
    harness = archived_harness
    drafts = [harness.queue._internals.drafter.draft(harness.queue.call("code"))] * 3
    await submit(harness.queue._internals.shard, drafts)
    one, two, three = await harness.queue.claim(worker="w1", types=["code"], n=3)
    await two.start()
    await three.start()
    await three.validate()

    reply = await run_move(
        harness, "task/fail", TERMS | {"archive": 1}, [row(one), row(two, ""), row(three, "")]
    )

    assert reply == ["OK", 0, "RETRYING", "DEAD_LETTERED", "DEAD_LETTERED"]
    found = await all_keys(harness, a=one.id, b=two.id, c=three.id)
    assert [sorted(entry) for entry in found["outbox"]] == [["b", "c"]]
    assert found["stats"] == {"1:RETRYING": 1, "1:DEAD_LETTERED": 2, "outbox": 2, "submitted": 3}
    assert (await harness.task(three.id)).state is State.DEAD_LETTERED
