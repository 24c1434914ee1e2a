"""Calls by hand that come again late: whatever came between, they are answered as before and undo
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from rqueue.store.fleet import leave
from rqueue.store.leases import Parking, park
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.rows import words
from tests.lua.worker.crew import enrol

MEMO_MS = 60_000
NAMED: dict[str, Argument] = {"request": "r1", "memo_ms": MEMO_MS}


class Late(NamedTuple):
    """What is there before, the arguments of the call, and what comes before its copy does."""

    given: Callable[[House], Awaitable[Any]]
    args: Callable[[Any], dict[str, Any]]
    between: Callable[[House, Any], Awaitable[Any]]


async def nothing(house: House) -> None: ...


async def waiting(house: House) -> Any:
    return (await house.queue.enqueue("code", {"n": 1}, delay=3600)).id


class Written(NamedTuple):
    """A task and its definition."""

    ulid: str
    definition: bytes


async def written(house: House) -> Written:
    task = (await waiting(house)).ulid
    return Written(task, await house.queue.runtime.reader.definition(task))


async def a_dag(house: House) -> Any:
    async with house.queue.dag("two") as dag:
        dag.chain(house.queue.call("code"), house.queue.call("code"))
    return dag.id


async def paused_dag(house: House) -> Any:
    dag = await a_dag(house)
    await house.queue.pause_dag(dag)
    return dag


async def enrolled(house: House) -> None:
    await enrol(house, "w1", "w1/old")


async def relieved(house: House, _: None) -> None:
    await leave(house.queue.shard, "w1", "w1/old")
    await enrol(house, "w1", "w1/new")


async def edited(house: House, task: Written) -> None:
    """Somebody takes the edit back."""
    await house.queue.edit(task.ulid, {"n": 1})


async def hurried(house: House, task: Any) -> None:
    await house.queue.reschedule(task, delay=60)
    await house.queue.run_now(task)
    await house.queue.reschedule(task, delay=60)


async def raised(house: House, _: None) -> None:
    await house.queue.set_budget(2.0)
    await house.client.hset(house.keys.budget("day"), "spent", 7)


async def slowed(house: House) -> None:
    lease = await house.running()
    row = Parking(lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 60_000)
    await park(house.queue.shard, [row])


def a_role(**more: str) -> dict[str, Any]:
    return {"principal": "agent:coder", "events": 100, "who": "", **more}


LATE: dict[str, Late] = {
    "budget/set": Late(
        nothing,
        lambda _: {"account": "day", "micro_usd": 1, "afresh": 1, "tries": 9},
        raised,
    ),
    "dag/budget": Late(
        a_dag,
        lambda dag: {"dag": dag.ulid, "micro_usd": 1, "limit": 9, "tries": 9},
        lambda house, dag: house.queue.dag_budget(dag, 5),
    ),
    "dag/hold": Late(
        a_dag,
        lambda dag: {"dag": dag.ulid, "limit": 9, "begin": 1},
        lambda house, dag: house.queue.resume_dag(dag),
    ),
    "dag/unhold": Late(
        paused_dag,
        lambda dag: {"dag": dag.ulid, "limit": 9, "tries": 9, "begin": 1},
        lambda house, dag: house.queue.pause_dag(dag),
    ),
    "breaker/open": Late(
        nothing,
        lambda _: {"type": "code", "for_ms": 60_000, "events": 100},
        lambda house, _: house.queue.close_breaker("code"),
    ),
    "breaker/close": Late(
        nothing,
        lambda _: {"type": "code", "tries": 9, "events": 100},
        lambda house, _: house.queue.open_breaker("code"),
    ),
    "slowdown/lift": Late(
        slowed,
        lambda _: {"what": "code", "tries": 9, "events": 100},
        lambda house, _: slowed(house),
    ),
    "role/set": Late(
        nothing,
        lambda _: a_role(role="human"),
        lambda house, _: house.queue.set_role("agent:coder", "agent"),
    ),
    "role/drop": Late(
        nothing,
        lambda _: a_role(),
        lambda house, _: house.queue.set_role("agent:coder", "agent"),
    ),
    "queue/pause": Late(
        nothing, lambda _: {"what": "queue"}, lambda house, _: house.queue.resume()
    ),
    "queue/resume": Late(
        nothing,
        lambda _: {"what": "queue", "lanes": "[]", "tries": 9},
        lambda house, _: house.queue.pause(),
    ),
    "task/set_priority": Late(
        waiting,
        lambda task: {"task": task.ulid, "priority": 1_000_000, "was": 50_000_000},
        lambda house, task: house.queue.set_priority(task, 9),
    ),
    "task/reschedule": Late(
        waiting,
        lambda task: {"task": task.ulid, "delay": 5_000, "at": ""},
        lambda house, task: house.queue.reschedule(task, delay=60),
    ),
    "task/run_now": Late(
        waiting, lambda task: {"task": task.ulid, "tries": 9, "events": 100}, hurried
    ),
    "task/edit": Late(
        written,
        lambda task: {
            "task": task.ulid,
            "was": task.definition,
            "def": task.definition.replace(b"1", b"3"),
        },
        edited,
    ),
    "worker/drain": Late(enrolled, lambda _: {"worker": "w1", "cap": 100, "why": ""}, relieved),
}

# About many tasks in one call: tests/client/test_two_reviewers.py and test_lease_spend.py.
ELSEWHERE = {"task/revive", "task/discard", "task/escalate", "task/note"}


@pytest.mark.parametrize("script", LATE)
async def test_a_late_copy_undoes_nothing(house: House, script: str) -> None:
    case = LATE[script]
    before = await case.given(house)
    args = {**case.args(before), **NAMED}
    first = words(await house.queue.shard.run(script, args))
    assert first[0] == "OK"
    await case.between(house, before)
    found = await house.dump()

    again = words(await house.queue.shard.run(script, args))

    assert again == first
    assert await house.dump() == found


@pytest.mark.parametrize("script", LATE)
async def test_another_call_of_the_same_words_counts(house: House, script: str) -> None:
    case = LATE[script]
    before = await case.given(house)
    args = {**case.args(before), **NAMED}
    await house.queue.shard.run(script, args)
    await case.between(house, before)
    found = await house.dump()

    assert words(await house.queue.shard.run(script, {**args, "request": "r2"}))[0] == "OK"

    after = await house.dump()
    assert {key for key in {*after, *found} if after.get(key) != found.get(key)} > {
        house.keys.request("r2")
    }


@pytest.mark.parametrize("script", LATE)
async def test_what_it_was_answered_is_kept_for_a_time(house: House, script: str) -> None:
    case = LATE[script]
    args = {**case.args(await case.given(house)), **NAMED}

    reply = words(await house.queue.shard.run(script, args))

    assert json.loads(await house.client.get(house.keys.request("r1"))) == reply
    assert 0 < await house.client.pttl(house.keys.request("r1")) <= MEMO_MS


@pytest.mark.parametrize(
    "script", ["dag/budget", "dag/hold", "dag/unhold", *(s for s in LATE if s.startswith("task/"))]
)
async def test_a_refusal_is_not_remembered(house: House, script: str) -> None:
    nobody = Written("01HZZZZZZZZZZZZZZZZZZZZZZZ", b"")
    args = {**LATE[script].args(nobody), **NAMED}

    assert words(await house.queue.shard.run(script, args)) == ["GONE"]
    assert await house.dump() == {}


async def test_every_call_by_hand_is_among_them(house: House) -> None:
    scripts = house.queue.shard.runner.scripts

    named = {n for n, s in scripts.items() if {"request", "memo_ms"} <= set(s.args)}
    assert {*LATE, *ELSEWHERE} == named
