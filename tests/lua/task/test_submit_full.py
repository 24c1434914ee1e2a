"""submit: while too many tasks wait for the archive new ones are refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue import Context, State
from rqueue.core.outbox import Entry, archived
from rqueue.dags import submit as dag_submit
from rqueue.errors import Overloaded
from tests.harness import Harness, build
from tests.lua.dag.dags import unsent_dag
from tests.lua.rows import a_row, submit
from tests.servers import Server
from tests.worker.running import working


@pytest.fixture
async def narrow(server: Server) -> AsyncIterator[Harness]:
    """A harness whose archive may be two tasks behind."""
    client = server.client()
    harness = build(server.connection(), client, archive="postgres", max_outbox=2)
    yield harness
    await harness.queue.aclose()
    await client.aclose()


async def filled(harness: Harness) -> None:
    """As much has ended as may wait."""
    for _ in range(2):
        lease = await harness.running()
        await lease.complete()


async def test_a_full_outbox_refuses_new_tasks_and_leaves_no_key(narrow: Harness) -> None:
    await filled(narrow)
    before = await narrow.dump()

    calls: list[Any] = [
        narrow.queue.enqueue("code"),
        narrow.queue.enqueue("code", idempotency_key="k", tags=["t"]),
        narrow.queue.enqueue_many([{"type": "code"}] * 3),
    ]
    for call in calls:
        with pytest.raises(Overloaded, match="2 ended tasks wait for the archive"):
            await call

    assert await narrow.dump() == before


async def test_a_dag_is_refused_completely(narrow: Harness) -> None:
    await filled(narrow)
    dag = unsent_dag(narrow, {"a": [], "b": ["a"]})
    before = await narrow.dump()

    with pytest.raises(Overloaded):
        await dag_submit.submit(narrow.queue._internals.shard, dag.draft)

    assert await narrow.dump() == before


async def test_a_repeated_submit_of_an_accepted_task_succeeds(narrow: Harness) -> None:
    row = a_row()
    assert await submit(narrow, [row], most=2) == ["OK", 0]
    await filled(narrow)

    again = await submit(narrow, [row, a_row()], most=2)

    assert again == ["OK", 0, 1, "FULL", "2"]


async def test_running_tasks_continue_and_the_archive_makes_room(narrow: Harness) -> None:
    running = await narrow.running()
    await filled(narrow)

    await running.renew()
    await running.complete("done")

    entries = await narrow.client.xrange(narrow.keys.outbox())
    await archived(
        narrow.queue._internals.shard, [Entry(entry.decode(), []) for entry, _ in entries]
    )
    assert (await narrow.queue.enqueue("code")).created


async def test_revived_and_spawned_tasks_are_accepted(narrow: Harness) -> None:
    @narrow.queue.task("child")
    async def child() -> None:
        return

    @narrow.queue.task("parent")
    async def parent(ctx: Context) -> str:
        return await ctx.spawn(child.call())

    spawning = await narrow.queue.enqueue("parent", delay=60)
    dead = await narrow.running()
    await dead.fail("error", "no", permanent=True)
    await (await narrow.running()).complete()
    with pytest.raises(Overloaded):
        await narrow.queue.enqueue("code")

    await narrow.queue.dead.retry(dead.id)
    await narrow.queue.run_now(spawning.id)
    async with working(narrow.queue, types=["parent"]):
        spawned = await spawning.result(10)

    assert (await narrow.queue.get(dead.id)).state is State.READY
    assert (await narrow.queue.get(str(spawned))).state is State.READY
