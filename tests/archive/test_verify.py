"""Verifying: what is lost is found, what is on its way is not called so, and repair brings it."""

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
from tests.archive.archived_harness import ArchivedHarness, housed
from tests.harness import Harness
from tests.postgres import Database
from tests.servers import Server


async def lose_outbox(home: ArchivedHarness) -> None:
    await home.harness.client.delete(home.harness.keys.outbox())
    await home.harness.client.hdel(home.harness.keys.stats(), "outbox")


async def every_end(home: ArchivedHarness) -> set[tuple[str, int]]:
    """A completed, a cancelled, a dead, a discarded and a revived task, and two that live."""
    completed = await home.ended("a")
    cancelled = (await home.queue.enqueue("b")).id
    await home.queue.cancel(cancelled)
    dead, discarded, revived = [await home.harness.running(f"d{at}") for at in range(3)]
    for lease in (dead, discarded, revived):
        await lease.fail(permanent=True)
    await home.queue.dead.discard(discarded.id)
    await home.queue.dead.retry(revived.id)
    await home.harness.running("e")
    await home.queue.enqueue("f")
    return {(task, 1) for task in (completed, cancelled, dead.id, discarded.id)}


async def test_what_waits_is_no_difference(home: ArchivedHarness) -> None:
    await every_end(home)

    found = await home.queue.archive.verify()

    assert found.is_whole
    assert (found.looked_at, found.pending) == (4, 4)
    assert found.counter == found.counted == 6


async def test_what_is_archived_is_no_difference(home: ArchivedHarness) -> None:
    await every_end(home)
    await home.archiver.tick()

    found = await home.queue.archive.verify()

    assert found.is_whole
    assert (found.looked_at, found.pending, found.counted) == (4, 0, 0)


async def test_what_is_in_neither_is_lost_until_it_is_sent_again(home: ArchivedHarness) -> None:
    lives = await every_end(home)
    await lose_outbox(home)

    found = await home.queue.archive.verify()
    assert (set(found.lost), found.is_whole, found.resent) == (lives, False, 0)

    repaired = await home.queue.archive.verify(repair=True)
    assert repaired.resent == 4
    await home.archiver.tick()
    assert (await home.queue.archive.verify()).is_whole
    assert home.kept.lives() == lives


async def test_repaired_twice_each_has_one_row(home: ArchivedHarness) -> None:
    lives = await every_end(home)
    await lose_outbox(home)
    verifier = Verifier(
        home.kept.archive,
        home.queue._internals.shard,
        home.queue.settings,
        home.queue._internals.clock,
    )
    found = await verifier.verify()

    await asyncio.gather(verifier.repair(found), verifier.repair(found))
    await home.archiver.tick()

    assert home.kept.lives() == lives
    assert (home.kept.number("conflicts"), home.kept.number("quarantine")) == (0, 0)
    assert (await home.queue.archive.verify()).is_whole


