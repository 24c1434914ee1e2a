"""Search: what fits, in order, page by page, whatever the text that is looked for."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rqueue import State
from rqueue.archive import reader as reading
from rqueue.errors import InvalidTask, TaskNotFound
from rqueue.task.ids import TaskId, new_dag_id
from tests.archive.reading.library import Library


async def ids(library: Library, **sought: Any) -> list[TaskId]:
    found = [task.id async for task in library.queue.archive.search(**sought)]
    assert await library.queue.archive.count(**sought) == len(found)
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
async def test_what_cannot_be_is_refused_at_the_door(
    one_library: Library, sought: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await anext(one_library.queue.archive.search(**sought))

    assert refused.value.field == field


async def test_an_unknown_word_is_no_filter(one_library: Library) -> None:
    with pytest.raises(TypeError):
        await one_library.queue.archive.count(kind="code")  # type: ignore[call-arg]


HOSTILE = (
    "100%", "a_b", "it's", 'say "hi"', "back\\slash", "\\", "%", "_", "'; DROP TABLE x; --",
    "%(queue)s", "{condition}", "$1", "ü\U0001f600", "two\nlines", "\\u0041",
    "C:\\u0000dir",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_is_found_as_it_stands_and_nowhere_else(
    library: Library, text: str
) -> None:
    inner = await library.completed(payload={"deep": [{"note": f"before {text} after"}]})
    bare = await library.completed(payload=text)
    broken = await library.dead(error=f"failed: {text}!")
    await library.completed(payload={"note": "100 ab its say hi backslash DROP x queue"})
    await library.archive()

    assert set(await ids(library, text=text)) == {inner.id, bare.id, broken.id}
    assert await ids(library, text=text.upper(), type="other") == []


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
async def test_how_json_writes_a_text_is_not_found(
    one_library: Library, text: str, found: str, not_found: str
) -> None:
    wanted = await one_library.completed(payload=[found])
    await one_library.completed(payload=[not_found])
    await one_library.archive()

    assert await ids(one_library, text=text) == [wanted.id]


async def test_quotes_are_found_across_the_payload(one_library: Library) -> None:
    wanted = await one_library.completed(payload={"customer": "acme"})
    await one_library.completed(payload={"customer": "acme inc"})
    await one_library.archive()

    assert await ids(one_library, text='"customer": "acme"') == [wanted.id]


async def test_text_is_found_in_any_case_and_in_what_no_json_is(one_library: Library) -> None:
    lease = await one_library.lease()
    key = one_library.harness.keys.task(lease.id.ulid)
    await one_library.harness.client.hset(key, "def0", b"\xff Needle \x00 {")
    await lease.complete()
    loud = await one_library.completed(payload="a NEEDLE here")
    await one_library.archive()

    assert set(await ids(one_library, text="needle")) == {lease.id, loud.id}


async def test_each_filter_finds_its_own(library: Library) -> None:
    plain = await library.completed("other")
    tagged = await library.completed(tags=["red", "blue"])
    asked = await library.completed(agent_name="FitmentAgent")
    dead = await library.dead()
    waiting = await library.queue.enqueue("code", delay=60)
    await waiting.cancel()
    await library.archive()

    assert await ids(library, type="other") == [plain.id]
    assert await ids(library, tag="red") == [tagged.id]
    assert await ids(library, tag="green") == []
    assert await ids(library, agent="FitmentAgent") == [asked.id]
    assert await ids(library, agent="w1", type="other") == [plain.id]
    assert len(await ids(library, worker="w1")) == 4
    assert await ids(library, dag=str(plain.id)) == [plain.id]
    assert await ids(library, dag=new_dag_id()) == []
    for word in ("DEAD_LETTERED", "dead_lettered", "dead-letter", "dead", State.DEAD_LETTERED):
        assert await ids(library, status=word) == [dead.id]
    assert set(await ids(library, status=["dead", "cancelled"])) == {dead.id, waiting.id}


async def test_time_is_that_of_the_end(library: Library) -> None:
    tasks = [await library.completed() for _ in range(4)]
    await library.archive()
    day = datetime(2026, 3, 1, tzinfo=UTC)
    for number, task in enumerate(tasks):
        library.sql(
            "UPDATE rqueue.task_lives SET finished_at = %s WHERE id = %s",
            day + timedelta(days=number),
            task.id.uuid,
        )

    found = await ids(library, since=day + timedelta(days=1), until=day + timedelta(days=3))

    assert found == [tasks[2].id, tasks[1].id]
    assert len(await ids(library, since="2026-03-01T00:00:00Z")) == 4


async def test_only_the_newest_life_is_found_unless_all_are_asked_for(library: Library) -> None:
    dead = await library.dead()
    await library.archive()
    await library.queue.dead.retry(dead.id)
    (lease,) = await library.queue.claim(worker="w2")
    await lease.start()
    await lease.complete()
    await library.archive()

    assert await ids(library, status="dead") == []
    assert await ids(library, status="dead", all_lives=True) == [dead.id]
    assert await ids(library, all_lives=True) == [dead.id, dead.id]


async def test_pages_join_without_gap_or_overlap(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PAGE", 3)
    monkeypatch.setattr(reading, "BYTES", 1_000)
    handles = await library.queue.enqueue_many([{"type": "code", "payload": n} for n in range(20)])
    for lease in await library.queue.claim(worker="w1", n=20):
        await lease.start()
        await lease.complete("x" * 100)
    await library.archive()
    # Many end in the same moment: the id decides then.
    library.sql("UPDATE rqueue.task_lives SET finished_at = date_trunc('minute', finished_at)")

    found = await ids(library)

    assert found == sorted((handle.id for handle in handles), reverse=True)
    for limit in (1, 3, 4, 20, 50):
        some = [task.id async for task in library.queue.archive.search(limit=limit)]
        assert some == found[:limit]


async def test_another_queues_tasks_are_not_found(one_library: Library) -> None:
    task = await one_library.completed()
    await one_library.archive()
    one_library.sql("UPDATE rqueue.task_lives SET queue = 'another'")

    assert await ids(one_library) == []
    with pytest.raises(TaskNotFound):
        await one_library.queue.archive.get(task.id)


async def test_the_blocking_twin_reads_as_well(one_library: Library) -> None:
    task = await one_library.completed()
    await one_library.archive()

    def blocking() -> tuple[object, ...]:
        desk = one_library.queue.sync.archive
        return desk.get(task.id).id, [one.id for one in desk.search()], desk.count(), desk.spend()

    assert await asyncio.to_thread(blocking) == (task.id, [task.id], 1, [])
