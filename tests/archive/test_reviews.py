"""Reviews: committed, then let go of, and read from both places as one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from rqueue import TaskId
from rqueue.archive.reports import Asked, read_reviews, write_reviews
from rqueue.dead import reviews
from rqueue.dead.reviews import Resolution, Review
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.services import archiver_of
from tests.archive.archived_harness import ArchivedHarness, housed
from tests.harness import NAME, opened
from tests.postgres import Database
from tests.servers import Server


async def decided(home: ArchivedHarness, note: str = "why", **said: Any) -> TaskId:
    """A dead task that a reviewer gave another life."""
    lease = await home.harness.running()
    await lease.fail(permanent=True)
    await home.queue.dead.decide(lease.id, "retry", by="human:ada", note=note, **said)
    (again,) = await home.queue.claim(worker="w1")
    await again.start()
    await again.complete()
    return lease.id


async def waiting(home: ArchivedHarness) -> int:
    found: int = await home.harness.client.xlen(home.harness.keys.reviews())
    return found


async def listed(home: ArchivedHarness, **when: Any) -> list[Review]:
    return [review async for review in home.queue.dead.reviews(**when)]


async def test_a_decision_is_a_row_before_it_leaves_the_stream(
    home: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await decided(home, cause="agent_bug")
    before = await listed(home)

    async def killed(*_: object) -> int:
        raise StoreUnavailable("Redis")

    with monkeypatch.context() as patched:
        patched.setattr(reviews, "reviewed", killed)
        with pytest.raises(StoreUnavailable):
            await home.archiver.tick()
    assert (home.kept.number("dead_letter_reviews"), await waiting(home)) == (1, 1)
    assert await listed(home) == before

    done = await home.archiver.tick()
    assert (done.reviews, home.kept.number("dead_letter_reviews"), await waiting(home)) == (1, 1, 0)
    assert await listed(home) == before
    assert (before[0].task, before[0].by, before[0].cause) == (task, "human:ada", "agent_bug")


async def test_a_second_delivery_changes_nothing(home: ArchivedHarness) -> None:
    await decided(home)
    page = await reviews.page(home.queue._internals.shard)
    await home.archiver.tick()
    home.kept.database.psql("UPDATE rqueue.dead_letter_reviews SET note = 'first'")

    await write_reviews(home.kept.archive, NAME, page)

    assert home.kept.database.psql("SELECT note FROM rqueue.dead_letter_reviews") == [("first",)]


async def test_all_that_a_review_says_is_in_its_row(home: ArchivedHarness) -> None:
    lease = await home.harness.running("code")
    await lease.fail("error", "boom \0 7", permanent=True)
    await home.queue.dead.decide(
        lease.id, "modify_and_retry", payload={"x": 1}, by="human:ada", note="changed"
    )
    other = await home.harness.running("other")
    await other.fail(permanent=True)
    later = home.queue._internals.clock.now() + timedelta(hours=1)
    await home.queue.dead.decide(other.id, "wait", not_before=later)
    before = await listed(home)

    await home.archiver.tick()

    assert await waiting(home) == 0
    assert await listed(home) == before
    assert before[0].diff
    assert before[1].not_before is not None


async def test_decisions_are_read_by_time_from_both_places(home: ArchivedHarness) -> None:
    await decided(home, "archived")
    await home.archiver.tick()
    await decided(home, "waits")

    first, second = await listed(home)

    assert (first.note, second.note) == ("archived", "waits")
    assert await listed(home, until=first.at) == []
    assert await listed(home, since=second.at, until="2999-01-01T00:00:00Z") == [second]
    asked = Asked(NAME, only=second.task)
    assert [one async for one in read_reviews(home.kept.archive, asked)] == []


async def test_who_does_not_know_where_the_archive_is_is_told_of_no_decision(
    home: ArchivedHarness, valkey: Server
) -> None:
    await decided(home)
    await home.archiver.tick()

    async with opened(valkey) as other:
        with pytest.raises(ConfigError, match="RQUEUE_POSTGRES_URL") as raised:
            [review async for review in other.queue.dead.reviews()]

    assert raised.value.setting == "postgres_url"


async def test_what_can_be_no_row_stays_and_holds_up_no_other(home: ArchivedHarness) -> None:
    add = home.harness.client.xadd
    key = home.harness.keys.reviews()
    bad = {"task": "no-id", "life": "1", "at": "1", "resolution": "retry"}
    await add(key, bad)
    await add(key, {**bad, "task": "01JZ0000007000800000000000", "life": str(2**40)})
    await add(key, {"anything": "else"})
    await decided(home)

    done = await home.archiver.tick()

    assert (done.reviews, home.kept.number("dead_letter_reviews"), await waiting(home)) == (1, 1, 3)
    assert (await home.archiver.tick()).reviews == 0


async def test_two_archivers_at_once_write_each_once(home: ArchivedHarness) -> None:
    for at in range(5):
        await decided(home, str(at))
    other = archiver_of(home.queue._internals.service_parts, home.kept.archive, "a2")

    await asyncio.gather(home.archiver.tick(), other.tick())

    assert (home.kept.number("dead_letter_reviews"), await waiting(home)) == (5, 0)


@pytest.mark.parametrize("resolution", ["escalate", "retry", "wait", "cancel", "delete"])
async def test_sql_knows_what_was_decided_of_a_row_that_was_there(
    home: ArchivedHarness, resolution: Resolution
) -> None:
    task = await died(home)
    await home.archiver.tick()
    assert told(home, task) == (1, False, None)
    later = home.queue._internals.clock.now() + timedelta(hours=1)

    await home.queue.dead.decide(
        task, resolution, not_before=later if resolution == "wait" else None
    )
    await home.archiver.tick()

    assert told(home, task) == (1, True, resolution)


async def test_sql_knows_the_last_of_several_decisions(home: ArchivedHarness) -> None:
    task = await died(home)
    await home.archiver.tick()

    for number in range(12):
        await home.queue.dead.decide(task, "escalate", note=str(number))
    await home.queue.dead.decide(task, "retry")
    await home.archiver.tick()
    home.kept.database.psql("UPDATE rqueue.dead_letter_reviews SET at = '2026-01-01'")
    home.kept.database.psql(
        "UPDATE rqueue.dead_letter_reviews SET entry = '7-' || CASE resolution"
        " WHEN 'retry' THEN '12' ELSE note END"
    )

    assert told(home, task) == (1, True, "retry")


async def test_a_decision_says_nothing_of_the_next_life(home: ArchivedHarness) -> None:
    task = await died(home)
    await home.queue.dead.decide(task, "retry")
    (again,) = await home.queue.claim(worker="w1")
    await again.start()
    await again.fail(permanent=True)

    await home.archiver.tick()

    assert told(home, task) == (2, False, None)


async def died(home: ArchivedHarness) -> TaskId:
    """A dead task that nobody has decided about."""
    lease = await home.harness.running()
    await lease.fail(permanent=True)
    return lease.id


def told(home: ArchivedHarness, task: TaskId) -> tuple[object, ...]:
    """What SQL is told of a task: its last life that ended, and what was decided about that."""
    (found,) = home.kept.database.psql(
        "SELECT life, reviewed, resolution FROM rqueue.tasks WHERE id = %s", task.uuid
    )
    return found


async def test_without_postgresql_decisions_wait(valkey: Server, own_pg: Database) -> None:
    async with housed(valkey, own_pg, call_timeout_sec=2) as home:
        await decided(home)
        own_pg.kill()
        with pytest.raises(StoreUnavailable):
            await home.archiver.tick()
        assert await waiting(home) == 1
        own_pg.start()

        await home.archiver.tick()

        assert (home.kept.number("dead_letter_reviews"), await waiting(home)) == (1, 0)