async def test_what_may_still_run_is_read_in_one_piece(
    home: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await every_end(home)
    await home.archiver.tick()

    async def in_two(*_: object) -> None:
        raise AssertionError("it could complete between its result and its hash")

    monkeypatch.setattr(ended, "read_plain", in_two)
    found = await home.queue.archive.verify()

    assert (found.looked_at, found.is_whole) == (4, True)


async def test_a_row_with_another_content_is_named(home: ArchivedHarness) -> None:
    task = await home.ended()
    await home.archiver.tick()
    home.kept.database.psql("UPDATE rqueue.task_lives SET digest = '\\x00'")

    found = await home.queue.archive.verify()

    assert (found.different, found.lost, found.is_whole) == ([(task, 1)], [], False)


async def test_a_counter_that_lies_is_named(home: ArchivedHarness) -> None:
    await home.ended()
    await home.harness.client.hincrby(home.harness.keys.stats(), "outbox", 3)

    found = await home.queue.archive.verify()

    assert (found.counter, found.counted, found.is_whole) == (4, 1, False)


@pytest.mark.parametrize("drift", [3, -3])
async def test_a_counter_that_lies_is_put_right(home: ArchivedHarness, drift: int) -> None:
    await home.ended()
    await home.harness.client.hincrby(home.harness.keys.stats(), "outbox", drift)

    found = await home.queue.archive.verify(repair=True)

    assert (found.counter, found.counted, found.recounted) == (1 + drift, 1, 1)
    assert (await home.queue.archive.verify()).is_whole
    await home.archiver.tick()
    assert (await home.queue.counts()).outbox == 0


async def test_a_counter_is_left_alone_while_the_outbox_moves(
    home: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.ended()
    await home.harness.client.hincrby(home.harness.keys.stats(), "outbox", 3)
    verifier = Verifier(
        home.kept.archive,
        home.queue._internals.shard,
        home.queue.settings,
        home.queue._internals.clock,
    )
    found = await verifier.verify()
    measure = outbox.measure

    async def late(shard: Shard) -> outbox.OutboxSize:
        seen = await measure(shard)
        await home.ended()
        return seen

    monkeypatch.setattr(outbox, "measure", late)
    await verifier.repair(found)

    assert found.recounted is None
    assert (await home.queue.counts()).outbox == 7


async def test_a_month_that_is_missing_is_named(home: ArchivedHarness) -> None:
    now = datetime.now(UTC)  # noqa: TID251 (the month that it is)
    table = f"task_lives_{now.year:04}_{now.month:02}"
    home.kept.database.psql(f"DROP TABLE rqueue.{table}")

    found = await home.queue.archive.verify()

    assert (found.missing_months, found.is_whole) == ([table], False)


async def test_what_redis_has_forgotten_and_the_archive_has_not_is_told(
    home: ArchivedHarness,
) -> None:
    forgotten = [await home.ended() for _ in range(2)]
    await home.ended()
    await home.queue.cancel((await home.queue.enqueue("b")).id)
    await home.archiver.tick()
    await home.ended()
    await home.harness.client.delete(*(home.harness.keys.task(task.ulid) for task in forgotten))
    assert (await home.queue.archive.verify()).unaccounted == 0

    ids = [task.uuid for task in forgotten]
    home.kept.database.psql("DELETE FROM rqueue.task_lives WHERE id = ANY(%s)", ids)

    found = await home.queue.archive.verify()
    assert found.ends == {State.COMPLETED: Ends(4, 1, 1), State.CANCELLED: Ends(1, 1, 0)}
    assert (found.unaccounted, found.lost, found.is_whole) == (2, [], True)


async def test_every_end_is_accounted_for_wherever_it_is(home: ArchivedHarness) -> None:
    await every_end(home)
    assert (await home.queue.archive.verify()).ends == {
        State.COMPLETED: Ends(1, 0, 1), State.CANCELLED: Ends(2, 0, 2),
    }  # fmt: skip
    await home.archiver.tick()
    assert (await home.queue.archive.verify()).unaccounted == 0
    task = await home.ended()
    await home.harness.client.hset(home.harness.keys.task(task.ulid), "holder", "not three words")
    await home.archiver.tick()
    await home.ended()
    await lose_outbox(home)

    found = await home.queue.archive.verify()

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
async def test_what_is_not_kept_for_ever_is_not_counted(
    valkey: Server, postgres: Database, retention: dict[str, int], counted: set[State]
) -> None:
    async with housed(valkey, postgres, retention=retention) as home:
        await every_end(home)

        found = await home.queue.archive.verify()

    assert found.ends.keys() == counted


async def test_what_is_in_quarantine_is_not_lost(home: ArchivedHarness) -> None:
    task = await home.ended()
    await home.harness.client.hset(home.harness.keys.task(task.ulid), "holder", "not three words")
    await home.archiver.tick()

    found = await home.queue.archive.verify()

    assert (found.quarantined, found.lost, found.is_whole) == (1, [], True)


async def test_a_life_in_quarantine_says_nothing_of_the_next(home: ArchivedHarness) -> None:
    lease = await home.harness.running()
    await lease.fail(permanent=True)
    home.kept.database.psql(
        "INSERT INTO rqueue.quarantine (queue, entry, task, line, kept, reason)"
        " VALUES (%s, '1-1', %s, '1 DEAD_LETTERED {}', '', 'unfit')",
        home.queue.settings.name, lease.id.ulid,
    )  # fmt: skip
    await home.queue.dead.retry(lease.id)
    (again,) = await home.queue.claim(worker="w1")
    await again.start()
    await again.complete()
    await lose_outbox(home)

    found = await home.queue.archive.verify()

    assert (found.lost, found.is_whole) == ([(lease.id, 2)], False)


@pytest.mark.parametrize("quarantined", [True, False])
async def test_a_late_cost_is_not_the_end_of_its_life(
    home: ArchivedHarness, quarantined: bool
) -> None:
    lease = await home.harness.running()
    await home.queue.cancel(lease.id)
    await lose_outbox(home)
    with pytest.raises(LeaseLost):
        await lease.spend(0.25)
    if quarantined:
        await home.harness.client.delete(home.harness.keys.outbox())
        await home.harness.client.xadd(home.harness.keys.outbox(), {lease.id.ulid: "1 COST none"})
        await home.archiver.tick()

    found = await home.queue.archive.verify()

    assert (found.lost, found.pending, found.quarantined) == ([(lease.id, 1)], 0, quarantined)


async def test_what_was_pruned_is_not_lost(valkey: Server, postgres: Database) -> None:
    async with housed(valkey, postgres, retention={"completed_days": 1}) as home:
        old, new = await home.ended(), await home.ended()
        await home.archiver.tick()
        long_ago = home.queue._internals.clock.now_ms() - round(
            timedelta(days=2) / timedelta(milliseconds=1)
        )
        await home.harness.client.hset(home.harness.keys.task(old.ulid), "finished", long_ago)
        home.kept.database.psql("DELETE FROM rqueue.task_lives")

        found = await home.queue.archive.verify()

    assert found.lost == [(new, 1)]


async def test_what_ends_and_is_archived_meanwhile_is_never_lost(home: ArchivedHarness) -> None:
    async def work() -> None:
        for _ in range(30):
            await home.ended()
            await home.archiver.tick()

    working = asyncio.create_task(work())
    while not working.done():
        found = await home.queue.archive.verify()
        assert (found.lost, found.unaccounted) == ([], 0)
    await working

    assert (await home.queue.archive.verify()).is_whole


async def test_what_is_archived_between_two_looks_is_not_lost(
    home: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await every_end(home)
    walk = outbox.walk

    async def late(shard: Shard) -> AsyncIterator[list[Entry]]:
        await home.archiver.tick()
        async for page in walk(shard):
            yield page

    monkeypatch.setattr(outbox, "walk", late)
    found = await home.queue.archive.verify()

    assert (found.lost, found.pending, found.is_whole) == ([], 0, True)


async def test_what_lives_again_between_two_looks_is_not_lost(
    home: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await home.harness.running()
    await lease.fail(permanent=True)
    await lose_outbox(home)
    walk = outbox.walk

    async def late(shard: Shard) -> AsyncIterator[list[Entry]]:
        await home.queue.dead.retry(lease.id)
        async for page in walk(shard):
            yield page

    with monkeypatch.context() as patched:
        patched.setattr(outbox, "walk", late)
        verifier = Verifier(
            home.kept.archive,
            home.queue._internals.shard,
            home.queue.settings,
            home.queue._internals.clock,
        )
        patched.setattr(verifier, "count", nothing)
        patched.setattr(verifier, "count_ends", nothing)
        found = await verifier.verify()

    assert found.lost == []


async def nothing(_: object) -> None:
    """Counts nothing."""


async def test_a_server_that_is_away_is_said_to_be(valkey: Server, own_pg: Database) -> None:
    async with housed(valkey, own_pg, call_timeout_sec=2) as home:
        await home.ended()
        own_pg.kill()
        with pytest.raises(StoreUnavailable):
            await home.queue.archive.verify(repair=True)
        own_pg.start()

        assert await home.harness.client.xlen(home.harness.keys.outbox()) == 1


async def test_without_an_archive_there_is_nothing_to_verify(alone: Harness) -> None:
    with pytest.raises(ConfigError):
        await alone.queue.archive.verify()
