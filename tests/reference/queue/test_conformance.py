"""The same scenario on a real server, in a user's test and on the model, with the same outcome."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any, Protocol

import anyio
import pytest

from rqueue import Handle, Queue, State, Task
from rqueue.clock import SYSTEM
from rqueue.errors import RQueueError
from rqueue.maintenance.promoter import Promoter
from rqueue.maintenance.reaper import Reaper
from rqueue.settings.load import Settings
from rqueue.task.attempt.outcome import Reason
from rqueue.testing import Memory, memory
from tests.queue.until import until
from tests.reference.queue.model_queue import ModelQueue
from tests.servers import Server
from tests.testing.shop import SETTINGS, Shop

ID = re.compile("task_[0-9A-Z]{26}")
NOWHERE = "redis://nowhere.invalid:1"


class Environment(Protocol):
    """An environment in which the scenario runs."""

    async def crash(self, type: str, *, started: bool) -> None:
        """A worker claims a task of the type and stops without a trace."""
        ...

    async def reap(self) -> None:
        """The lease expires and is reaped."""
        ...

    async def run_all(self) -> None:
        """Runs all tasks until nothing is left."""
        ...


Opened = Callable[[], AbstractAsyncContextManager[tuple[Shop, Environment]]]


class UserTestEnvironment:
    """The environment of users' tests: the real library with the clock of a test."""

    def __init__(self, held: Memory) -> None:
        self.held = held

    async def crash(self, type: str, *, started: bool) -> None:
        self.held.crash_worker(types=[type], started=started)

    async def reap(self) -> None:
        self.held.advance(self.held.queue.settings.lease_sec)

    async def run_all(self) -> None:
        await self.held.run_until_idle(advance=True)


class ModelEnvironment:
    """The reference model of the state machine tests."""

    def __init__(self, model: ModelQueue) -> None:
        self.model = model

    async def crash(self, type: str, *, started: bool) -> None:
        self.model.crash_worker(types=[type], started=started)

    async def reap(self) -> None:
        self.model.advance(self.model.queue.settings.lease_sec)

    async def run_all(self) -> None:
        await self.model.run_until_idle()


class ServerEnvironment:
    """A real worker and the real moves; leases and delays are shortened in Redis."""

    def __init__(self, queue: Queue, client: Any) -> None:
        self.queue = queue
        self.client = client
        self.keys = queue._internals.shard.keys
        self.promoter = Promoter(queue._internals.shard)
        self.reaper = Reaper(
            queue._internals.shard,
            queue._internals.runtime.reader,
            queue.settings,
            clock=SYSTEM,
            random=Random(7),
        )

    async def crash(self, type: str, *, started: bool) -> None:
        (lease,) = await self.queue.claim(worker="dead", types=[type])
        if started:
            await lease.start()
        entry = await self.client.hget(self.keys.task(lease.id.ulid), "entry")
        long_ms = round(self.queue.settings.lease_sec * 1000)
        group, key = "workers", self.keys.ready()
        await self.client.xclaim(key, group, "dead", 0, [entry], idle=long_ms, justid=True)

    async def reap(self) -> None:
        await self.reaper.tick()
        await self.promoter.tick()

    async def run_all(self) -> None:
        worker = self.queue.worker(concurrency=1)
        async with anyio.create_task_group() as group:
            group.start_soon(worker.run)
            await until(self.idle)
            while soonest := await self.client.zrange(self.keys.delayed(), 0, 0):
                await self.client.zadd(self.keys.delayed(), {soonest[0]: 1})
                await self.promoter.tick()
                await until(self.idle)
            worker.drain()

    async def idle(self) -> bool:
        """Whether no task is left that the worker may run."""
        counts = await self.queue.counts()
        served = (counts.by_type.get(type, {}) for type in self.queue._internals.registry.handlers)
        busy = (State.READY, State.CLAIMED, State.RUNNING, State.VALIDATING)
        return not any(states.get(state) for states in served for state in busy)


@asynccontextmanager
async def on_server(server: Server) -> AsyncIterator[tuple[Shop, Environment]]:
    shop, client = Shop(server.url), server.client()
    yield shop, ServerEnvironment(shop.queue, client)
    await shop.queue.aclose()
    await client.aclose()


@asynccontextmanager
async def in_test() -> AsyncIterator[tuple[Shop, Environment]]:
    shop = Shop(NOWHERE)
    with memory(shop.queue) as held:
        yield shop, UserTestEnvironment(held)


@asynccontextmanager
async def on_model() -> AsyncIterator[tuple[Shop, Environment]]:
    model = ModelQueue(Settings.load("shop", url=NOWHERE, **SETTINGS))
    yield Shop(NOWHERE, queue=model.queue), ModelEnvironment(model)


OTHERS = pytest.mark.parametrize("other", [in_test, on_model])


