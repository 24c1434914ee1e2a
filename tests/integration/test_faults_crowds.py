"""Very many workers: idle ones hardly load the server, stopped ones leave no keys."""

from __future__ import annotations

import asyncio

import pytest

from rqueue.maintenance.janitor import Janitor
from tests.integration.processes import Env, now, until

LOOPS, IDLE_SEC = 100, 2.0
IDLE = f"""
import asyncio
from application import queue

async def main():
    await asyncio.gather(*(queue.worker(name=f"w{{n}}").run() for n in range({LOOPS})))

asyncio.run(main())
"""

CHURN = """
import asyncio
from application import queue

async def come_and_go(number):
    worker = queue.worker(name=f"w{number}", concurrency=1)
    running = asyncio.create_task(worker.run())
    handle = await queue.enqueue("nap")
    await handle.result(timeout=20)
    worker.drain()
    await running

async def main():
    for start in range(0, 100, 20):
        await asyncio.gather(*map(come_and_go, range(start, start + 20)))

asyncio.run(main())
"""


@pytest.mark.alone
async def test_f46_idle_workers_do_not_load_the_server_and_receive_new_tasks(
    env: Env,
) -> None:
    client = env.harness.client
    env.fleet.start("-c", IDLE)
    await env.up(LOOPS)

    async def all_parked() -> bool:
        keys = [key async for key in client.scan_iter(match="*}:waiting:*")]
        return bool(sum([await client.zcard(key) for key in keys]) == LOOPS)

    await until(all_parked)
    before = await client.info()
    await asyncio.sleep(IDLE_SEC)
    after = await client.info()
    sent_at = now()
    handle = await env.harness.queue.enqueue("nap")
    line = await env.events.until("begin", handle.id.ulid)

    used = sum(after[name] - before[name] for name in ("used_cpu_user", "used_cpu_sys"))
    commands = after["total_commands_processed"] - before["total_commands_processed"]
    assert used / IDLE_SEC < 0.05
    # Each worker renews its claim and its registration, and reads its mailbox.
    assert commands / IDLE_SEC < 10 * LOOPS
    assert after["connected_clients"] < 3 * LOOPS
    assert line.at - sent_at < 1.0
    await env.ended([handle.id.ulid])


async def test_f47_stopped_workers_leave_no_keys(env: Env) -> None:
    client, keys = env.harness.client, env.harness.keys
    process = env.fleet.start("-c", CHURN)

    assert await asyncio.to_thread(process.wait) == 0
    await env.ended({line.task for line in env.events.lines("end")})
    names = [name async for name in client.scan_iter(match="*}:waiter:*")]
    await Janitor(env.harness.queue._internals.shard, silent_ms=0).tick()

    assert len(names) == 100
    assert await client.xinfo_consumers(keys.ready(), "workers") == []
    assert await client.zcard(keys.workers()) == 0
    assert [name async for name in client.scan_iter(match="*}:waiter:*")] == []
