"""submit: where too much waits for the archive nothing new is taken, and what runs goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue import Context, State
from rqueue.core.outbox import Entry, archived
from rqueue.dags import submit as dag_submit
from rqueue.errors import Overloaded
from tests.harness import Harness, build
from tests.lua.dag.planted import a_plant
from tests.lua.rows import a_row, submit
from tests.servers import Server
from tests.worker.working import working


@pytest.fixture
async def narrow(server: Server) -> AsyncIterator[Harness]:
    """A house whose archive may be two tasks behind."""
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


async def test_a_full_outbox_takes_no_new_work_and_leaves_no_key(narrow: Harness) -> None:
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


async def test_a_dag_is_refused_whole(narrow: Harness) -> None:
    await filled(narrow)
    plant = a_plant(narrow, {"a": [], "b": ["a"]})
    before = await narrow.dump()

    with pytest.raises(Overloaded):
        await dag_submit.submit(narrow.queue._internals.shard, plant.planting)

    assert await narrow.dump() == before


async def test_what_was_taken_before_is_still_said_to_be(narrow: Harness) -> None:
    row = a_row()
    assert await submit(narrow, [row], most=2) == ["OK", 0]
    await filled(narrow)

    again = await submit(narrow, [row, a_row()], most=2)

    assert again == ["OK", 0, 1, "FULL", "2"]


async def test_what_runs_goes_on_and_room_is_made_by_the_archive(narrow: Harness) -> None:
    running = await narrow.running()
    await filled(narrow)

    await running.renew()
    await running.complete("done")

    entries = await narrow.client.xrange(narrow.keys.outbox())
    await archived(
        narrow.queue._internals.shard, [Entry(entry.decode(), []) for entry, _ in entries]
    )
    assert (await narrow.queue.enqueue("code")).created


async def test_what_is_revived_and_spawned_is_taken_all_the_same(narrow: Harness) -> None:
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
