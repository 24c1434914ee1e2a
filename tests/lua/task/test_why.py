"""why: all that blocks a task, by the functions that a claim uses."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import State
from rqueue.core.leases import Parked, park
from rqueue.core.timers import promote
from rqueue.errors import TaskNotFound, WrongState
from rqueue.task.ids import new_task_id
from tests.harness import Harness, opened
from tests.lua.worker.registered import register_worker
from tests.servers import Server


async def holds(harness: Harness, task: str) -> list[tuple[str, str, bool]]:
    """What blocks a task, and whether until a known time; without missing workers."""
    found = await harness.queue.why(task)
    shown = [hold for hold in found.holds if hold.word != "no worker"]
    return [(hold.word, hold.what, hold.until is not None) for hold in shown]


async def test_nothing_blocks_a_ready_task(harness: Harness) -> None:
    await register_worker(harness, "w9", "run")
    first = await harness.queue.enqueue("code")
    second = await harness.queue.enqueue("code")

    one, two = await harness.queue.why(first.id), await harness.queue.why(second.id)

    assert (one.state, one.holds, one.ahead, two.ahead) == (State.READY, [], 0, 1)
    assert one.earliest is not None


async def test_a_missing_worker_is_named(harness: Harness) -> None:
    await register_worker(harness, "w9", "run")
    handle = await harness.queue.enqueue("code", required_capabilities=["tpu"])

    found = await harness.queue.why(handle.id)

    assert [(hold.word, hold.what) for hold in found.holds] == [
        ("no worker", "type code, capabilities tpu")
    ]
    assert found.earliest is None


async def test_dependencies_and_time_are_named(harness: Harness) -> None:
    parent = await harness.queue.enqueue("code")
    child = await harness.queue.enqueue("code", depends_on=[parent.id], delay=60)

    assert sorted(await holds(harness, child.id)) == [
        ("dependency", parent.id, False),
        ("time", "", True),
    ]


async def test_a_retry_waits_for_its_time_and_names_its_reason(harness: Harness) -> None:
    lease = await harness.running()
    await lease.fail("error", "broken")

    assert await holds(harness, lease.id) == [("time", "error", True)]


@pytest.mark.parametrize("gate", [{}, {"type": "code"}, {"lane": 1}])
async def test_a_pause_is_named(harness: Harness, gate: Any) -> None:
    handle = await harness.queue.enqueue("code")
    await harness.queue.pause(**gate)

    ((word, what, timed),) = await holds(harness, handle.id)

    assert (word, timed) == ("paused", False)
    assert what in ("queue", "type=code", "lane=1")


async def test_an_open_breaker_has_its_time_and_one_with_a_probe_has_none(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code")
    await harness.queue.limits.open_breaker("code", 60)
    assert await holds(harness, handle.id) == [("breaker", "open", True)]

    await harness.queue.limits.open_breaker("code", 0)
    await harness.queue.enqueue("code")
    await harness.queue.claim(worker="w1", types=["code"])
    (second,) = [task async for task in harness.queue.find(states=[State.READY])]
    assert await holds(harness, second.id) == [("breaker", "half-open", False)]


async def test_a_slowed_down_type_has_its_time(harness: Harness) -> None:
    lease = await harness.running()
    row = Parked(lease.id.ulid, lease.token, 120_000, "rate_limit", "code", 60_000)
    await park(harness.queue._internals.shard, [row])
    handle = await harness.queue.enqueue("code")

    assert await holds(harness, handle.id) == [("slowed", "code", True)]
    assert [word for word, *_ in await holds(harness, lease.id)] == ["time", "slowed"]


async def test_limits_are_named_and_a_rate_limit_has_its_time(server: Server) -> None:
    limits = [{"type": "code", "rate": 1, "per_sec": 60}, {"at_once": 1}]
    async with opened(server, limits=limits) as harness:
        await harness.running()
        handle = await harness.queue.enqueue("code")

        assert await holds(harness, handle.id) == [("limit", "code", True), ("limit", "*", False)]


async def test_limits_of_its_tenant_are_named_and_a_rate_limit_has_its_time(
    server: Server,
) -> None:
    limits = [{"key": "*", "rate": 1, "per_sec": 60}, {"key": "a", "type": "code", "at_once": 1}]
    async with opened(server, limits=limits) as harness:
        await harness.running(limit_key="a")
        one = await harness.queue.enqueue("code", limit_key="a")
        other = await harness.queue.enqueue("code", limit_key="b")

        expected = [("limit", "*@a", True), ("limit", "code@a", False)]
        assert await holds(harness, one.id) == expected
        assert await holds(harness, other.id) == []
        # Also after a claim has found the same, and the tenant is closed for a while.
        await harness.queue.claim(worker="w2", n=9)
        assert await holds(harness, one.id) == expected
        assert (await harness.queue.why(one.id)).turns is None


async def test_a_slowed_down_tenant_has_its_time(harness: Harness) -> None:
    lease = await harness.running(limit_key="a")
    row = Parked(lease.id.ulid, lease.token, 120_000, "rate_limit", "code", 60_000)
    await park(harness.queue._internals.shard, [row])
    handle = await harness.queue.enqueue("code", limit_key="a")

    assert await holds(harness, handle.id) == [("slowed", "@a", True)]


async def test_turns_of_other_tenants_before_it_are_counted(server: Server) -> None:
    async with opened(server, turns={"weights": {"b": 3}}) as harness:
        await register_worker(harness, "w9", "run")
        handles = {}
        for key, number in (("a", 5), ("b", 9), ("c", 2)):
            tasks = [{"type": "code", "limit_key": key}] * number
            handles[key] = await harness.queue.enqueue_many(tasks)
        await harness.queue.claim(worker="w1", n=4)
        waiting = [one for found in handles.values() for one in found]
        shown = {one.id: (await harness.queue.why(one.id)).turns for one in waiting}

        claimed = await harness.queue.claim(worker="w1", n=99)

        order = {lease.id: at for at, lease in enumerate(claimed)}
        assert {task: turns for task, turns in shown.items() if task in order} == order
        assert (await harness.queue.why(waiting[0].id)).turns is None


async def test_without_turns_none_are_counted(server: Server) -> None:
    async with opened(server, turns={"enabled": False}) as harness:
        handle = await harness.queue.enqueue("code", limit_key="a")

        assert (await harness.queue.why(handle.id)).turns is None


async def test_a_paused_dag_is_named(harness: Harness) -> None:
    async with harness.queue.dag("graph") as dag:
        one = dag.add({"type": "code"})
        dag.add({"type": "code"}, after=[one])
    await harness.queue.dags.pause(dag.id)
    (first,) = [task async for task in harness.queue.find(states=[State.READY])]

    assert await holds(harness, first.id) == [("paused", f"dag={dag.id.ulid}", False)]


async def test_an_exclusive_task_waits_for_an_idle_worker(harness: Harness) -> None:
    await harness.reaper.tick()
    lost = await harness.running(max_attempts=2)
    await harness.age(lost, 3600)
    await harness.reaper.tick()
    await harness.make_due(lost.id)
    assert [word for word, _, _ in await holds(harness, lost.id)] == ["time"]
    await promote(harness.queue._internals.shard)
    assert await holds(harness, lost.id) == [("alone", "", False)]

    await harness.queue.enqueue("review")
    assert len(await harness.queue.claim(worker="w2", types=["review"])) == 1
    assert await harness.queue.claim(worker="w2") == []

    found = await harness.queue.why(lost.id)
    assert [hold.what for hold in found.holds if hold.word == "alone"] == ["w2"]
    assert found.earliest is None


async def test_a_leased_task_names_its_worker(harness: Harness) -> None:
    lease = await harness.running()

    found = await harness.queue.why(lease.id)

    assert [(hold.word, hold.what) for hold in found.holds] == [("worker", "w1")]
    assert found.ahead is None


async def test_ended_and_unknown_tasks_have_no_reasons(harness: Harness) -> None:
    lease = await harness.running()
    await lease.complete()

    with pytest.raises(WrongState):
        await harness.queue.why(lease.id)
    with pytest.raises(TaskNotFound):
        await harness.queue.why(new_task_id())
