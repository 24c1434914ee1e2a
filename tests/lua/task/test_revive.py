"""revive: a dead task lives again, with a new life and its history; once for each asking."""

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
from tests.lua.task.keys_after import LANES, W1, afterwards, ask, mail, parked

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

    said = await ask(harness, "task/revive", about(task))

    assert said == ["OK", 0, "READY"]
    found = await afterwards(harness, a=task)
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

    await ask(harness, "task/revive", about(task))

    found = await harness.task(task)
    assert (found.state, found.life, found.attempts, found.epoch) == (State.READY, 2, 0, 1)
    assert found.failure_reason is None
    assert [record.error for record in found.failure_history] == ["broken"]
    assert (await claimed(harness)).token.startswith("2:")


async def test_its_next_end_belongs_to_its_new_life(archived_harness: Harness) -> None:
    task = await dead(archived_harness)

    await ask(archived_harness, "task/revive", about(task))

    await (await claimed(archived_harness)).complete()
    outbox = (await afterwards(archived_harness, a=task))["outbox"]
    assert [entry["a"].split(" ")[:2] for entry in outbox] == [
        ["1", "DEAD_LETTERED"],
        ["2", "COMPLETED"],
    ]


async def test_one_without_a_history_has_a_new_life_too(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await harness.claimed()
    args: dict[str, Argument] = {"archive": 1, "keep": 100, "events": 1000, **ANSWER_LIMITS}
    await ask(
        harness,
        "task/fail",
        args,
        [(lease.id.ulid, lease.token, "", 1, 0, "error", "", "code", "", "", "", "")],
    )

    await ask(harness, "task/revive", about(lease.id))

    await (await claimed(harness)).complete()
    assert (await afterwards(harness, a=lease.id))["outbox"][-1] == {"a": "2 COMPLETED"}


async def test_with_a_delay_it_waits_first(harness: Harness) -> None:
    task = await dead(harness)
    _, earliest = await ask(harness, "task/read", {"limit": 1})

    said = await ask(harness, "task/revive", about(task, delay=60_000))

    found = await afterwards(harness, a=task)
    assert said == ["OK", 0, "PENDING"]
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


async def test_it_may_come_back_changed(harness: Harness) -> None:
    task = await dead(harness)

    await ask(harness, "task/revive", about(task, **{"def": '{"t":"code","p":{"n":2}}'}))

    assert (await harness.task(task)).payload == {"n": 2}


async def test_a_large_definition_may_become_a_small_one_and_back(harness: Harness) -> None:
    task = await dead(harness)
    large = '{"t":"code","p":{"n":"' + "x" * 600 + '"}}'

    await ask(harness, "task/revive", about(task, **{"def": large}))
    fields = await harness.client.hkeys(harness.keys.task(task.ulid))
    assert await harness.client.get(harness.keys.definition(task.ulid)) == large.encode()
    assert not [name for name in fields if name.startswith(b"def")]

    await (await claimed(harness)).fail(permanent=True)
    await ask(harness, "task/revive", about(task, life=2, **{"def": '{"t":"code","p":{"n":3}}'}))
    assert await harness.client.exists(harness.keys.definition(task.ulid)) == 0
    assert (await harness.task(task)).payload == {"n": 3}


async def test_it_holds_its_key_again(harness: Harness) -> None:
    task = await dead(harness, idempotency_key="k")

    await ask(harness, "task/revive", about(task))

    assert (await afterwards(harness, a=task))["idem:*"] == "a"
    again = await harness.queue.enqueue("code", {}, idempotency_key="k")
    assert (again.id, again.created) == (task, False)


async def test_another_that_holds_its_key_stands_in_its_way(harness: Harness) -> None:
    task = await dead(harness, idempotency_key="k")
    other = (await harness.queue.enqueue("code", {}, idempotency_key="k")).id
    before = await harness.dump()

    assert await ask(harness, "task/revive", about(task)) == ["EXISTS", other.ulid]
    assert await harness.dump() == before
    with pytest.raises(KeyTaken) as caught:
        await harness.queue.dead.retry(task)
    assert caught.value.holder == other


async def test_its_deadline_counts_again_if_it_is_still_to_come(harness: Harness) -> None:
    later = {"deadline": SYSTEM.now() + timedelta(hours=1), "on_deadline": "cancel"}
    task = await dead(harness, **later)

    await ask(harness, "task/revive", about(task))

    assert (await afterwards(harness, a=task))["deadlines"] == ["a"]


async def test_a_claim_that_waits_is_answered(harness: Harness) -> None:
    task = await dead(harness)
    waiter = await parked(harness)

    await ask(harness, "task/revive", about(task))

    assert (await mail(harness, waiter))[0].startswith(f"tasks 1 {task.ulid} 2:")


async def test_sent_again_it_says_the_same_and_changes_nothing(harness: Harness) -> None:
    task = await dead(harness)
    first = await ask(harness, "task/revive", about(task, request="r1"))
    before = await harness.dump()

    assert await ask(harness, "task/revive", about(task, request="r1")) == first
    assert await harness.dump() == before


async def test_a_late_copy_gets_its_answer_and_does_not_revive_the_next_death(
    harness: Harness,
) -> None:
    task = await dead(harness)
    first = await ask(harness, "task/revive", about(task, request="r1"))
    await (await claimed(harness)).fail(permanent=True)
    before = await harness.dump()

    assert await ask(harness, "task/revive", about(task, request="r1")) == first
    assert await harness.dump() == before
    assert await ask(harness, "task/revive", about(task, life=2)) == ["OK", 0, "READY"]
    assert await ask(harness, "task/revive", about(task, request="r1")) == first
    await (await claimed(harness)).complete()
    assert await ask(harness, "task/revive", about(task, request="r1")) == first
    assert (await harness.task(task)).life == 2 + 1


async def test_of_two_who_saw_one_life_the_second_is_told(harness: Harness) -> None:
    task = await dead(harness)
    await ask(harness, "task/revive", about(task, request="r1"))
    before = await harness.dump()

    assert await ask(harness, "task/revive", about(task, request="r2")) == ["DECIDED", "READY"]
    assert await harness.dump() == before


async def test_a_life_that_is_over_is_not_decided_about(harness: Harness) -> None:
    task = await dead(harness)
    await ask(harness, "task/revive", about(task))
    await (await claimed(harness)).fail(permanent=True)
    before = await harness.dump()

    assert await ask(harness, "task/revive", about(task)) == ["DECIDED", "DEAD_LETTERED"]
    assert await ask(harness, "task/revive", about(task, life=3)) == ["STATE", "DEAD_LETTERED"]
    assert await harness.dump() == before


async def test_one_that_was_given_up_is_told_so(harness: Harness) -> None:
    task, other = await dead(harness), (await harness.queue.enqueue("code")).id
    await harness.queue.dead.discard(task)
    await harness.queue.cancel(other)

    assert await ask(harness, "task/revive", about(task)) == ["DECIDED", "CANCELLED"]
    assert await ask(harness, "task/revive", about(other)) == ["STATE", "CANCELLED"]


async def test_what_was_answered_is_kept_for_as_long_as_is_said(harness: Harness) -> None:
    task = await dead(harness)

    await ask(harness, "task/revive", about(task, request="r1", memo_ms=60_000))

    key = harness.keys.request("r1")
    assert 0 < await harness.client.pttl(key) <= 60_000
    await harness.client.delete(key)
    late = await ask(harness, "task/revive", about(task, request="r1"))
    assert late == ["DECIDED", "READY"]


async def test_what_was_refused_is_judged_anew(harness: Harness) -> None:
    task = await dead(harness, idempotency_key="k")
    other = (await harness.queue.enqueue("code", {}, idempotency_key="k")).id
    assert (await ask(harness, "task/revive", about(task, request="r1")))[0] == "EXISTS"

    await harness.queue.cancel(other)

    assert (await ask(harness, "task/revive", about(task, request="r1")))[0] == "OK"


async def test_only_the_dead_are_revived(harness: Harness) -> None:
    lease = await harness.claimed()
    before = await harness.dump()

    assert await ask(harness, "task/revive", about(lease.id)) == ["STATE", "CLAIMED"]
    assert await harness.dump() == before
    with pytest.raises(WrongState):
        await harness.queue.dead.retry(lease.id)


async def test_an_unknown_task_is_gone(harness: Harness) -> None:
    args = TERMS | {"task": "01HZZZZZZZZZZZZZZZZZZZZZZZ"}

    assert await ask(harness, "task/revive", args) == ["GONE"]
    assert await harness.dump() == {}


async def expired_child(harness: Harness, parent: TaskId) -> TaskId:
    """A task that died of its deadline while it waited for its parent."""
    options: dict[str, Any] = {"deadline": SYSTEM.now() + timedelta(hours=1)}
    child = await harness.queue.enqueue(
        "code", {}, depends_on=[parent], on_deadline="fail", **options
    )
    await harness.client.zadd(harness.keys.deadlines(), {child.id.ulid: 1})
    await harness.promoter.tick()
    assert await child.status() is State.DEAD_LETTERED
    return child.id


async def test_a_child_that_died_waiting_waits_again(harness: Harness) -> None:
    parent = (await harness.queue.enqueue("code")).id
    child = await expired_child(harness, parent)

    state = await harness.queue.dead.retry(child)

    assert state is State.PENDING
    lease = await claimed(harness)
    assert lease.id == parent
    await lease.complete()
    assert (await harness.task(child)).state is State.READY


async def test_a_child_whose_parent_was_cancelled_is_not_revived(harness: Harness) -> None:
    parent = (await harness.queue.enqueue("code")).id
    child = await expired_child(harness, parent)
    await harness.queue.cancel(parent)
    before = await harness.dump()

    with pytest.raises(InvalidGraph, match=parent):
        await harness.queue.dead.retry(child)

    assert await harness.dump() == before


async def test_a_callers_own_id_that_another_task_bears_now_is_not_taken_back(
    harness: Harness,
) -> None:
    task = await dead(harness, external_id="o1")
    other = (await harness.queue.enqueue("code", {}, external_id="o1")).id

    with pytest.raises(KeyTaken):
        await harness.queue.dead.retry(task)

    assert (await harness.task("o1")).id == other
