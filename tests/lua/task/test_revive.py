"""revive: a dead task lives again, with a new life and its history; once for each asking."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rqueue import Lease, State, TaskId
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidGraph, KeyTaken, WrongState
from rqueue.store.scripts import Argument
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.task.afterwards import LANES, W1, afterwards, ask, mail, parked

TERMS: dict[str, Argument] = {
    "life": 1, "def": "", "delay": 0, "tries": 100, "steps": 100, "page": 100,
    "terms": '{"events":1000,"reviews":0}', "review": "",
}  # fmt: skip
ALIVE = {
    "created": "*", "def0": "*", "flags": "fm", "holder": "* 0 w1", "lane": "1", "more": "*",
    "score": "*", "token": "1:*",
}  # fmt: skip


async def dead(house: House, **options: Any) -> TaskId:
    lease = await house.claimed(**options)
    await lease.fail("error", "broken", permanent=True)
    return lease.id


def about(task: TaskId, **args: Argument) -> dict[str, Argument]:
    return TERMS | {"task": task.ulid} | args


async def claimed(house: House) -> Lease:
    (lease,) = await house.queue.claim(worker="w1", types=["code"])
    await lease.start()
    return lease


async def test_a_revived_task_may_be_claimed(house: House) -> None:
    task = await dead(house)

    said = await ask(house, "task/revive", about(task))

    assert said == ["OK", 0, "READY"]
    found = await afterwards(house, a=task)
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


async def test_its_attempts_begin_anew_and_its_failures_stay(house: House) -> None:
    task = await dead(house)

    await ask(house, "task/revive", about(task))

    found = await house.task(task)
    assert (found.state, found.life, found.attempts, found.epoch) == (State.READY, 2, 0, 1)
    assert found.failure_reason is None
    assert [record.error for record in found.failure_history] == ["broken"]
    assert (await claimed(house)).token.startswith("2:")


async def test_its_next_end_belongs_to_its_new_life(archived_house: House) -> None:
    task = await dead(archived_house)

    await ask(archived_house, "task/revive", about(task))

    await (await claimed(archived_house)).complete()
    outbox = (await afterwards(archived_house, a=task))["outbox"]
    assert [entry["a"].split(" ")[:2] for entry in outbox] == [
        ["1", "DEAD_LETTERED"],
        ["2", "COMPLETED"],
    ]


async def test_one_without_a_history_has_a_new_life_too(archived_house: House) -> None:
    house = archived_house
    lease = await house.claimed()
    args: dict[str, Argument] = {"archive": 1, "keep": 100, "events": 1000, **FREED}
    await ask(
        house,
        "task/fail",
        args,
        [(lease.id.ulid, lease.token, "", 1, 0, "error", "", "code", "", "", "", "")],
    )

    await ask(house, "task/revive", about(lease.id))

    await (await claimed(house)).complete()
    assert (await afterwards(house, a=lease.id))["outbox"][-1] == {"a": "2 COMPLETED"}


async def test_with_a_delay_it_waits_first(house: House) -> None:
    task = await dead(house)
    _, earliest = await ask(house, "task/read", {"limit": 1})

    said = await ask(house, "task/revive", about(task, delay=60_000))

    found = await afterwards(house, a=task)
    assert said == ["OK", 0, "PENDING"]
    assert set(found) == {
        *LANES, *W1, "task:a", "ready", "delayed", "blocked", "waits:a", "failures:a",
        "events", "reviews", "stats",
    }  # fmt: skip
    assert found["task:a"] == ALIVE | {"due": "*", "state": "PENDING"}
    assert (found["waits:a"], found["blocked"], found["delayed"]) == (["@time"], ["a"], ["a"])
    assert (found["ready"], found["stats"]) == (([], {}), {"1:PENDING": 1, "submitted": 1})
    due = await house.client.zscore(house.keys.delayed(), task.ulid)
    seen = (await house.task(task)).available_at
    assert due >= int(earliest) + 60_000
    assert seen is not None
    assert round(seen.timestamp() * 1000) == due


async def test_it_may_come_back_changed(house: House) -> None:
    task = await dead(house)

    await ask(house, "task/revive", about(task, **{"def": '{"t":"code","p":{"n":2}}'}))

    assert (await house.task(task)).payload == {"n": 2}


async def test_a_large_definition_may_become_a_small_one_and_back(house: House) -> None:
    task = await dead(house)
    large = '{"t":"code","p":{"n":"' + "x" * 600 + '"}}'

    await ask(house, "task/revive", about(task, **{"def": large}))
    fields = await house.client.hkeys(house.keys.task(task.ulid))
    assert await house.client.get(house.keys.definition(task.ulid)) == large.encode()
    assert not [name for name in fields if name.startswith(b"def")]

    await (await claimed(house)).fail(permanent=True)
    await ask(house, "task/revive", about(task, life=2, **{"def": '{"t":"code","p":{"n":3}}'}))
    assert await house.client.exists(house.keys.definition(task.ulid)) == 0
    assert (await house.task(task)).payload == {"n": 3}


async def test_it_holds_its_key_again(house: House) -> None:
    task = await dead(house, idempotency_key="k")

    await ask(house, "task/revive", about(task))

    assert (await afterwards(house, a=task))["idem:*"] == "a"
    again = await house.queue.enqueue("code", {}, idempotency_key="k")
    assert (again.id, again.created) == (task, False)


async def test_another_that_holds_its_key_stands_in_its_way(house: House) -> None:
    task = await dead(house, idempotency_key="k")
    other = (await house.queue.enqueue("code", {}, idempotency_key="k")).id
    before = await house.dump()

    assert await ask(house, "task/revive", about(task)) == ["EXISTS", other.ulid]
    assert await house.dump() == before
    with pytest.raises(KeyTaken) as caught:
        await house.queue.revive(task)
    assert caught.value.holder == other


async def test_its_deadline_counts_again_if_it_is_still_to_come(house: House) -> None:
    later = {"deadline": SYSTEM.now() + timedelta(hours=1), "on_deadline": "cancel"}
    task = await dead(house, **later)

    await ask(house, "task/revive", about(task))

    assert (await afterwards(house, a=task))["deadlines"] == ["a"]


async def test_a_claim_that_waits_is_answered(house: House) -> None:
    task = await dead(house)
    waiter = await parked(house)

    await ask(house, "task/revive", about(task))

    assert (await mail(house, waiter))[0].startswith(f"tasks 1 {task.ulid} 2:")


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    task = await dead(house)
    first = await ask(house, "task/revive", about(task, request="r1"))
    before = await house.dump()

    assert await ask(house, "task/revive", about(task, request="r1")) == first
    assert await house.dump() == before


async def test_a_late_copy_gets_its_answer_and_does_not_revive_the_next_death(
    house: House,
) -> None:
    task = await dead(house)
    first = await ask(house, "task/revive", about(task, request="r1"))
    await (await claimed(house)).fail(permanent=True)
    before = await house.dump()

    assert await ask(house, "task/revive", about(task, request="r1")) == first
    assert await house.dump() == before
    assert await ask(house, "task/revive", about(task, life=2)) == ["OK", 0, "READY"]
    assert await ask(house, "task/revive", about(task, request="r1")) == first
    await (await claimed(house)).complete()
    assert await ask(house, "task/revive", about(task, request="r1")) == first
    assert (await house.task(task)).life == 2 + 1


async def test_of_two_who_saw_one_life_the_second_is_told(house: House) -> None:
    task = await dead(house)
    await ask(house, "task/revive", about(task, request="r1"))
    before = await house.dump()

    assert await ask(house, "task/revive", about(task, request="r2")) == ["DECIDED", "READY"]
    assert await house.dump() == before


async def test_a_life_that_is_over_is_not_decided_about(house: House) -> None:
    task = await dead(house)
    await ask(house, "task/revive", about(task))
    await (await claimed(house)).fail(permanent=True)
    before = await house.dump()

    assert await ask(house, "task/revive", about(task)) == ["DECIDED", "DEAD_LETTERED"]
    assert await ask(house, "task/revive", about(task, life=3)) == ["STATE", "DEAD_LETTERED"]
    assert await house.dump() == before


async def test_one_that_was_given_up_is_told_so(house: House) -> None:
    task, other = await dead(house), (await house.queue.enqueue("code")).id
    await house.queue.discard(task)
    await house.queue.cancel(other)

    assert await ask(house, "task/revive", about(task)) == ["DECIDED", "CANCELLED"]
    assert await ask(house, "task/revive", about(other)) == ["STATE", "CANCELLED"]


async def test_what_was_answered_is_kept_for_as_long_as_is_said(house: House) -> None:
    task = await dead(house)

    await ask(house, "task/revive", about(task, request="r1", memo_ms=60_000))

    key = house.keys.request("r1")
    assert 0 < await house.client.pttl(key) <= 60_000
    await house.client.delete(key)
    late = await ask(house, "task/revive", about(task, request="r1"))
    assert late == ["DECIDED", "READY"]


async def test_what_was_refused_is_judged_anew(house: House) -> None:
    task = await dead(house, idempotency_key="k")
    other = (await house.queue.enqueue("code", {}, idempotency_key="k")).id
    assert (await ask(house, "task/revive", about(task, request="r1")))[0] == "EXISTS"

    await house.queue.cancel(other)

    assert (await ask(house, "task/revive", about(task, request="r1")))[0] == "OK"


async def test_only_the_dead_are_revived(house: House) -> None:
    lease = await house.claimed()
    before = await house.dump()

    assert await ask(house, "task/revive", about(lease.id)) == ["STATE", "CLAIMED"]
    assert await house.dump() == before
    with pytest.raises(WrongState):
        await house.queue.revive(lease.id)


async def test_an_unknown_task_is_gone(house: House) -> None:
    args = TERMS | {"task": "01HZZZZZZZZZZZZZZZZZZZZZZZ"}

    assert await ask(house, "task/revive", args) == ["GONE"]
    assert await house.dump() == {}


async def expired_child(house: House, parent: TaskId) -> TaskId:
    """A task that died of its deadline while it waited for its parent."""
    options: dict[str, Any] = {"deadline": SYSTEM.now() + timedelta(hours=1)}
    child = await house.queue.enqueue(
        "code", {}, depends_on=[parent], on_deadline="fail", **options
    )
    await house.client.zadd(house.keys.deadlines(), {child.id.ulid: 1})
    await house.promoter.tick()
    assert await child.status() is State.DEAD_LETTERED
    return child.id


async def test_a_child_that_died_waiting_waits_again(house: House) -> None:
    parent = (await house.queue.enqueue("code")).id
    child = await expired_child(house, parent)

    state = await house.queue.revive(child)

    assert state is State.PENDING
    lease = await claimed(house)
    assert lease.id == parent
    await lease.complete()
    assert (await house.task(child)).state is State.READY


async def test_a_child_whose_parent_was_cancelled_is_not_revived(house: House) -> None:
    parent = (await house.queue.enqueue("code")).id
    child = await expired_child(house, parent)
    await house.queue.cancel(parent)
    before = await house.dump()

    with pytest.raises(InvalidGraph, match=parent):
        await house.queue.revive(child)

    assert await house.dump() == before


async def test_a_callers_own_id_that_another_task_bears_now_is_not_taken_back(
    house: House,
) -> None:
    task = await dead(house, external_id="o1")
    other = (await house.queue.enqueue("code", {}, external_id="o1")).id

    with pytest.raises(KeyTaken):
        await house.queue.revive(task)

    assert (await house.task("o1")).id == other
