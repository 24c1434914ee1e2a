"""Late copies of manual calls: they get the first reply and undo nothing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from rqueue.core.leases import Parked, park
from rqueue.core.workers import leave
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.rows import words
from tests.lua.worker.registered import register_worker

MEMO_MS = 60_000
NAMED: dict[str, Argument] = {"request": "r1", "memo_ms": MEMO_MS}


class Late(NamedTuple):
    """The setup, the arguments of the call, and what happens before its copy arrives."""

    given: Callable[[Harness], Awaitable[Any]]
    args: Callable[[Any], dict[str, Any]]
    between: Callable[[Harness, Any], Awaitable[Any]]


async def nothing(harness: Harness) -> None: ...


async def waiting(harness: Harness) -> Any:
    return (await harness.queue.enqueue("code", {"n": 1}, delay=3600)).id


class Written(NamedTuple):
    """A task and its definition."""

    ulid: str
    definition: bytes


async def written(harness: Harness) -> Written:
    task = (await waiting(harness)).ulid
    return Written(task, await harness.queue._internals.runtime.reader.definition(task))


async def a_dag(harness: Harness) -> Any:
    async with harness.queue.dag("two") as dag:
        dag.chain(harness.queue.call("code"), harness.queue.call("code"))
    return dag.id


async def paused_dag(harness: Harness) -> Any:
    dag = await a_dag(harness)
    await harness.queue.dags.pause(dag)
    return dag


async def enrolled(harness: Harness) -> None:
    await register_worker(harness, "w1", "w1/old")


async def relieved(harness: Harness, _: None) -> None:
    await leave(harness.queue._internals.shard, "w1", "w1/old")
    await register_worker(harness, "w1", "w1/new")


async def edited(harness: Harness, task: Written) -> None:
    """Another call reverts the edit."""
    await harness.queue.edit(task.ulid, {"n": 1})


async def hurried(harness: Harness, task: Any) -> None:
    await harness.queue.reschedule(task, delay=60)
    await harness.queue.run_now(task)
    await harness.queue.reschedule(task, delay=60)


async def raised(harness: Harness, _: None) -> None:
    await harness.queue.budgets.set(2.0)
    await harness.client.hset(harness.keys.budget("day"), "spent", 7)


async def slowed(harness: Harness) -> None:
    lease = await harness.running()
    row = Parked(lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 60_000)
    await park(harness.queue._internals.shard, [row])


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
        lambda harness, dag: harness.queue.dags.set_budget(dag, 5),
    ),
    "dag/pause": Late(
        a_dag,
        lambda dag: {"dag": dag.ulid, "limit": 9, "begin": 1},
        lambda harness, dag: harness.queue.dags.resume(dag),
    ),
    "dag/resume": Late(
        paused_dag,
        lambda dag: {"dag": dag.ulid, "limit": 9, "tries": 9, "begin": 1},
        lambda harness, dag: harness.queue.dags.pause(dag),
    ),
    "breaker/open": Late(
        nothing,
        lambda _: {"type": "code", "for_ms": 60_000, "events": 100},
        lambda harness, _: harness.queue.limits.close_breaker("code"),
    ),
    "breaker/close": Late(
        nothing,
        lambda _: {"type": "code", "tries": 9, "events": 100},
        lambda harness, _: harness.queue.limits.open_breaker("code"),
    ),
    "slowdown/lift": Late(
        slowed,
        lambda _: {"what": "code", "tries": 9, "events": 100},
        lambda harness, _: slowed(harness),
    ),
    "role/set": Late(
        nothing,
        lambda _: a_role(role="human"),
        lambda harness, _: harness.queue.roles.set("agent:coder", "agent"),
    ),
    "role/drop": Late(
        nothing,
        lambda _: a_role(),
        lambda harness, _: harness.queue.roles.set("agent:coder", "agent"),
    ),
    "queue/pause": Late(
        nothing, lambda _: {"what": "queue"}, lambda harness, _: harness.queue.resume()
    ),
    "queue/resume": Late(
        nothing,
        lambda _: {"what": "queue", "lanes": "[]", "tries": 9},
        lambda harness, _: harness.queue.pause(),
    ),
    "task/set_priority": Late(
        waiting,
        lambda task: {"task": task.ulid, "priority": 1_000_000, "was": 50_000_000},
        lambda harness, task: harness.queue.set_priority(task, 9),
    ),
    "task/reschedule": Late(
        waiting,
        lambda task: {"task": task.ulid, "delay": 5_000, "at": ""},
        lambda harness, task: harness.queue.reschedule(task, delay=60),
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

# About many tasks in one call: tests/dead/test_two_reviewers.py and test_lease_spend.py.
ELSEWHERE = {"task/revive", "task/discard", "task/escalate", "task/note"}


@pytest.mark.parametrize("move", LATE)
async def test_a_late_copy_gets_the_first_reply_and_undoes_nothing(
    harness: Harness, move: str
) -> None:
    case = LATE[move]
    before = await case.given(harness)
    args = {**case.args(before), **NAMED}
    first = words(await harness.queue._internals.shard.run(move, args))
    assert first[0] == "OK"
    await case.between(harness, before)
    found = await harness.dump()

    again = words(await harness.queue._internals.shard.run(move, args))

    assert again == first
    assert await harness.dump() == found


@pytest.mark.parametrize("move", LATE)
async def test_another_call_with_the_same_arguments_counts(harness: Harness, move: str) -> None:
    case = LATE[move]
    before = await case.given(harness)
    args = {**case.args(before), **NAMED}
    await harness.queue._internals.shard.run(move, args)
    await case.between(harness, before)
    found = await harness.dump()

    assert (
        words(await harness.queue._internals.shard.run(move, {**args, "request": "r2"}))[0] == "OK"
    )

    after = await harness.dump()
    assert {key for key in {*after, *found} if after.get(key) != found.get(key)} > {
        harness.keys.request("r2")
    }


@pytest.mark.parametrize("move", LATE)
async def test_the_reply_is_kept_for_a_time(harness: Harness, move: str) -> None:
    case = LATE[move]
    args = {**case.args(await case.given(harness)), **NAMED}

    reply = words(await harness.queue._internals.shard.run(move, args))

    assert json.loads(await harness.client.get(harness.keys.request("r1"))) == reply
    assert 0 < await harness.client.pttl(harness.keys.request("r1")) <= MEMO_MS


@pytest.mark.parametrize(
    "move", ["dag/budget", "dag/pause", "dag/resume", *(s for s in LATE if s.startswith("task/"))]
)
async def test_a_refusal_is_not_stored(harness: Harness, move: str) -> None:
    unknown = Written("01HZZZZZZZZZZZZZZZZZZZZZZZ", b"")
    args = {**LATE[move].args(unknown), **NAMED}

    assert words(await harness.queue._internals.shard.run(move, args)) == ["GONE"]
    assert await harness.dump() == {}


async def test_every_manual_call_is_tested(harness: Harness) -> None:
    moves = harness.queue._internals.shard.runner.moves

    named = {n for n, s in moves.items() if {"request", "memo_ms"} <= set(s.args)}
    assert {*LATE, *ELSEWHERE} == named
