"""What is stored of ended tasks: read by plain commands where they are plain, else by the move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import redis

from rqueue import Queue, doctor
from rqueue.core import ended
from rqueue.core.ended import SHORT, EndedTask, PlainTask, plain_in, read_ended, read_whole
from rqueue.errors import ScriptFault
from rqueue.store.shard import Shard
from tests.harness import Harness
from tests.servers import Server


async def completed(
    harness: Harness, result: Any = None, payload: Any = None, **options: Any
) -> str:
    await harness.queue.enqueue("code", payload or {}, **options)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete(result)
    return lease.id.ulid


async def read(harness: Harness, tasks: Sequence[str]) -> list[EndedTask | PlainTask]:
    return [one async for page in read_ended(harness.queue._internals.shard, tasks) for one in page]


async def mixed_tasks(harness: Harness) -> list[str]:
    """Ended tasks of all kinds, some of which are plain."""
    return [
        await completed(harness),
        await completed(harness, tags=("a",)),
        await completed(harness, "short"),
        await completed(harness, payload="x" * 5_000),
        "gone",
        await completed(harness, "x" * SHORT),
        await completed(harness, payload="x" * 300),
    ]


async def test_the_fast_path_reads_the_same_as_the_move(archived_harness: Harness) -> None:
    tasks = await mixed_tasks(archived_harness)

    found = await read(archived_harness, tasks)

    whole = await read_whole(archived_harness.queue._internals.shard, tasks)
    assert [one.unpacked() for one in found] == [one.unpacked() for one in whole]
    assert [isinstance(one, PlainTask) for one in found] == [
        True, False, True, True, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize("length", range(SHORT - 4, SHORT + 2))
async def test_a_result_of_any_length_is_read_completely(
    archived_harness: Harness, length: int
) -> None:
    task = await completed(archived_harness, "x" * length)

    (found,) = await read(archived_harness, [task])

    assert found.result == b'"' + b"x" * length + b'"'


async def test_plain_tasks_are_read_without_a_move(
    archived_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = archived_harness
    if harness.queue._internals.shard.runner.connection.cluster:
        # On a cluster each command would be a separate call.
        assert await ended.read_plain(harness.queue._internals.shard, ["a", "b"]) == [None, None]
        return
    tasks = [await completed(harness), await completed(harness, "short")]

    async def run(name: str, *_: Any) -> Any:
        raise AssertionError(name)

    monkeypatch.setattr(harness.queue._internals.shard, "run", run)
    found = await read(harness, tasks)

    assert [one.result for one in found] == [b"", b'"short"']


async def test_large_tasks_are_read_in_parts_and_no_task_twice(
    archived_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, page_sizes = archived_harness, list[int]()
    tasks = await mixed_tasks(harness)
    whole = await read_whole(harness.queue._internals.shard, tasks)
    read_plain = ended.read_plain

    async def recording(shard: Shard, page: Sequence[str]) -> list[EndedTask | PlainTask | None]:
        page_sizes.append(len(page))
        return await read_plain(shard, page)

    monkeypatch.setattr(ended, "BYTES", 1)
    monkeypatch.setattr(ended, "read_plain", recording)
    pages = [page async for page in read_ended(harness.queue._internals.shard, tasks)]

    assert [one.unpacked() for page in pages for one in page] == [one.unpacked() for one in whole]
    assert len(pages) > 1
    assert page_sizes == [len(tasks)]


async def test_many_tasks_are_read_page_by_page(
    archived_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = await mixed_tasks(archived_harness)
    whole = await read_whole(archived_harness.queue._internals.shard, tasks)
    monkeypatch.setattr(ended, "PAGE", 2)

    found = await read(archived_harness, tasks)

    assert [one.unpacked() for one in found] == [one.unpacked() for one in whole]


@pytest.mark.parametrize("place", range(4))
def test_a_task_with_flags_in_any_field_position_is_not_plain(place: int) -> None:
    pairs = [(b"state", b"COMPLETED"), (b"def0", b"{}"), (b"more", b"{}")]
    plain = [word for pair in pairs for word in pair]
    pairs.insert(place, (b"flags", b"f"))

    assert plain_in(b"", [word for pair in pairs for word in pair]) is None
    assert plain_in(b"", plain) is not None


@pytest.mark.parametrize("place", range(3))
def test_a_task_without_a_piece_of_its_definition_is_not_plain(place: int) -> None:
    pairs = [(b"state", b"def0"), (b"lane", b"1")]
    assert plain_in(b"", [word for pair in pairs for word in pair]) is None

    pairs.insert(place, (b"def0", b"{}"))
    assert plain_in(b"", [word for pair in pairs for word in pair]) is not None


async def test_failures_are_read_where_a_worker_has_a_long_name(archived_harness: Harness) -> None:
    """The hash has no fixed order of fields then."""
    harness, name = archived_harness, "a-worker-of-a-deployment-with-a-long-name-7d9f8b6c5d-x2k4q"
    tasks = []
    for n in range(20):
        await harness.queue.enqueue("code", n, max_attempts=3, tags=(f"tag-{n}",))
        (lease,) = await harness.queue.claim(worker=name)
        await lease.start()
        await lease.fail("error", f"no {n}")
        await harness.make_due(lease.id)
        await harness.promoter.tick()
        (lease,) = await harness.queue.claim(worker=name)
        await lease.start()
        await lease.complete()
        tasks.append(lease.id.ulid)

    found = await read(harness, tasks)

    assert [len(one.unpacked().failures) for one in found] == [1] * 20


async def test_a_key_of_another_type_does_not_affect_other_tasks(archived_harness: Harness) -> None:
    harness = archived_harness
    tasks = [await completed(harness, n) for n in range(3)]
    await harness.client.delete(harness.keys.result(tasks[1]))
    await harness.client.rpush(harness.keys.result(tasks[1]), "odd")

    found = await read(harness, tasks)

    assert [one.unpacked().result for one in found] == [b"0", b"", b"2"]


async def test_a_word_with_a_nul_is_read_unchanged(archived_harness: Harness) -> None:
    harness = archived_harness
    tasks = [await completed(harness, n) for n in range(2)]
    await harness.client.hset(harness.keys.task(tasks[0]), "holder", b"1 2 a\0b")

    found = await read(harness, tasks)

    assert b"1 2 a\0b" in found[0].unpacked().flat
    assert [one.result for one in found] == [b"0", b"1"]


async def test_a_user_with_the_rights_that_doctor_requires_may_read(
    archived_harness: Harness, server: Server
) -> None:
    tasks = await mixed_tasks(archived_harness)
    rights = [
        f"+{name.lower()}" for name in doctor.commands(archived_harness.queue._internals.shard)
    ]
    # What drivers need to find the server and to log in.
    rules = ["on", ">pw", "~rq:*", "-@all", "+@connection", "+cluster", "+command", *rights]
    with redis.Redis.from_url(server.plain_url, protocol=2) as client:
        client.execute_command("ACL", "SETUSER", "archiver", *rules)
        try:
            url = f"{server.url}?username=archiver&password=pw"
            async with Queue(archived_harness.queue.name, url=url) as queue:
                found = [
                    one async for page in read_ended(queue._internals.shard, tasks) for one in page
                ]
        finally:
            client.execute_command("ACL", "DELUSER", "archiver")

    assert len(found) == len(tasks)


async def test_an_error_other_than_a_wrong_type_is_raised(
    archived_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = archived_harness
    connection = harness.queue._internals.shard.runner.connection

    async def refused(*_: Any, **__: Any) -> Any:
        raise ScriptFault("ended", "NOPERM")

    monkeypatch.setattr(connection, "execute_together", refused)
    monkeypatch.setattr(connection, "cluster", False)

    with pytest.raises(ScriptFault, match="NOPERM"):
        await read(harness, [await completed(harness)])
