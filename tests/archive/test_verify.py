"""Verify: tasks in neither the outbox nor the archive are lost, and repair sends them again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from rqueue import State
from rqueue.archive.maintenance.verify import Ends, Verifier
from rqueue.core import ended, outbox
from rqueue.core.outbox import Entry
from rqueue.errors import ConfigError, LeaseLost, StoreUnavailable
from rqueue.store.shard import Shard
from tests.archive.archived_harness import ArchivedHarness, archived_harness
from tests.harness import Harness
from tests.postgres import Database
from tests.servers import Server


async def lose_outbox(archived: ArchivedHarness) -> None:
    await archived.harness.client.delete(archived.harness.keys.outbox())
    await archived.harness.client.hdel(archived.harness.keys.stats(), "outbox")


async def every_end(archived: ArchivedHarness) -> set[tuple[str, int]]:
    """Ends tasks as completed, cancelled, dead, discarded and retried. Two do not end."""
    completed = await archived.ended("a")
    cancelled = (await archived.queue.enqueue("b")).id
    await archived.queue.cancel(cancelled)
    dead, discarded, revived = [await archived.harness.running(f"d{at}") for at in range(3)]
    for lease in (dead, discarded, revived):
        await lease.fail(permanent=True)
    await archived.queue.dead.discard(discarded.id)
    await archived.queue.dead.retry(revived.id)
    await archived.harness.running("e")
    await archived.queue.enqueue("f")
    return {(task, 1) for task in (completed, cancelled, dead.id, discarded.id)}


async def test_tasks_in_the_outbox_are_not_lost(archived: ArchivedHarness) -> None:
    await every_end(archived)

    found = await archived.queue.archive.verify()

    assert found.is_whole
    assert (found.looked_at, found.pending) == (4, 4)
    assert found.counter == found.counted == 6


async def test_archived_tasks_are_not_lost(archived: ArchivedHarness) -> None:
    await every_end(archived)
    await archived.archiver.tick()

    found = await archived.queue.archive.verify()

    assert found.is_whole
    assert (found.looked_at, found.pending, found.counted) == (4, 0, 0)


async def test_tasks_in_neither_place_are_lost_until_they_are_repaired(
    archived: ArchivedHarness,
) -> None:
    lives = await every_end(archived)
    await lose_outbox(archived)

    found = await archived.queue.archive.verify()
    assert (set(found.lost), found.is_whole, found.resent) == (lives, False, 0)

    repaired = await archived.queue.archive.verify(repair=True)
    assert repaired.resent == 4
    await archived.archiver.tick()
    assert (await archived.queue.archive.verify()).is_whole
    assert archived.tables.lives() == lives


async def test_a_repeated_repair_writes_each_row_once(archived: ArchivedHarness) -> None:
    lives = await every_end(archived)
    await lose_outbox(archived)
    verifier = Verifier(
        archived.tables.archive,
        archived.queue._internals.shard,
        archived.queue.settings,
        archived.queue._internals.clock,
    )
    found = await verifier.verify()

    await asyncio.gather(verifier.repair(found), verifier.repair(found))
    await archived.archiver.tick()

    assert archived.tables.lives() == lives
    assert (archived.tables.number("conflicts"), archived.tables.number("quarantine")) == (0, 0)
    assert (await archived.queue.archive.verify()).is_whole


async def test_tasks_that_may_still_run_are_read_atomically(
    archived: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await every_end(archived)
    await archived.archiver.tick()

    async def in_two(*_: object) -> None:
        raise AssertionError("it could complete between its result and its hash")

    monkeypatch.setattr(ended, "read_plain", in_two)
    found = await archived.queue.archive.verify()

    assert (found.looked_at, found.is_whole) == (4, True)


async def test_a_different_row_is_reported(archived: ArchivedHarness) -> None:
    task = await archived.ended()
    await archived.archiver.tick()
    archived.tables.database.psql("UPDATE rqueue.task_lives SET digest = '\\x00'")

    found = await archived.queue.archive.verify()

    assert (found.different, found.lost, found.is_whole) == ([(task, 1)], [], False)


async def test_a_wrong_counter_is_reported(archived: ArchivedHarness) -> None:
    await archived.ended()
    await archived.harness.client.hincrby(archived.harness.keys.stats(), "outbox", 3)

    found = await archived.queue.archive.verify()

    assert (found.counter, found.counted, found.is_whole) == (4, 1, False)


@pytest.mark.parametrize("drift", [3, -3])
async def test_a_wrong_counter_is_repaired(archived: ArchivedHarness, drift: int) -> None:
    await archived.ended()
    await archived.harness.client.hincrby(archived.harness.keys.stats(), "outbox", drift)

    found = await archived.queue.archive.verify(repair=True)

    assert (found.counter, found.counted, found.recounted) == (1 + drift, 1, 1)
    assert (await archived.queue.archive.verify()).is_whole
    await archived.archiver.tick()
    assert (await archived.queue.counts()).outbox == 0


async def test_the_counter_is_not_changed_while_the_outbox_changes(
    archived: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await archived.ended()
    await archived.harness.client.hincrby(archived.harness.keys.stats(), "outbox", 3)
    verifier = Verifier(
        archived.tables.archive,
        archived.queue._internals.shard,
        archived.queue.settings,
        archived.queue._internals.clock,
    )
    found = await verifier.verify()
    measure = outbox.measure

    async def late(shard: Shard) -> outbox.OutboxSize:
        seen = await measure(shard)
        await archived.ended()
        return seen

    monkeypatch.setattr(outbox, "measure", late)
    await verifier.repair(found)

    assert found.recounted is None
    assert (await archived.queue.counts()).outbox == 7


async def test_a_missing_month_is_reported(archived: ArchivedHarness) -> None:
    now = datetime.now(UTC)  # noqa: TID251 (the month that it is)
    table = f"task_lives_{now.year:04}_{now.month:02}"
    archived.tables.database.psql(f"DROP TABLE rqueue.{table}")

    found = await archived.queue.archive.verify()

    assert (found.missing_months, found.is_whole) == ([table], False)


async def test_expired_tasks_without_a_row_are_counted(
    archived: ArchivedHarness,
) -> None:
    forgotten = [await archived.ended() for _ in range(2)]
    await archived.ended()
    await archived.queue.cancel((await archived.queue.enqueue("b")).id)
    await archived.archiver.tick()
    await archived.ended()
    await archived.harness.client.delete(
        *(archived.harness.keys.task(task.ulid) for task in forgotten)
    )
    assert (await archived.queue.archive.verify()).unaccounted == 0

    ids = [task.uuid for task in forgotten]
    archived.tables.database.psql("DELETE FROM rqueue.task_lives WHERE id = ANY(%s)", ids)

    found = await archived.queue.archive.verify()
    assert found.ends == {State.COMPLETED: Ends(4, 1, 1), State.CANCELLED: Ends(1, 1, 0)}
    assert (found.unaccounted, found.lost, found.is_whole) == (2, [], True)


async def test_ends_are_counted_in_the_outbox_the_archive_and_the_quarantine(
    archived: ArchivedHarness,
) -> None:
    await every_end(archived)
    assert (await archived.queue.archive.verify()).ends == {
        State.COMPLETED: Ends(1, 0, 1), State.CANCELLED: Ends(2, 0, 2),
    }  # fmt: skip
    await archived.archiver.tick()
    assert (await archived.queue.archive.verify()).unaccounted == 0
    task = await archived.ended()
    await archived.harness.client.hset(
        archived.harness.keys.task(task.ulid), "holder", "not three words"
    )
    await archived.archiver.tick()
    await archived.ended()
    await lose_outbox(archived)

    found = await archived.queue.archive.verify()

    assert found.ends[State.COMPLETED] == Ends(3, 1, 0)
    assert (found.quarantined, len(found.lost), found.unaccounted) == (1, 1, 0)


@pytest.mark.parametrize(
    ("retention", "counted"),
    [
        ({"completed_days": 1}, {State.CANCELLED}),
        ({"cancelled_days": 1}, {State.COMPLETED}),
        ({"dead_days": 1}, {State.COMPLETED}),
    ],
)
async def test_states_that_are_pruned_are_not_counted(
    valkey: Server, postgres: Database, retention: dict[str, int], counted: set[State]
) -> None:
    async with archived_harness(valkey, postgres, retention=retention) as archived:
        await every_end(archived)

        found = await archived.queue.archive.verify()

    assert found.ends.keys() == counted


async def test_a_quarantined_task_is_not_lost(archived: ArchivedHarness) -> None:
    task = await archived.ended()
    await archived.harness.client.hset(
        archived.harness.keys.task(task.ulid), "holder", "not three words"
    )
    await archived.archiver.tick()

    found = await archived.queue.archive.verify()

    assert (found.quarantined, found.lost, found.is_whole) == (1, [], True)


async def test_a_quarantined_life_does_not_hide_a_lost_later_one(archived: ArchivedHarness) -> None:
    lease = await archived.harness.running()
    await lease.fail(permanent=True)
    archived.tables.database.psql(
        "INSERT INTO rqueue.quarantine (queue, entry, task, line, kept, reason)"
        " VALUES (%s, '1-1', %s, '1 DEAD_LETTERED {}', '', 'unfit')",
        archived.queue.settings.name, lease.id.ulid,
    )  # fmt: skip
    await archived.queue.dead.retry(lease.id)
    (again,) = await archived.queue.claim(worker="w1")
    await again.start()
    await again.complete()
    await lose_outbox(archived)

    found = await archived.queue.archive.verify()

    assert (found.lost, found.is_whole) == ([(lease.id, 2)], False)


@pytest.mark.parametrize("quarantined", [True, False])
async def test_a_late_cost_does_not_hide_a_lost_end(
    archived: ArchivedHarness, quarantined: bool
) -> None:
    lease = await archived.harness.running()
    await archived.queue.cancel(lease.id)
    await lose_outbox(archived)
    with pytest.raises(LeaseLost):
        await lease.spend(0.25)
    if quarantined:
        await archived.harness.client.delete(archived.harness.keys.outbox())
        await archived.harness.client.xadd(
            archived.harness.keys.outbox(), {lease.id.ulid: "1 COST none"}
        )
        await archived.archiver.tick()

    found = await archived.queue.archive.verify()

    assert (found.lost, found.pending, found.quarantined) == ([(lease.id, 1)], 0, quarantined)


async def test_a_pruned_task_is_not_lost(valkey: Server, postgres: Database) -> None:
    async with archived_harness(valkey, postgres, retention={"completed_days": 1}) as archived:
        old, new = await archived.ended(), await archived.ended()
        await archived.archiver.tick()
        long_ago = archived.queue._internals.clock.now_ms() - round(
            timedelta(days=2) / timedelta(milliseconds=1)
        )
        await archived.harness.client.hset(
            archived.harness.keys.task(old.ulid), "finished", long_ago
        )
        archived.tables.database.psql("DELETE FROM rqueue.task_lives")

        found = await archived.queue.archive.verify()

    assert found.lost == [(new, 1)]


async def test_tasks_that_end_meanwhile_are_never_lost(archived: ArchivedHarness) -> None:
    async def work() -> None:
        for _ in range(30):
            await archived.ended()
            await archived.archiver.tick()

    working = asyncio.create_task(work())
    while not working.done():
        found = await archived.queue.archive.verify()
        assert (found.lost, found.unaccounted) == ([], 0)
    await working

    assert (await archived.queue.archive.verify()).is_whole


async def test_a_task_that_is_archived_meanwhile_is_not_lost(
    archived: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await every_end(archived)
    walk = outbox.walk

    async def late(shard: Shard) -> AsyncIterator[list[Entry]]:
        await archived.archiver.tick()
        async for page in walk(shard):
            yield page

    monkeypatch.setattr(outbox, "walk", late)
    found = await archived.queue.archive.verify()

    assert (found.lost, found.pending, found.is_whole) == ([], 0, True)


async def test_a_task_that_is_retried_meanwhile_is_not_lost(
    archived: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await archived.harness.running()
    await lease.fail(permanent=True)
    await lose_outbox(archived)
    walk = outbox.walk

    async def late(shard: Shard) -> AsyncIterator[list[Entry]]:
        await archived.queue.dead.retry(lease.id)
        async for page in walk(shard):
            yield page

    with monkeypatch.context() as patched:
        patched.setattr(outbox, "walk", late)
        verifier = Verifier(
            archived.tables.archive,
            archived.queue._internals.shard,
            archived.queue.settings,
            archived.queue._internals.clock,
        )
        patched.setattr(verifier, "count", nothing)
        patched.setattr(verifier, "count_ends", nothing)
        found = await verifier.verify()

    assert found.lost == []


async def nothing(_: object) -> None:
    """Counts nothing."""


async def test_an_unavailable_server_is_an_error(valkey: Server, own_pg: Database) -> None:
    async with archived_harness(valkey, own_pg, call_timeout_sec=2) as archived:
        await archived.ended()
        own_pg.kill()
        with pytest.raises(StoreUnavailable):
            await archived.queue.archive.verify(repair=True)
        own_pg.start()

        assert await archived.harness.client.xlen(archived.harness.keys.outbox()) == 1


async def test_verify_needs_an_archive(alone: Harness) -> None:
    with pytest.raises(ConfigError):
        await alone.queue.archive.verify()
