"""Search: filters, order, pages, and hostile texts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rqueue import State
from rqueue.archive import reader as reading
from rqueue.errors import InvalidTask, TaskNotFound
from rqueue.task.ids import TaskId, new_dag_id
from tests.archive.reading.reader_harness import ReaderHarness


async def ids(env: ReaderHarness, **sought: Any) -> list[TaskId]:
    found = [task.id async for task in env.queue.archive.search(**sought)]
    assert await env.queue.archive.count(**sought) == len(found)
    return found


@pytest.mark.parametrize(
    ("sought", "field"),
    [
        ({"status": "running"}, "status"),
        ({"status": ["completed", "FAILED"]}, "status"),
        ({"type": "no name"}, "type"),
        ({"tag": "\n"}, "tag"),
        ({"since": "yesterday"}, "since"),
        ({"until": datetime(2026, 1, 1)}, "until"),
        ({"text": ""}, "text"),
        ({"text": "a\0b"}, "text"),
        ({"text": "\ud800"}, "text"),
        ({"text": "x" * 1001}, "text"),
        ({"text": 7}, "text"),
        ({"agent": "'; DROP"}, "agent"),
        ({"dag": "mine"}, "id"),
        ({"limit": 0}, "limit"),
    ],
)
async def test_invalid_options_are_refused(
    pg_env: ReaderHarness, sought: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await anext(pg_env.queue.archive.search(**sought))

    assert refused.value.field == field


async def test_an_unknown_option_is_refused(pg_env: ReaderHarness) -> None:
    with pytest.raises(TypeError):
        await pg_env.queue.archive.count(kind="code")  # type: ignore[call-arg]


HOSTILE = (
    "100%", "a_b", "it's", 'say "hi"', "back\\slash", "\\", "%", "_", "'; DROP TABLE x; --",
    "%(queue)s", "{condition}", "$1", "ü\U0001f600", "two\nlines", "\\u0041",
    "C:\\u0000dir",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_is_matched_literally(env: ReaderHarness, text: str) -> None:
    inner = await env.completed(payload={"deep": [{"note": f"before {text} after"}]})
    bare = await env.completed(payload=text)
    broken = await env.dead(error=f"failed: {text}!")
    await env.completed(payload={"note": "100 ab its say hi backslash DROP x queue"})
    await env.archive()

    assert set(await ids(env, text=text)) == {inner.id, bare.id, broken.id}
    assert await ids(env, text=text.upper(), type="other") == []


@pytest.mark.parametrize(
    ("text", "found", "not_found"),
    [
        ("\\", "a\\b", 'a\nb "c" \t \x01'),
        ("nline", "on online", "on\nline"),
        ("Nline", "ONLINE", "on\nline"),
        ("t", "\\t", "a\tb"),
        ("\\n", "a\\nb", "a\\\nb"),
        ("u0001", "\\u0001", "\x01"),
        ("now.", "it is now.", "a\now nowx"),
        ('"b"', 'a "b" c', "a b c"),
    ],
)
async def test_json_escapes_are_not_matched(
    pg_env: ReaderHarness, text: str, found: str, not_found: str
) -> None:
    wanted = await pg_env.completed(payload=[found])
    await pg_env.completed(payload=[not_found])
    await pg_env.archive()

    assert await ids(pg_env, text=text) == [wanted.id]


async def test_quotes_are_found_across_the_payload(pg_env: ReaderHarness) -> None:
    wanted = await pg_env.completed(payload={"customer": "acme"})
    await pg_env.completed(payload={"customer": "acme inc"})
    await pg_env.archive()

    assert await ids(pg_env, text='"customer": "acme"') == [wanted.id]


async def test_text_is_found_in_any_case_and_in_payloads_that_are_not_json(
    pg_env: ReaderHarness,
) -> None:
    lease = await pg_env.lease()
    key = pg_env.harness.keys.task(lease.id.ulid)
    await pg_env.harness.client.hset(key, "def0", b"\xff Needle \x00 {")
    await lease.complete()
    loud = await pg_env.completed(payload="a NEEDLE here")
    await pg_env.archive()

    assert set(await ids(pg_env, text="needle")) == {lease.id, loud.id}


async def test_each_filter_finds_matching_tasks_only(env: ReaderHarness) -> None:
    plain = await env.completed("other")
    tagged = await env.completed(tags=["red", "blue"])
    by_agent = await env.completed(agent_name="FitmentAgent")
    dead = await env.dead()
    waiting = await env.queue.enqueue("code", delay=60)
    await waiting.cancel()
    await env.archive()

    assert await ids(env, type="other") == [plain.id]
    assert await ids(env, tag="red") == [tagged.id]
    assert await ids(env, tag="green") == []
    assert await ids(env, agent="FitmentAgent") == [by_agent.id]
    assert await ids(env, agent="w1", type="other") == [plain.id]
    assert len(await ids(env, worker="w1")) == 4
    assert await ids(env, dag=str(plain.id)) == [plain.id]
    assert await ids(env, dag=new_dag_id()) == []
    for word in ("DEAD_LETTERED", "dead_lettered", "dead-letter", "dead", State.DEAD_LETTERED):
        assert await ids(env, status=word) == [dead.id]
    assert set(await ids(env, status=["dead", "cancelled"])) == {dead.id, waiting.id}


async def test_since_and_until_bound_the_end_of_a_task(env: ReaderHarness) -> None:
    tasks = [await env.completed() for _ in range(4)]
    await env.archive()
    day = datetime(2026, 3, 1, tzinfo=UTC)
    for number, task in enumerate(tasks):
        env.sql(
            "UPDATE rqueue.task_lives SET finished_at = %s WHERE id = %s",
            day + timedelta(days=number),
            task.id.uuid,
        )

    found = await ids(env, since=day + timedelta(days=1), until=day + timedelta(days=3))

    assert found == [tasks[2].id, tasks[1].id]
    assert len(await ids(env, since="2026-03-01T00:00:00Z")) == 4


async def test_only_the_newest_life_is_found_without_all_lives(env: ReaderHarness) -> None:
    dead = await env.dead()
    await env.archive()
    await env.queue.dead.retry(dead.id)
    (lease,) = await env.queue.claim(worker="w2")
    await lease.start()
    await lease.complete()
    await env.archive()

    assert await ids(env, status="dead") == []
    assert await ids(env, status="dead", all_lives=True) == [dead.id]
    assert await ids(env, all_lives=True) == [dead.id, dead.id]


async def test_pages_have_no_gap_and_no_overlap(
    env: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PAGE", 3)
    monkeypatch.setattr(reading, "BYTES", 1_000)
    handles = await env.queue.enqueue_many([{"type": "code", "payload": n} for n in range(20)])
    for lease in await env.queue.claim(worker="w1", n=20):
        await lease.start()
        await lease.complete("x" * 100)
    await env.archive()
    # Many end at the same time: then the id decides.
    env.sql("UPDATE rqueue.task_lives SET finished_at = date_trunc('minute', finished_at)")

    found = await ids(env)

    assert found == sorted((handle.id for handle in handles), reverse=True)
    for limit in (1, 3, 4, 20, 50):
        some = [task.id async for task in env.queue.archive.search(limit=limit)]
        assert some == found[:limit]


async def test_tasks_of_other_queues_are_not_found(pg_env: ReaderHarness) -> None:
    task = await pg_env.completed()
    await pg_env.archive()
    pg_env.sql("UPDATE rqueue.task_lives SET queue = 'another'")

    assert await ids(pg_env) == []
    with pytest.raises(TaskNotFound):
        await pg_env.queue.archive.get(task.id)


async def test_the_blocking_interface_reads_the_same(pg_env: ReaderHarness) -> None:
    task = await pg_env.completed()
    await pg_env.archive()

    def blocking() -> tuple[object, ...]:
        archive = pg_env.queue.sync.archive
        return (
            archive.get(task.id).id,
            [one.id for one in archive.search()],
            archive.count(),
            archive.spend(),
        )

    assert await asyncio.to_thread(blocking) == (task.id, [task.id], 1, [])
