"""Tasks that kill, raise or cannot be read, and many equal ones: each affects only itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from rqueue import State
from tests.integration.processes import RECOVERY_SEC, Env, Process, until

RAISED = (
    "cancel", "exit", "interrupt", "generator", "base", "stop", "lambda", "huge", "group",
    "wordless", "deep",
)  # fmt: skip
SERVICES = """
import asyncio
from random import Random
from rqueue.clock import SYSTEM
from rqueue.maintenance.promoter import Promoter
from rqueue.maintenance.reaper import Reaper
from application import queue

async def main():
    internals = queue._internals
    reaper = Reaper(internals.shard, internals.reader, queue.settings, clock=SYSTEM,
                    random=Random())
    promoter = Promoter(internals.shard)
    print("up", flush=True)
    while True:
        await asyncio.gather(reaper.tick(), promoter.tick())

asyncio.run(main())
"""

PRODUCERS = """
import asyncio, json
from rqueue import Queue

async def main():
    queues = [Queue("sales") for _ in range(16)]
    handles = await asyncio.gather(*(q.enqueue("nap", idempotency_key="same") for q in queues))
    print(json.dumps([[str(handle.id), handle.created] for handle in handles]))
    for queue in queues:
        await queue.aclose()

asyncio.run(main())
"""


async def test_f35_concurrent_reapers_and_promoters_move_each_task_once(env: Env) -> None:
    queue, logs = env.harness.queue, [env.fleet.folder / f"log-{number}" for number in range(3)]
    for _ in logs:
        env.fleet.start("-c", SERVICES)

    async def all_up() -> bool:
        return all(log.stat().st_size for log in logs)

    await until(all_up)
    await queue.enqueue_many(queue.call("lost", max_attempts=3) for _ in range(60))
    leases = await queue.claim(worker="gone", n=60)
    await asyncio.gather(*(lease.start() for lease in leases))
    await queue.enqueue_many(queue.call("late", delay=1.0) for _ in range(100))

    taken_at = await env.server_sec()
    await env.counted(lambda counts: counts[State.READY] == 160)

    rows = await env.harness.client.xrange(env.harness.keys.events())
    reclaimed = [fields[b"task"] for _, fields in rows if fields[b"event"] == b"task.retrying"]
    assert sorted(reclaimed) == sorted(lease.id.ulid.encode() for lease in leases)
    assert max((await env.reclaimed()).values()) - taken_at < RECOVERY_SEC
    assert {(await env.harness.task(lease.id)).reclaims for lease in leases} == {1}
    assert await env.harness.client.xlen(env.harness.keys.ready()) == 160
    assert await env.harness.client.zcard(env.harness.keys.delayed()) == 0


@pytest.fixture
async def pair(env: Env) -> AsyncIterator[Process]:
    """Two worker processes with one supervisor."""
    parent = env.fleet.worker("--processes", "2")
    yield parent
    # Terminated, not killed: its subprocesses would survive it.
    parent.terminate()
    await asyncio.to_thread(parent.wait)


@pytest.mark.usefixtures("pair")
async def test_f38_tasks_that_kill_their_workers_fail_no_other_task(env: Env) -> None:
    queue = env.harness.queue
    await env.up(2)
    calls = [queue.call("nap", max_attempts=3) for _ in range(500)]
    calls[100:100] = [
        queue.call("die", {"how": how}, max_attempts=2) for how in ("exit", "killed", "fault")
    ]
    handles = await queue.enqueue_many(calls)
    killers = [handle.id.ulid for handle in handles[100:103]]

    await env.ended({handle.id.ulid for handle in handles} - set(killers), killers)

    for killer in killers:
        found = await env.harness.task(killer)
        assert (found.attempts, found.reclaims, found.state) == (2, 2, State.DEAD_LETTERED)
        # Fewer if another killer came first. More if it was delivered and not confirmed, once for
        # each attempt, or if it began before that was known: after three such claims it is claimed
        # exclusively.
        assert 1 <= len(env.events.lines("begin", killer)) <= 8
    env.once_a_lease()


@pytest.mark.usefixtures("pair")
async def test_f38_a_killer_that_is_delivered_to_idle_workers_becomes_dead(env: Env) -> None:
    queue = env.harness.queue
    await env.up(2)
    # Its lane exists then: the next task is delivered to a mailbox.
    first = await queue.enqueue("die", {"how": "not"})
    await first.result(timeout=20)
    killer = await queue.enqueue("die", {"how": "exit"}, max_attempts=2)

    await env.ended([first.id.ulid], [killer.id.ulid])

    assert (await env.harness.task(killer.id)).reclaims == 2
    assert 2 <= len(env.events.lines("begin", killer.id.ulid)) <= 4


async def test_f39_a_payload_that_is_no_text_fails_only_its_own_task(env: Env) -> None:
    client, keys = env.harness.client, env.harness.keys
    odd = [{b"task": b"\xff\xfe{"}, {b"\xff": b"\xfe"}, {b"task": b'{"type":"\xc3\x28"}'}]
    for fields in odd:
        await client.xadd(keys.inbox(), {b"task": b'{"type":"nap"}'})
        await client.xadd(keys.inbox(), fields)

    env.fleet.worker()
    await env.events.until("end", count=3)

    async def dealt_with() -> bool:
        return not await client.xlen(keys.inbox())

    await until(dealt_with)
    await env.ended(line.task for line in env.events.lines("end"))
    assert await client.xlen(keys.rejected()) == len(odd)


async def test_f45_sixty_four_producers_with_one_idempotency_key_create_one_task(
    env: Env,
) -> None:
    for _ in range(4):
        env.fleet.start("-c", PRODUCERS)
    for process in env.fleet.processes:
        await asyncio.to_thread(process.wait)

    logs = [env.fleet.folder / f"log-{number}" for number in range(4)]
    acks = [tuple(ack) for log in logs for ack in json.loads(log.read_text())]
    assert len(acks) == 64
    assert len({task for task, _ in acks}) == 1
    assert sum(created for _, created in acks) == 1
    assert (await env.harness.queue.counts()).submitted == 1


async def test_f48_any_exception_of_a_handler_ends_its_attempt_and_not_its_worker(
    env: Env,
) -> None:
    queue = env.harness.queue
    worker = env.fleet.worker()
    calls = [
        queue.call(type, {"what": what}, max_attempts=1)
        for type in ("raise", "raise-plain")
        for what in RAISED
    ]
    bad = [handle.id.ulid for handle in await queue.enqueue_many(calls)]
    await env.ended([], bad)

    good = await queue.enqueue("nap")
    result = await good.result(timeout=20)

    assert result == worker.pid
    assert {line.pid for line in env.events.lines("begin")} == {worker.pid}
    for task in bad:
        (failure,) = (await env.harness.task(task)).failure_history
        assert failure.error
        assert len(failure.error) <= 10_000


async def test_an_exception_in_an_asyncio_task_ends_its_own_attempt_only(env: Env) -> None:
    queue = env.harness.queue
    worker = env.fleet.worker()
    neighbour = await queue.enqueue("nap", {"seconds": 1.0}, max_attempts=1)
    await env.events.until("begin", neighbour.id.ulid)
    calls = [
        queue.call("raise-sub", {"what": what}, max_attempts=1)
        for what in ("exit", "interrupt", "generator", "base", "loop")
    ]
    handles = await queue.enqueue_many(calls)

    await env.ended([neighbour.id.ulid], [handle.id.ulid for handle in handles])

    assert worker.poll() is None
    assert await neighbour.result(timeout=5) == worker.pid
    worker.terminate()
    assert await asyncio.to_thread(worker.wait) == 0
