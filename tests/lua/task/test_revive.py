"""revive: a dead task gets a new life and keeps its history, once for each call."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rqueue import Lease, State, TaskId
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidGraph, KeyTaken, WrongState
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.task.keyspace import LANES, W1, all_keys, mailbox_lines, run_move, waiting_claim

TERMS: dict[str, Argument] = {
    "life": 1, "def": "", "delay": 0, "tries": 100, "steps": 100, "page": 100,
    "terms": '{"events":1000,"reviews":0}', "review": "",
}  # fmt: skip
ALIVE = {
    "created": "*", "def0": "*", "flags": "fm", "holder": "* 0 w1", "lane": "1", "more": "*",
    "score": "*", "token": "1:*",
}  # fmt: skip


async def dead(harness: Harness, **options: Any) -> TaskId:
    lease = await harness.claimed(**options)
    await lease.fail("error", "broken", permanent=True)
    return lease.id


def about(task: TaskId, **args: Argument) -> dict[str, Argument]:
    return TERMS | {"task": task.ulid} | args


async def claimed(harness: Harness) -> Lease:
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    await lease.start()
    return lease


async def test_a_revived_task_may_be_claimed(harness: Harness) -> None:
    task = await dead(harness)

    reply = await run_move(harness, "task/revive", about(task))

    assert reply == ["OK", 0, "READY"]
    found = await all_keys(harness, a=task)
    assert len(found.pop("failures:a")) == 1
    assert [event["event"] for event in found.pop("events")] == [
        "task.dead_lettered",
        "task.revived",
    ]
    assert found == LANES | W1 | {
        "reviews": [{"task": "a", "life": "1", "at": "*", "resolution": "retry"}],
        "task:a": ALIVE | {"entry": "*", "state": "READY"},
        "ready": (["a"], {}),
        "lane:1": ["a"],
        "stats": {"submitted": 1},
    }


async def test_its_attempts_begin_anew_and_its_failures_stay(harness: Harness) -> None:
    task = await dead(harness)

    await run_move(harness, "task/revive", about(task))

    found = await harness.task(task)
    assert (found.state, found.life, found.attempts, found.epoch) == (State.READY, 2, 0, 1)
    assert found.failure_reason is None
    assert [record.error for record in found.failure_history] == ["broken"]
    assert (await claimed(harness)).token.startswith("2:")


async def test_its_next_outcome_belongs_to_its_new_life(archived_harness: Harness) -> None:
    task = await dead(archived_harness)

    await run_move(archived_harness, "task/revive", about(task))

    await (await claimed(archived_harness)).complete()
    outbox = (await all_keys(archived_harness, a=task))["outbox"]
    assert [entry["a"].split(" ")[:2] for entry in outbox] == [
        ["1", "DEAD_LETTERED"],
        ["2", "COMPLETED"],
    ]


async def test_a_task_without_a_history_has_a_new_life_too(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.claimed()
    args: dict[str, Argument] = {"archive": 1, "keep": 100, "events": 1000, **ANSWER_LIMITS}
    await run_move(
        harness,
        "task/fail",
        args,
        [(lease.id.ulid, lease.token, "", 1, 0, "error", "", "code", "", "", "", "")],
    )

    await run_move(harness, "task/revive", about(lease.id))

    await (await claimed(harness)).complete()
    assert (await all_keys(harness, a=lease.id))["outbox"][-1] == {"a": "2 COMPLETED"}


async def test_with_a_delay_it_waits_first(harness: Harness) -> None:
    task = await dead(harness)
    _, earliest = await run_move(harness, "task/read", {"limit": 1})

    reply = await run_move(harness, "task/revive", about(task, delay=60_000))

    found = await all_keys(harness, a=task)
    assert reply == ["OK", 0, "PENDING"]
    assert set(found) == {
        *LANES, *W1, "task:a", "ready", "delayed", "blocked", "waits:a", "failures:a",
        "events", "reviews", "stats",
    }  # fmt: skip
    assert found["task:a"] == ALIVE | {"due": "*", "state": "PENDING"}
    assert (found["waits:a"], found["blocked"], found["delayed"]) == (["@time"], ["a"], ["a"])
    assert (found["ready"], found["stats"]) == (([], {}), {"1:PENDING": 1, "submitted": 1})
    due = await harness.client.zscore(harness.keys.delayed(), task.ulid)
    seen = (await harness.task(task)).available_at
    assert due >= int(earliest) + 60_000
    assert seen is not None
    assert round(seen.timestamp() * 1000) == due


async def test_a_task_may_be_revived_with_a_changed_definition(harness: Harness) -> None:
    task = await dead(harness)

    await run_move(harness, "task/revive", about(task, **{"def": '{"t":"code","p":{"n":2}}'}))

    assert (await harness.task(task)).payload == {"n": 2}


async def test_a_large_definition_may_become_a_small_one_and_back(harness: Harness) -> None:
    task = await dead(harness)
    large = '{"t":"code","p":{"n":"' + "x" * 600 + '"}}'

    await run_move(harness, "task/revive", about(task, **{"def": large}))
    fields = await harness.client.hkeys(harness.keys.task(task.ulid))
    assert await harness.client.get(harness.keys.definition(task.ulid)) == large.encode()
    assert not [name for name in fields if name.startswith(b"def")]

    await (await claimed(harness)).fail(permanent=True)
    await run_move(
        harness, "task/revive", about(task, life=2, **{"def": '{"t":"code","p":{"n":3}}'})
    )
    assert await harness.client.exists(harness.keys.definition(task.ulid)) == 0
    assert (await harness.task(task)).payload == {"n": 3}


async def test_a_revived_task_holds_its_idempotency_key_again(harness: Harness) -> None:
    task = await dead(harness, idempotency_key="k")

    await run_move(harness, "task/revive", about(task))

    assert (await all_keys(harness, a=task))["idem:*"] == "a"
    again = await harness.queue.enqueue("code", {}, idempotency_key="k")
    assert (again.id, again.created) == (task, False)


async def test_another_holder_of_its_idempotency_key_prevents_it(harness: Harness) -> None:
    task = await dead(harness, idempotency_key="k")
    other = (await harness.queue.enqueue("code", {}, idempotency_key="k")).id
    before = await harness.dump()

    assert await run_move(harness, "task/revive", about(task)) == ["EXISTS", other.ulid]
    assert await harness.dump() == before
    with pytest.raises(KeyTaken) as caught:
        await harness.queue.dead.retry(task)
    assert caught.value.holder == other


async def test_its_deadline_counts_again_if_it_is_still_to_come(harness: Harness) -> None:
    later = {"deadline": SYSTEM.now() + timedelta(hours=1), "on_deadline": "cancel"}
    task = await dead(harness, **later)

    await run_move(harness, "task/revive", about(task))

    assert (await all_keys(harness, a=task))["deadlines"] == ["a"]


async def test_a_waiting_claim_is_answered(harness: Harness) -> None:
    task = await dead(harness)
    waiter = await waiting_claim(harness)

    await run_move(harness, "task/revive", about(task))

    assert (await mailbox_lines(harness, waiter))[0].startswith(f"tasks 1 {task.ulid} 2:")


async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(harness: Harness) -> None:
    task = await dead(harness)
    first = await run_move(harness, "task/revive", about(task, request="r1"))
    before = await harness.dump()

    assert await run_move(harness, "task/revive", about(task, request="r1")) == first
    assert await harness.dump() == before


async def test_a_late_copy_gets_the_first_reply_and_does_not_revive_the_next_life(
    harness: Harness,
) -> None:
    task = await dead(harness)
    first = await run_move(harness, "task/revive", about(task, request="r1"))
    await (await claimed(harness)).fail(permanent=True)
    before = await harness.dump()

    assert await run_move(harness, "task/revive", about(task, request="r1")) == first
    assert await harness.dump() == before
    assert await run_move(harness, "task/revive", about(task, life=2)) == ["OK", 0, "READY"]
    assert await run_move(harness, "task/revive", about(task, request="r1")) == first
    await (await claimed(harness)).complete()
    assert await run_move(harness, "task/revive", about(task, request="r1")) == first
    assert (await harness.task(task)).life == 2 + 1


async def test_of_two_reviewers_of_one_life_the_second_is_refused(harness: Harness) -> None:
    task = await dead(harness)
    await run_move(harness, "task/revive", about(task, request="r1"))
    before = await harness.dump()

    assert await run_move(harness, "task/revive", about(task, request="r2")) == ["DECIDED", "READY"]
    assert await harness.dump() == before


async def test_a_life_that_is_over_is_not_decided_about(harness: Harness) -> None:
    task = await dead(harness)
    await run_move(harness, "task/revive", about(task))
    await (await claimed(harness)).fail(permanent=True)
    before = await harness.dump()

    assert await run_move(harness, "task/revive", about(task)) == ["DECIDED", "DEAD_LETTERED"]
    assert await run_move(harness, "task/revive", about(task, life=3)) == ["STATE", "DEAD_LETTERED"]
    assert await harness.dump() == before


async def test_a_discarded_task_is_refused_as_decided(harness: Harness) -> None:
    task, other = await dead(harness), (await harness.queue.enqueue("code")).id
    await harness.queue.dead.discard(task)
    await harness.queue.cancel(other)

    assert await run_move(harness, "task/revive", about(task)) == ["DECIDED", "CANCELLED"]
    assert await run_move(harness, "task/revive", about(other)) == ["STATE", "CANCELLED"]


async def test_the_reply_is_kept_for_the_given_time(harness: Harness) -> None:
    task = await dead(harness)

    await run_move(harness, "task/revive", about(task, request="r1", memo_ms=60_000))

    key = harness.keys.request("r1")
    assert 0 < await harness.client.pttl(key) <= 60_000
    await harness.client.delete(key)
    late = await run_move(harness, "task/revive", about(task, request="r1"))
    assert late == ["DECIDED", "READY"]


async def test_a_refused_call_is_decided_again(harness: Harness) -> None:
    task = await dead(harness, idempotency_key="k")
    other = (await harness.queue.enqueue("code", {}, idempotency_key="k")).id
    assert (await run_move(harness, "task/revive", about(task, request="r1")))[0] == "EXISTS"

    await harness.queue.cancel(other)

    assert (await run_move(harness, "task/revive", about(task, request="r1")))[0] == "OK"


async def test_only_dead_tasks_are_revived(harness: Harness) -> None:
    lease = await harness.claimed()
    before = await harness.dump()

    assert await run_move(harness, "task/revive", about(lease.id)) == ["STATE", "CLAIMED"]
    assert await harness.dump() == before
    with pytest.raises(WrongState):
        await harness.queue.dead.retry(lease.id)


async def test_an_unknown_task_is_gone(harness: Harness) -> None:
    args = TERMS | {"task": "01HZZZZZZZZZZZZZZZZZZZZZZZ"}

    assert await run_move(harness, "task/revive", args) == ["GONE"]
    assert await harness.dump() == {}


async def expired_dependent(harness: Harness, dependency: TaskId) -> TaskId:
    """A task that died of its deadline while it waited for its dependency."""
    options: dict[str, Any] = {"deadline": SYSTEM.now() + timedelta(hours=1)}
    dependent = await harness.queue.enqueue(
        "code", {}, depends_on=[dependency], on_deadline="fail", **options
    )
    await harness.client.zadd(harness.keys.deadlines(), {dependent.id.ulid: 1})
    await harness.promoter.tick()
    assert await dependent.status() is State.DEAD_LETTERED
    return dependent.id


async def test_a_dependent_that_died_waiting_waits_again(harness: Harness) -> None:
    dependency = (await harness.queue.enqueue("code")).id
    dependent = await expired_dependent(harness, dependency)

    state = await harness.queue.dead.retry(dependent)

    assert state is State.PENDING
    lease = await claimed(harness)
    assert lease.id == dependency
    await lease.complete()
    assert (await harness.task(dependent)).state is State.READY


async def test_a_dependent_of_a_cancelled_task_is_not_revived(harness: Harness) -> None:
    dependency = (await harness.queue.enqueue("code")).id
    dependent = await expired_dependent(harness, dependency)
    await harness.queue.cancel(dependency)
    before = await harness.dump()

    with pytest.raises(InvalidGraph, match=dependency):
        await harness.queue.dead.retry(dependent)

    assert await harness.dump() == before


async def test_an_external_id_that_another_task_has_now_is_not_taken_back(
    harness: Harness,
) -> None:
    task = await dead(harness, external_id="o1")
    other = (await harness.queue.enqueue("code", {}, external_id="o1")).id

    with pytest.raises(KeyTaken):
        await harness.queue.dead.retry(task)

    assert (await harness.task("o1")).id == other
