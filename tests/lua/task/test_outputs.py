"""outputs: what tasks have returned, for those that are given it."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.model.state import State
from rqueue.policy.inputs import Returned
from rqueue.store import outputs as store
from rqueue.store.leases import Settled, complete
from tests.house import House
from tests.lua.rows import held, submitted, words


async def outputs(house: House, *tasks: str, limit: int = 1000) -> list[Any]:
    rows = [(task,) for task in tasks]
    reply = words(await house.queue.shard.run("task/outputs", {"limit": limit}, rows))
    assert reply[0] == "OK"
    found: list[Any] = reply[1:]
    return found


async def test_each_has_its_state_and_what_it_returned(house: House) -> None:
    done, nothing = await held(house), await held(house)
    rows = [Settled(*done, b'{"a":1}'), Settled(*nothing, b"")]
    await complete(house.queue.shard, rows)
    ready = await submitted(house)
    before = await house.dump()

    found = await outputs(house, done.task, "NOBODY", ready, nothing.task, done.task)

    assert found == [
        "COMPLETED", '{"a":1}', "GONE", "", "READY", "", "COMPLETED", "", "COMPLETED", '{"a":1}',
    ]  # fmt: skip
    assert await house.dump() == before


async def test_nothing_is_asked_for(house: House) -> None:
    assert await outputs(house) == []


async def test_a_task_of_a_dag_that_is_being_written_is_not_there(house: House) -> None:
    key = house.keys.task("T")
    await house.client.hset(key, mapping={"state": "CREATED", "flags": "D0"})
    await house.client.hset(f"{house.keys.root}dag:D0", "status", "writing")

    assert await outputs(house, "T") == ["GONE", ""]

    await house.client.hset(f"{house.keys.root}dag:D0", "status", "pending")
    assert await outputs(house, "T") == ["CREATED", ""]


async def test_many_are_read_in_pages(house: House) -> None:
    done = await held(house)
    await complete(house.queue.shard, [Settled(*done, b"1")])
    many = ["NOBODY"] * store.PAGE

    found = await store.outputs(house.queue.shard, [*many, done.task])

    assert found == [Returned(None)] * store.PAGE + [Returned(State.COMPLETED, b"1")]


async def test_as_many_are_read_as_fit_and_at_least_one(house: House) -> None:
    leases = [await held(house) for _ in range(3)]
    await complete(house.queue.shard, [Settled(*lease, b'"1234567"') for lease in leases])
    tasks = [lease.task for lease in leases]

    found = [len(await outputs(house, *tasks, limit=limit)) // 2 for limit in (1, 17, 18, 27)]

    assert found == [1, 1, 2, 3]


async def test_large_ones_are_read_in_several_calls(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BYTES", 10)
    leases = [await held(house) for _ in range(5)]
    results = [b'"%d"' % at * 2 for at in range(5)]
    rows = [Settled(*lease, result) for lease, result in zip(leases, results, strict=True)]
    await complete(house.queue.shard, rows)

    found = await store.outputs(house.queue.shard, [lease.task for lease in leases])

    assert [one.result for one in found] == results
