"""The whole life of tasks where each role has its rights and no others: nobody is refused anything
that it is there for.
"""

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
from tests.deploy.conftest import Crew
from tests.harness import NAME
from tests.worker.working import ended, working

KEYS = Keys("rq", NAME)
NOW = RetryPolicy.immediate()


def services(crew: Crew) -> dict[str, Service]:
    """What a scheduler runs, the archiver and the notifier among it, to be ticked by hand."""
    return {
        one.name: one for one in scheduler_services(crew.scheduler._internals.service_parts, "s1")
    }


async def tick_all(crew: Crew) -> None:
    for service in services(crew).values():
        await service.tick()


async def migrated(crew: Crew) -> None:
    """The archive has its tables."""
    archive = crew.scheduler._internals.runtime.archive
    assert archive is not None
    await migrate_all(archive, SYSTEM.now())


@asynccontextmanager
async def scheduling(crew: Crew) -> AsyncIterator[None]:
    """A scheduler beside the test."""
    await migrated(crew)
    stop = asyncio.Event()
    running = asyncio.create_task(crew.scheduler.scheduler("s1").run(stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(running, 20)


async def held(crew: Crew, type: str = "code", **options: Any) -> Lease:
    """A new task that a worker has started by hand."""
    await crew.producer.enqueue(type, {}, **options)
    (lease,) = await crew.worker.claim(worker="hand", types=[type], wait=5)
    await lease.start()
    return lease


async def age(crew: Crew, lease: Lease) -> None:
    """Lets a lease look as if it had not been renewed for long."""
    with admin(crew.server) as client:
        entry: Any = client.hget(KEYS.task(lease.id.ulid), "entry")
        client.xclaim(KEYS.ready(), "workers", "hand", 0, [entry], idle=600_000, justid=True)


async def following(crew: Crew) -> None:
    """Returns when the DAG that follows another is there."""
    async with asyncio.timeout(20):
        while len([one async for one in crew.reader.dags.list()]) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_workers_and_a_scheduler_run_what_a_producer_submits(crew: Crew) -> None:
    @crew.worker.task("flaky", retry=NOW, max_attempts=2)
    async def flaky(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise ValueError("the first attempt fails")
        return "done"

    @crew.worker.task("leaf")
    async def leaf(n: int) -> int:
        return n

    @crew.worker.task("rich")
    async def rich(ctx: Context) -> int:
        await ctx.progress(0.5)
        await ctx.checkpoint({"at": 1})
        await ctx.log("half way")
        await ctx.spend(0.01, tokens_in=3, model="m")
        assert await ctx.step("once", lambda: 1) == 1
        await ctx.artifacts.put(b"text", name="a.txt")
        first = await ctx.spawn(leaf.call(1), wait=True)
        return sum([first, *await ctx.gather(leaf.call(2), leaf.call(3))])

    @crew.worker.task("slow")
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(crew.worker), scheduling(crew):
        handles = await crew.producer.enqueue_many(
            [
                {"type": "flaky"},
                {"type": "rich", "max_cost_usd": 1},
                {"type": "leaf", "payload": {"n": 7}, "delay": 0.05},
                {"type": "leaf", "payload": {"n": 8}, "limit_key": "acme", "tags": ["t"]},
                {"type": "leaf", "payload": {"n": 9}, "idempotency_key": "k"},
            ]
        )
        assert [await one.result(timeout=30) for one in handles] == ["done", 6, 7, 8, 9]
        with client_of(crew.server, "producer") as client:
            client.xadd(KEYS.inbox(), {"task": '{"type": "leaf", "payload": {"n": 1}}'})
        endless = await crew.producer.enqueue("slow")
        await ended(crew.reader, str(endless.id), State.RUNNING)
        await crew.producer.cancel(endless.id)
        await ended(crew.reader, str(endless.id), State.CANCELLED)


async def test_every_way_that_an_attempt_ends(crew: Crew) -> None:
    await migrated(crew)
    lease = await held(crew)
    await lease.renew()
    await lease.validate()
    await lease.complete("done")
    await (await held(crew)).release()
    (again,) = await crew.worker.claim(worker="hand")
    await again.start()
    await again.park(0.001)
    await tick_all(crew)
    (parked,) = await crew.worker.claim(worker="hand", wait=5)
    await parked.start()
    assert await parked.fail("rate_limit", retry_after=60) is State.RETRYING
    await crew.producer.limits.lift_slowdown("code")
    await crew.producer.run_now(parked.id)
    (last,) = await crew.worker.claim(worker="hand")
    await last.start()
    assert await last.fail("error", "no", permanent=True) is State.DEAD_LETTERED
    await crew.producer.dead.retry(last.id)
    (revived,) = await crew.worker.claim(worker="hand")
    await revived.start()
    await age(crew, revived)
    await tick_all(crew)
    with pytest.raises(LeaseLost):
        await revived.complete()
    (after,) = await crew.worker.claim(worker="hand", wait=5)
    await after.start()
    with pytest.raises(LeaseLost):
        await revived.spend(0.5)
    await after.complete()
    await tick_all(crew)


async def test_what_a_producer_decides_about_its_tasks(crew: Crew) -> None:
    await migrated(crew)
    producer = crew.producer
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
        lease = await held(crew, "doomed")
        await lease.fail(permanent=True)
        payload = {"n": 3} if resolution == "modify_and_retry" else None
        await producer.dead.decide(lease.id, resolution, payload=payload)
        await crew.producer.resume()
    assert [one async for one in producer.dead.reviews()]
    await producer.pause()
    await producer.pause(type="code")
    assert await crew.worker.claim(worker="hand") == []
    await producer.resume(type="code")
    await producer.resume()
    await producer.limits.open_breaker("code", seconds=60)
    await producer.limits.close_breaker("code")
    await producer.budgets.set(5.0)
    await producer.budgets.set(1.0, worker="hand")
    await producer.roles.set("human:alice", "human")
    await producer.roles.drop("human:alice")
    lease = await held(crew, "dear", max_cost_usd=0.1)
    with pytest.raises(BudgetExceeded):
        await lease.spend(0.2)
    await lease.complete()
    await producer.budgets.set(None, worker="hand", afresh=True)
    assert [one async for one in producer.find(states=[State.READY])]
    assert [one async for one in producer.find(tag="none")] == []
    await tick_all(crew)
    await producer.purge(states=None)


async def test_dags_are_submitted_run_and_steered(crew: Crew) -> None:
    await migrated(crew)

    @crew.worker.task("add")
    async def add(a: int, b: int = 0) -> int:
        return a + b

    then = crew.producer.dag("next")
    then.add(add.call(1))
    async with crew.producer.dag("sum", budget_usd=5, on_complete=then) as dag:
        first = dag.add(add.call(1), name="first")
        dag.add(add.call(first.output, 5), name="second", trigger="all_done")
    await dag.pause()
    await tick_all(crew)
    await dag.resume()
    async with working(crew.worker), scheduling(crew):
        assert (await dag.wait(30)).completed == 2
        assert (await dag.results())["second"] == 6
        await following(crew)
    async with crew.producer.dag("given up") as other:
        other.add(crew.producer.call("nobody"))
    await crew.producer.dags.set_budget(other.id, 3)
    await other.cancel("no need")
    await tick_all(crew)
    assert (await crew.reader.dags.status(other.id)).status == "cancelled"


async def test_the_services_keep_a_queue_in_order(crew: Crew) -> None:
    await migrated(crew)
    await crew.producer.enqueue_many([{"type": "code", "limit_key": "a", "tags": ["t"]}] * 3)
    lease = await held(crew, deadline=SYSTEM.now() + timedelta(seconds=20))
    await lease.fail("error", "no", permanent=True)
    waiting = asyncio.create_task(crew.worker.claim(worker="other", types=["none"], wait=0.2))
    with admin(crew.server) as client:
        # What a crash may leave, and what the sweeps go through.
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
        await tick_all(crew)
    with admin(crew.server) as client:
        assert not client.exists(KEYS.task("torn"), KEYS.waiter("gone"), KEYS.orphans())
        assert client.xlen(KEYS.rejected()) == 1
    assert (await crew.scheduler.archive.verify(repair=True)).lost == []
    await crew.scheduler.archive.leave()


async def test_a_reader_sees_everything(crew: Crew) -> None:
    task = (await crew.producer.enqueue("code", limit_key="a", required_capabilities=["gpu"])).id
    blocked = (await crew.producer.enqueue("code", depends_on=[task])).id
    await crew.producer.limits.open_breaker("code", seconds=60)
    lease = await held(crew, "other")
    reader = crew.reader
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


async def test_the_command_line_of_a_reader(crew: Crew) -> None:
    await crew.producer.enqueue("code")
    shell = Shell({"RQUEUE_REDIS_URL": url_of(crew.server, "reader"), "RQUEUE_QUEUE": NAME})

    for words in (("counts",), ("tasks",), ("workers",), ("top", "--once"), ("doctor",)):
        result = await shell.run(*words)
        assert result.exit_code in (0, 1), (words, result.stderr)
        assert "Traceback" not in result.output
