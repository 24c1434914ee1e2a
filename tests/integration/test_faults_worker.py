"""Workers that are killed, stopped and blocked: their tasks are reclaimed in time, and end once."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.integration.processes import LEASE_SEC, RECOVERY_SEC, Env, freeze, now, thaw


async def test_f1_tasks_of_a_killed_worker_run_again_within_a_lease(env: Env) -> None:
    env.fleet.worker(), env.fleet.worker()
    await env.up(2)
    calls = [env.harness.queue.call("nap", {"seconds": 0.6}, max_attempts=3) for _ in range(8)]
    tasks = [handle.id.ulid for handle in await env.harness.queue.enqueue_many(calls)]
    await env.events.until("begin", count=8)
    victim = await env.holder(tasks[0])

    killed_at, server_killed_at = now(), await env.server_sec()
    victim.kill()
    await env.ended(tasks)

    lost = {line.task for line in env.events.lines("begin") if line.pid == victim.pid}
    again = {task: env.events.lines("begin", task)[1:] for task in tasks}
    assert (
        {task for task in tasks if again[task]} == lost == set(reclaimed := await env.reclaimed())
    )
    assert max(reclaimed.values()) - server_killed_at < RECOVERY_SEC
    # They are exclusive from then on and run one after the other.
    assert min(lines[0].at for lines in again.values() if lines) - killed_at < RECOVERY_SEC
    for task in tasks:
        found = await env.harness.task(task)
        assert (found.attempts, found.reclaims) == ((1, 1) if task in lost else (0, 0))
    env.once_a_lease()


async def test_f2_a_worker_killed_before_the_completion_runs_its_task_twice_and_ends_it_once(
    env: Env,
) -> None:
    env.fleet.worker(), env.fleet.worker()
    await env.up(2)
    handle = await env.harness.queue.enqueue("deed", max_attempts=2)

    result = await handle.result(timeout=20)
    await env.ended([handle.id.ulid])

    first, second = env.events.lines("end")
    assert (result, first.pid != second.pid) == (second.pid, True)
    assert second.at - first.at < RECOVERY_SEC
    assert (await env.harness.task(handle.id)).reclaims == 1


@pytest.mark.parametrize("end", ["completes", "fails"])
@pytest.mark.parametrize("when", ["while another runs it", "after another ended it"])
async def test_f3_f4_late_calls_of_a_stopped_worker_change_nothing(
    env: Env, end: str, when: str
) -> None:
    env.fleet.worker(), env.fleet.worker()
    await env.up(2)
    fails = end == "fails"
    handle = await env.harness.queue.enqueue("gate", {"fails": fails}, max_attempts=2)
    task = handle.id.ulid
    ends = ([], [task]) if fails else ([task], [])
    zombie = await env.holder(task)

    stopped_at = now()
    freeze(zombie)
    other = await env.holder(task, count=2)
    if when == "after another ended it":
        env.fleet.open_gate(other.pid)
        await env.ended(*ends)
    before = await mark(env, task)
    env.fleet.open_gate(zombie.pid)
    thaw(zombie)
    # It exits only after its last calls.
    zombie.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(zombie.wait)

    assert await mark(env, task) == before
    assert (code, env.events.lines("end")[-1].pid) == (0, zombie.pid)
    assert env.events.lines("begin")[1].at - stopped_at < RECOVERY_SEC
    env.fleet.open_gate(other.pid)
    await env.ended(*ends)
    assert fails or await handle.result(timeout=5) == other.pid


async def mark(env: Env, task: str) -> tuple[object, ...]:
    """All stored data of a task, and the ended tasks."""
    keys, client = env.harness.keys, env.harness.client
    return (
        await client.hgetall(keys.task(task)),
        await client.get(keys.result(task)),
        await client.lrange(keys.failures(task), 0, -1),
        await client.xlen(keys.outbox()),
    )


async def test_f5_a_handler_that_holds_the_interpreter_is_fenced(env: Env) -> None:
    env.fleet.worker(), env.fleet.worker()
    await env.up(2)
    handle = await env.harness.queue.enqueue("hog", {"seconds": 2.5 * LEASE_SEC}, max_attempts=2)
    hog = await env.holder(handle.id.ulid)

    result = await handle.result(timeout=20)
    await env.events.until("end", count=2)
    await env.ended([handle.id.ulid])

    first, second = env.events.lines("begin")
    assert (first.pid, second.pid) == (hog.pid, result)
    assert second.at - first.at < RECOVERY_SEC
    assert hog.poll() is None


async def test_f6_f7_a_terminated_worker_releases_its_tasks_at_once(env: Env) -> None:
    env.fleet.worker("--grace", "0.5"), env.fleet.worker("--grace", "0.5")
    await env.up(2)
    short = await env.harness.queue.enqueue("nap", {"seconds": 0.3})
    leaver = await env.holder(short.id.ulid)
    queue = env.harness.queue
    calls = [queue.call("nap", {"seconds": 1.5}) for _ in range(7)]
    tasks = [handle.id.ulid for handle in await queue.enqueue_many(calls)]
    await env.events.until("begin", count=8)

    asked_at = now()
    leaver.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(leaver.wait)
    await env.ended([short.id.ulid, *tasks])

    given = [task for task in tasks if env.events.lines("begin", task)[0].pid == leaver.pid]
    again = [env.events.lines("begin", task)[1] for task in given]
    assert code == 0
    assert len(env.events.lines("begin", short.id.ulid)) == 1
    assert given
    assert {(await env.harness.task(task)).attempts for task in given} == {0}
    # All its slots are occupied then: the first one is free when its own tasks end.
    assert min(line.at for line in again) - asked_at < 1.5 + 1.0
    env.once_a_lease()
