"""outputs: the results of tasks, for dependents that receive them."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core import reader as store
from rqueue.core.leases import Settled, complete
from rqueue.task.references import TaskOutput
from rqueue.task.state import State
from tests.harness import Harness
from tests.lua.rows import held, submitted, words


async def outputs(harness: Harness, *tasks: str, limit: int = 1000) -> list[Any]:
    rows = [(task,) for task in tasks]
    reply = words(await harness.queue._internals.shard.run("task/outputs", {"limit": limit}, rows))
    assert reply[0] == "OK"
    found: list[Any] = reply[1:]
    return found


async def test_each_task_has_its_state_and_result(harness: Harness) -> None:
    done, nothing = await held(harness), await held(harness)
    rows = [Settled(*done, b'{"a":1}'), Settled(*nothing, b"")]
    await complete(harness.queue._internals.shard, rows)
    ready = await submitted(harness)
    before = await harness.dump()

    found = await outputs(harness, done.task, "NOBODY", ready, nothing.task, done.task)

    assert found == [
        "COMPLETED", '{"a":1}', "GONE", "", "READY", "", "COMPLETED", "", "COMPLETED", '{"a":1}',
    ]  # fmt: skip
    assert await harness.dump() == before


async def test_a_call_without_tasks_returns_nothing(harness: Harness) -> None:
    assert await outputs(harness) == []


async def test_a_task_of_an_uncommitted_dag_is_gone(harness: Harness) -> None:
    key = harness.keys.task("T")
    await harness.client.hset(key, mapping={"state": "CREATED", "flags": "D0"})
    await harness.client.hset(f"{harness.keys.root}dag:D0", "status", "writing")

    assert await outputs(harness, "T") == ["GONE", ""]

    await harness.client.hset(f"{harness.keys.root}dag:D0", "status", "pending")
    assert await outputs(harness, "T") == ["CREATED", ""]


async def test_many_are_read_in_pages(harness: Harness) -> None:
    done = await held(harness)
    await complete(harness.queue._internals.shard, [Settled(*done, b"1")])
    many = ["NOBODY"] * store.OUTPUTS_PAGE

    found = await store.outputs(harness.queue._internals.shard, [*many, done.task])

    assert found == [TaskOutput(None)] * store.OUTPUTS_PAGE + [TaskOutput(State.COMPLETED, b"1")]


async def test_as_many_are_read_as_fit_and_at_least_one(harness: Harness) -> None:
    leases = [await held(harness) for _ in range(3)]
    await complete(
        harness.queue._internals.shard, [Settled(*lease, b'"1234567"') for lease in leases]
    )
    tasks = [lease.task for lease in leases]

    found = [len(await outputs(harness, *tasks, limit=limit)) // 2 for limit in (1, 17, 18, 27)]

    assert found == [1, 1, 2, 3]


async def test_large_ones_are_read_in_several_calls(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BYTES", 10)
    leases = [await held(harness) for _ in range(5)]
    results = [b'"%d"' % at * 2 for at in range(5)]
    rows = [Settled(*lease, result) for lease, result in zip(leases, results, strict=True)]
    await complete(harness.queue._internals.shard, rows)

    found = await store.outputs(harness.queue._internals.shard, [lease.task for lease in leases])

    assert [one.result for one in found] == results
