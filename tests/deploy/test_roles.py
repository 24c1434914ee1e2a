"""The whole life of tasks with the rights of each role: no needed command is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from rqueue import Context, Lease, RetryPolicy, State
from rqueue.archive.schema import migrate_all
from rqueue.clock import SYSTEM
from rqueue.core.events import START
from rqueue.dead.reviews import Resolution
from rqueue.errors import BudgetExceeded, LeaseLost
from rqueue.process.service import Service
from rqueue.services import scheduler_services
from rqueue.store.keys import Keys
from tests.cli.conftest import Shell
from tests.deploy.access import admin, client_of, url_of
from tests.deploy.conftest import RoleQueues
from tests.harness import NAME
from tests.worker.running import ended, working

KEYS = Keys("rq", NAME)
NOW = RetryPolicy.immediate()


def services(queues: RoleQueues) -> dict[str, Service]:
    """The services of a scheduler, with archiver and notifier, to be ticked by hand."""
    return {
        one.name: one for one in scheduler_services(queues.scheduler._internals.service_parts, "s1")
    }


async def tick_all(queues: RoleQueues) -> None:
    for service in services(queues).values():
        await service.tick()


async def migrated(queues: RoleQueues) -> None:
    """Creates the tables of the archive."""
    archive = queues.scheduler._internals.runtime.archive
    assert archive is not None
    await migrate_all(archive, SYSTEM.now())


@asynccontextmanager
async def scheduling(queues: RoleQueues) -> AsyncIterator[None]:
    """A running scheduler."""
    await migrated(queues)
    stop = asyncio.Event()
    running = asyncio.create_task(queues.scheduler.scheduler("s1").run(stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(running, 20)


async def held(queues: RoleQueues, type: str = "code", **options: Any) -> Lease:
    """A new task that a worker has started by hand."""
    await queues.producer.enqueue(type, {}, **options)
    (lease,) = await queues.worker.claim(worker="hand", types=[type], wait=5)
    await lease.start()
    return lease


async def age(queues: RoleQueues, lease: Lease) -> None:
    """Ages a lease as if it had not been renewed for long."""
    with admin(queues.server) as client:
        entry: Any = client.hget(KEYS.task(lease.id.ulid), "entry")
        client.xclaim(KEYS.ready(), "workers", "hand", 0, [entry], idle=600_000, justid=True)


async def following(queues: RoleQueues) -> None:
    """Waits for the DAG that follows another."""
    async with asyncio.timeout(20):
        while len([one async for one in queues.reader.dags.list()]) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_workers_and_a_scheduler_run_what_a_producer_submits(queues: RoleQueues) -> None:
    @queues.worker.task("flaky", retry=NOW, max_attempts=2)
    async def flaky(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise ValueError("the first attempt fails")
        return "done"

    @queues.worker.task("leaf")
    async def leaf(n: int) -> int:
        return n

    @queues.worker.task("rich")
    async def rich(ctx: Context) -> int:
        await ctx.progress(0.5)
        await ctx.checkpoint({"at": 1})
        await ctx.log("half way")
        await ctx.spend(0.01, tokens_in=3, model="m")
        assert await ctx.step("once", lambda: 1) == 1
        await ctx.artifacts.put(b"text", name="a.txt")
        first = await ctx.spawn(leaf.call(1), wait=True)
        return sum([first, *await ctx.gather(leaf.call(2), leaf.call(3))])

    @queues.worker.task("slow")
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(queues.worker), scheduling(queues):
        handles = await queues.producer.enqueue_many(
            [
                {"type": "flaky"},
                {"type": "rich", "max_cost_usd": 1},
                {"type": "leaf", "payload": {"n": 7}, "delay": 0.05},
                {"type": "leaf", "payload": {"n": 8}, "limit_key": "acme", "tags": ["t"]},
                {"type": "leaf", "payload": {"n": 9}, "idempotency_key": "k"},
            ]
        )
        assert [await one.result(timeout=30) for one in handles] == ["done", 6, 7, 8, 9]
        with client_of(queues.server, "producer") as client:
            client.xadd(KEYS.inbox(), {"task": '{"type": "leaf", "payload": {"n": 1}}'})
        endless = await queues.producer.enqueue("slow")
        await ended(queues.reader, str(endless.id), State.RUNNING)
        await queues.producer.cancel(endless.id)
        await ended(queues.reader, str(endless.id), State.CANCELLED)


async def test_an_attempt_can_end_in_every_way(queues: RoleQueues) -> None:
    await migrated(queues)
    lease = await held(queues)
    await lease.renew()
    await lease.validate()
    await lease.complete("done")
    await (await held(queues)).release()
    (again,) = await queues.worker.claim(worker="hand")
    await again.start()
    await again.park(0.001)
    await tick_all(queues)
    (parked,) = await queues.worker.claim(worker="hand", wait=5)
    await parked.start()
    assert await parked.fail("rate_limit", retry_after=60) is State.RETRYING
    await queues.producer.limits.lift_slowdown("code")
    await queues.producer.run_now(parked.id)
    (last,) = await queues.worker.claim(worker="hand")
    await last.start()
    assert await last.fail("error", "no", permanent=True) is State.DEAD_LETTERED
    await queues.producer.dead.retry(last.id)
    (revived,) = await queues.worker.claim(worker="hand")
    await revived.start()
    await age(queues, revived)
    await tick_all(queues)
    with pytest.raises(LeaseLost):
        await revived.complete()
    (after,) = await queues.worker.claim(worker="hand", wait=5)
    await after.start()
    with pytest.raises(LeaseLost):
        await revived.spend(0.5)
    await after.complete()
    await tick_all(queues)


async def test_a_producer_can_change_and_cancel_its_tasks(queues: RoleQueues) -> None:
    await migrated(queues)
    producer = queues.producer
    task = (await producer.enqueue("code", {"n": 1}, delay=3600)).id
    await producer.edit(task, {"n": 2})
    await producer.set_priority(task, 80)
    await producer.reschedule(task, delay=60)
    await producer.run_now(task)
    await producer.enqueue("code", idempotency_key="k", if_exists="replace")
    await producer.enqueue("code", idempotency_key="k", if_exists="replace")
    await producer.enqueue("code", idempotency_key="k", if_exists="debounce", delay=60)
    await producer.enqueue(
        "late", deadline=SYSTEM.now() + timedelta(seconds=0.2), on_deadline="fail"
    )
    decisions: list[Resolution] = ["modify_and_retry", "cancel", "escalate"]
    for resolution in decisions:
        lease = await held(queues, "doomed")
        await lease.fail(permanent=True)
        payload = {"n": 3} if resolution == "modify_and_retry" else None
        await producer.dead.decide(lease.id, resolution, payload=payload)
        await queues.producer.resume()
    assert [one async for one in producer.dead.reviews()]
    await producer.pause()
    await producer.pause(type="code")
    assert await queues.worker.claim(worker="hand") == []
    await producer.resume(type="code")
    await producer.resume()
    await producer.limits.open_breaker("code", seconds=60)
    await producer.limits.close_breaker("code")
    await producer.budgets.set(5.0)
    await producer.budgets.set(1.0, worker="hand")
    await producer.roles.set("human:alice", "human")
    await producer.roles.drop("human:alice")
    lease = await held(queues, "dear", max_cost_usd=0.1)
    with pytest.raises(BudgetExceeded):
        await lease.spend(0.2)
    await lease.complete()
    await producer.budgets.set(None, worker="hand", afresh=True)
    assert [one async for one in producer.find(states=[State.READY])]
    assert [one async for one in producer.find(tag="none")] == []
    await tick_all(queues)
    await producer.purge(states=None)


async def test_dags_can_be_submitted_run_paused_and_cancelled(queues: RoleQueues) -> None:
    await migrated(queues)

    @queues.worker.task("add")
    async def add(a: int, b: int = 0) -> int:
        return a + b

    then = queues.producer.dag("next")
    then.add(add.call(1))
    async with queues.producer.dag("sum", budget_usd=5, on_complete=then) as dag:
        first = dag.add(add.call(1), name="first")
        dag.add(add.call(first.output, 5), name="second", trigger="all_done")
    await dag.pause()
    await tick_all(queues)
    await dag.resume()
    async with working(queues.worker), scheduling(queues):
        assert (await dag.wait(30)).completed == 2
        assert (await dag.results())["second"] == 6
        await following(queues)
    async with queues.producer.dag("given up") as other:
        other.add(queues.producer.call("nobody"))
    await queues.producer.dags.set_budget(other.id, 3)
    await other.cancel("no need")
    await tick_all(queues)
    assert (await queues.reader.dags.status(other.id)).status == "cancelled"


async def test_the_services_of_a_scheduler_have_the_rights_they_need(queues: RoleQueues) -> None:
    await migrated(queues)
    await queues.producer.enqueue_many([{"type": "code", "limit_key": "a", "tags": ["t"]}] * 3)
    lease = await held(queues, deadline=SYSTEM.now() + timedelta(seconds=20))
    await lease.fail("error", "no", permanent=True)
    waiting = asyncio.create_task(queues.worker.claim(worker="other", types=["none"], wait=0.2))
    with admin(queues.server) as client:
        # Traces of a crash for the sweeps to repair.
        client.xadd(KEYS.ready(), {"task": "nobody"})
        client.sadd(KEYS.orphans(), "nobody")
        client.zadd(KEYS.lane(1), {"nobody": 1})
        client.hset(KEYS.task("torn"), "score", 1)
        client.zadd(KEYS.workers(), {"gone": 1})
        client.zadd(KEYS.sinks(), {"gone": 1})
        client.hset(KEYS.waiter("gone"), "consumer", "gone")
        client.xadd(KEYS.inbox(), {"task": "not json"})
    assert await waiting == []
    for _ in range(3):
        await tick_all(queues)
    with admin(queues.server) as client:
        assert not client.exists(KEYS.task("torn"), KEYS.waiter("gone"), KEYS.orphans())
        assert client.xlen(KEYS.rejected()) == 1
    assert (await queues.scheduler.archive.verify(repair=True)).lost == []
    await queues.scheduler.archive.leave()


async def test_a_reader_can_read_everything(queues: RoleQueues) -> None:
    task = (await queues.producer.enqueue("code", limit_key="a", required_capabilities=["gpu"])).id
    blocked = (await queues.producer.enqueue("code", depends_on=[task])).id
    await queues.producer.limits.open_breaker("code", seconds=60)
    lease = await held(queues, "other")
    reader = queues.reader
    for one in (task, blocked):
        assert (await reader.get(one)).id == one
        assert (await reader.why(one)).holds
        assert (await reader.explain(one)).task == one
    assert (await reader.why(lease.id)).state is State.RUNNING
    assert (await reader.counts())["READY"] == 1
    assert {one.id async for one in reader.find()} >= {task, blocked, lease.id}
    assert [one async for one in reader.dead.list()] == []
    assert [one.name async for one in reader.events(START, wait=0.01)]
    await reader.limits.breakers()
    await reader.limits.slowdowns()
    await reader.budgets.list()
    await reader.roles.list()
    await reader.fleet.workers()
    await reader.notices.sinks()
    assert [one.total async for one in reader.dags.list()] == [2]


async def test_reading_commands_run_as_a_reader(queues: RoleQueues) -> None:
    await queues.producer.enqueue("code")
    shell = Shell({"RQUEUE_REDIS_URL": url_of(queues.server, "reader"), "RQUEUE_QUEUE": NAME})

    for words in (("counts",), ("tasks",), ("workers",), ("top", "--once"), ("doctor",)):
        result = await shell.run(*words)
        assert result.exit_code in (0, 1), (words, result.stderr)
        assert "Traceback" not in result.output
