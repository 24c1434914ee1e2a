"""Reviews: committed, then deleted from the stream, and read from both places."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from rqueue import TaskId
from rqueue.archive.reports import ReviewFilter, read_reviews, write_reviews
from rqueue.dead import reviews
from rqueue.dead.reviews import Resolution, Review
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.services import archiver_of
from tests.archive.archived_harness import ArchivedHarness, archived_harness
from tests.harness import NAME, opened
from tests.postgres import Database
from tests.servers import Server


async def decided(archived: ArchivedHarness, note: str = "why", **options: Any) -> TaskId:
    """A dead task that a reviewer has retried."""
    lease = await archived.harness.running()
    await lease.fail(permanent=True)
    await archived.queue.dead.decide(lease.id, "retry", by="human:ada", note=note, **options)
    (again,) = await archived.queue.claim(worker="w1")
    await again.start()
    await again.complete()
    return lease.id


async def waiting(archived: ArchivedHarness) -> int:
    found: int = await archived.harness.client.xlen(archived.harness.keys.reviews())
    return found


async def listed(archived: ArchivedHarness, **when: Any) -> list[Review]:
    return [review async for review in archived.queue.dead.reviews(**when)]


async def test_a_decision_is_a_row_before_it_leaves_the_stream(
    archived: ArchivedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await decided(archived, cause="agent_bug")
    before = await listed(archived)

    async def killed(*_: object) -> int:
        raise StoreUnavailable("Redis")

    with monkeypatch.context() as patched:
        patched.setattr(reviews, "reviewed", killed)
        with pytest.raises(StoreUnavailable):
            await archived.archiver.tick()
    assert (archived.tables.number("dead_letter_reviews"), await waiting(archived)) == (1, 1)
    assert await listed(archived) == before

    done = await archived.archiver.tick()
    assert (
        done.reviews,
        archived.tables.number("dead_letter_reviews"),
        await waiting(archived),
    ) == (1, 1, 0)
    assert await listed(archived) == before
    assert (before[0].task, before[0].by, before[0].cause) == (task, "human:ada", "agent_bug")


async def test_a_second_delivery_changes_nothing(archived: ArchivedHarness) -> None:
    await decided(archived)
    page = await reviews.page(archived.queue._internals.shard)
    await archived.archiver.tick()
    archived.tables.database.psql("UPDATE rqueue.dead_letter_reviews SET note = 'first'")

    await write_reviews(archived.tables.archive, NAME, page)

    assert archived.tables.database.psql("SELECT note FROM rqueue.dead_letter_reviews") == [
        ("first",)
    ]


async def test_a_row_has_all_fields_of_its_review(archived: ArchivedHarness) -> None:
    lease = await archived.harness.running("code")
    await lease.fail("error", "boom \0 7", permanent=True)
    await archived.queue.dead.decide(
        lease.id, "modify_and_retry", payload={"x": 1}, by="human:ada", note="changed"
    )
    other = await archived.harness.running("other")
    await other.fail(permanent=True)
    later = archived.queue._internals.clock.now() + timedelta(hours=1)
    await archived.queue.dead.decide(other.id, "wait", not_before=later)
    before = await listed(archived)

    await archived.archiver.tick()

    assert await waiting(archived) == 0
    assert await listed(archived) == before
    assert before[0].diff
    assert before[1].not_before is not None


async def test_decisions_are_read_by_time_from_both_places(archived: ArchivedHarness) -> None:
    await decided(archived, "archived")
    await archived.archiver.tick()
    await decided(archived, "waits")

    first, second = await listed(archived)

    assert (first.note, second.note) == ("archived", "waits")
    assert await listed(archived, until=first.at) == []
    assert await listed(archived, since=second.at, until="2999-01-01T00:00:00Z") == [second]
    wanted = ReviewFilter(NAME, only=second.task)
    assert [one async for one in read_reviews(archived.tables.archive, wanted)] == []


async def test_without_the_archive_setting_reviews_are_refused(
    archived: ArchivedHarness, valkey: Server
) -> None:
    await decided(archived)
    await archived.archiver.tick()

    async with opened(valkey) as other:
        with pytest.raises(ConfigError, match="RQUEUE_POSTGRES_URL") as raised:
            [review async for review in other.queue.dead.reviews()]

    assert raised.value.setting == "postgres_url"


async def test_an_invalid_review_stays_and_does_not_block_others(archived: ArchivedHarness) -> None:
    add = archived.harness.client.xadd
    key = archived.harness.keys.reviews()
    bad = {"task": "no-id", "life": "1", "at": "1", "resolution": "retry"}
    await add(key, bad)
    await add(key, {**bad, "task": "01JZ0000007000800000000000", "life": str(2**40)})
    await add(key, {"anything": "else"})
    await decided(archived)

    done = await archived.archiver.tick()

    assert (
        done.reviews,
        archived.tables.number("dead_letter_reviews"),
        await waiting(archived),
    ) == (1, 1, 3)
    assert (await archived.archiver.tick()).reviews == 0


async def test_concurrent_archivers_write_each_review_once(archived: ArchivedHarness) -> None:
    for at in range(5):
        await decided(archived, str(at))
    other = archiver_of(archived.queue._internals.service_parts, archived.tables.archive, "a2")

    await asyncio.gather(archived.archiver.tick(), other.tick())

    assert (archived.tables.number("dead_letter_reviews"), await waiting(archived)) == (5, 0)


@pytest.mark.parametrize("resolution", ["escalate", "retry", "wait", "cancel", "delete"])
async def test_the_view_shows_a_decision_about_an_archived_task(
    archived: ArchivedHarness, resolution: Resolution
) -> None:
    task = await died(archived)
    await archived.archiver.tick()
    assert decision_in_view(archived, task) == (1, False, None)
    later = archived.queue._internals.clock.now() + timedelta(hours=1)

    await archived.queue.dead.decide(
        task, resolution, not_before=later if resolution == "wait" else None
    )
    await archived.archiver.tick()

    assert decision_in_view(archived, task) == (1, True, resolution)


async def test_the_view_shows_the_last_of_several_decisions(archived: ArchivedHarness) -> None:
    task = await died(archived)
    await archived.archiver.tick()

    for number in range(12):
        await archived.queue.dead.decide(task, "escalate", note=str(number))
    await archived.queue.dead.decide(task, "retry")
    await archived.archiver.tick()
    archived.tables.database.psql("UPDATE rqueue.dead_letter_reviews SET at = '2026-01-01'")
    archived.tables.database.psql(
        "UPDATE rqueue.dead_letter_reviews SET entry = '7-' || CASE resolution"
        " WHEN 'retry' THEN '12' ELSE note END"
    )

    assert decision_in_view(archived, task) == (1, True, "retry")


async def test_a_decision_does_not_apply_to_the_next_life(archived: ArchivedHarness) -> None:
    task = await died(archived)
    await archived.queue.dead.decide(task, "retry")
    (again,) = await archived.queue.claim(worker="w1")
    await again.start()
    await again.fail(permanent=True)

    await archived.archiver.tick()

    assert decision_in_view(archived, task) == (2, False, None)


async def died(archived: ArchivedHarness) -> TaskId:
    """A dead task without a review."""
    lease = await archived.harness.running()
    await lease.fail(permanent=True)
    return lease.id


def decision_in_view(archived: ArchivedHarness, task: TaskId) -> tuple[object, ...]:
    """Returns a task's last ended life and its decision, as the view shows them."""
    (found,) = archived.tables.database.psql(
        "SELECT life, reviewed, resolution FROM rqueue.tasks WHERE id = %s", task.uuid
    )
    return found


async def test_reviews_wait_while_postgres_is_unavailable(valkey: Server, own_pg: Database) -> None:
    async with archived_harness(valkey, own_pg, call_timeout_sec=2) as archived:
        await decided(archived)
        own_pg.kill()
        with pytest.raises(StoreUnavailable):
            await archived.archiver.tick()
        assert await waiting(archived) == 1
        own_pg.start()

        await archived.archiver.tick()

        assert (archived.tables.number("dead_letter_reviews"), await waiting(archived)) == (1, 0)