async def run_tasks(shop: Shop, env: Environment) -> dict[str, Any]:
    """Runs the scenario. Returns everything that must be the same in all environments."""
    queue, handles = shop.queue, {}

    async def add(name: str, handle: Handle) -> Handle:
        handles[name] = handle
        return handle

    await add("lost", await shop.resize.enqueue("lost"))
    await env.crash("resize", started=True)
    await add("given back", await shop.plain.enqueue(1))
    await env.crash("plain", started=False)
    await env.reap()
    await add("low", await shop.resize.options(priority=90).enqueue("low"))
    await add("high", await shop.resize.options(priority=5).enqueue("high", width=7))
    await add("delayed", await shop.resize.options(delay_sec=3, priority=1).enqueue("delayed"))
    await add("flaky", await shop.flaky.enqueue(3))
    await add("hopeless", await shop.flaky.options(max_attempts=2).enqueue(9))
    await add("proved", await shop.proved.enqueue(3))
    await add("unproved", await shop.proved.enqueue(4))
    await add("later", await shop.later.enqueue(33))
    parent = await add("refused", await shop.refuse.enqueue())
    await add("child", await shop.plain.options(depends_on=[parent.id]).enqueue(2))
    await add("large", await shop.large.enqueue())
    await add("slow", await shop.slow.enqueue())
    await add("bad", await queue.enqueue("resize", {"path": ["no", "text"]}))
    await add("unknown", await queue.enqueue("unknown"))
    gone = await add("gone", await shop.plain.enqueue(3))
    await add("orphan", await shop.plain.options(depends_on=[gone.id]).enqueue(4))
    await gone.cancel("not wanted")
    once = shop.plain.options(idempotency_key="once")
    first = await add("once", await once.enqueue(5))
    again = await once.enqueue(6)
    await env.run_all()
    after = await once.enqueue(7)
    return {
        "seen": shop.seen,
        "dedupe": [(one.id == first.id, one.created) for one in (again, after)],
        "counts": dict((await queue.counts()).by_state),
        **{name: facts_of(await handle.task(), handles) for name, handle in handles.items()},
    }


def facts_of(task: Task, handles: dict[str, Handle]) -> dict[str, Any]:
    """The facts of one task, without those that vary: ids, names and instants."""
    names = {str(handle.id): name for name, handle in handles.items()}
    reason = task.cancel_reason or ""
    for id, name in names.items():
        reason = reason.replace(id, name)
    return {
        "state": task.state,
        # Not the epoch: a task for which no slot was free in time is released and claimed again.
        "counted": (task.attempts, task.reclaims, task.life),
        "failures": [(one.attempt, one.reason) for one in task.failure_history],
        "reason": (task.failure_reason, reason),
        "reported": (task.progress, task.checkpoint, task.logs, task.cost_usd, task.tokens_used),
        "steps": task.steps,
        "result": (task.result, [names[parent] for parent in task.blocked_by]),
        "damaged": (task.damaged, task.unreadable),
        "moments": [
            getattr(task, name) is not None
            for name in ("started_at", "completed_at", "cancelled_at", "available_at", "claim")
        ],
    }


@OTHERS
async def test_all_environments_have_the_same_outcome(server: Server, other: Opened) -> None:
    async with on_server(server) as (shop, env):
        real = await run_tasks(shop, env)
    async with other() as (shop, env):
        found = await run_tasks(shop, env)

    assert found == real
    assert real["lost"]["counted"][:2] == (1, 1)
    assert real["hopeless"]["state"] is State.DEAD_LETTERED
    assert real["proved"]["state"] is State.COMPLETED
    assert real["unproved"]["failures"] == [
        (1, Reason.INCOMPLETE),
        (2, Reason.INVALID_OUTPUT),
        (3, Reason.INVALID_OUTPUT),
    ]


async def operate(queue: Queue) -> list[Any]:
    """Runs operator calls one after the other. Returns their results."""
    low = await queue.enqueue("code", {"n": 1}, priority=80, tags=["a"], external_id="mine")
    waits = await queue.enqueue("code", delay_sec=600, tags=["a", "b"])
    found: list[Any] = [(await queue.enqueue("code", external_id="mine")).created]
    await queue.set_priority(low.id, 3)
    await queue.edit("mine", {"n": 2})
    await queue.pause()
    found.append(len(await queue.claim(worker="w")))
    await queue.resume()
    (lease,) = await queue.claim(worker="w", n=5)
    await lease.start()
    found.append((lease.task.payload, lease.task.spec.priority, lease.id == low.id))
    found.append([task.id == waits.id async for task in queue.find(tag="b")])
    found.append(sorted([task.state async for task in queue.find(tag="a")]))
    found.append(await lease.fail("auth_failure", "no key"))
    found.append(await queue.dead.retry("mine", delay=60))
    found.append(await queue.run_now(low.id))
    found.append(await queue.run_now(low.id))
    await queue.reschedule(waits.id, delay=1)
    swept = await queue.purge(states=["PENDING", "READY"], tag="a", dry_run=True)
    found.append((swept.found, swept.done))
    found.append((await queue.purge(states=None, tag="a")).done)
    await queue.enqueue_many([queue.call("tiers", priority=at) for at in (8, 12, 28, 50, 88)])
    counts = await queue.counts()
    found.append((dict(counts.by_state), counts.by_type, dict(counts.by_tier), counts.submitted))
    found.append(await queue.cancel("mine"))
    return found


@OTHERS
async def test_operator_calls_return_the_same_everywhere(server: Server, other: Opened) -> None:
    async with on_server(server) as (shop, _):
        real = await operate(shop.queue)
    async with other() as (shop, _):
        found = await operate(shop.queue)

    assert found == real


REFUSALS: list[Callable[[Queue], Any]] = [
    lambda queue: queue.get("nothing"),
    lambda queue: queue.dead.discard("nothing"),
    lambda queue: queue.enqueue("code", depends_on=["nothing"]),
    lambda queue: queue.enqueue("code", "x" * 300_000),
    lambda queue: queue.enqueue("no name"),
    lambda queue: queue.find(states=["NOWHERE"]).__anext__(),
    lambda queue: queue.lease("nothing", "1:token"),
]


@pytest.mark.parametrize("at", range(len(REFUSALS)))
async def test_refusals_have_the_same_error_on_server_and_model(server: Server, at: int) -> None:
    errors = []
    async with on_server(server) as (real, _), on_model() as (shop, _):
        for queue in (real.queue, shop.queue):
            with pytest.raises(RQueueError) as error:
                await REFUSALS[at](queue)
            errors.append((type(error.value), ID.sub("task", str(error.value))))

    assert errors[0] == errors[1]
