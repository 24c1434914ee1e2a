"""What is kept of ended tasks: read at a glance where they are plain, else by the script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import redis

from rqueue import Queue
from rqueue.errors import ScriptFault
from rqueue.store import checkup, ended
from rqueue.store.ended import SHORT, plain_in, read_ended, read_whole
from rqueue.store.kept import Kept, Plain
from rqueue.store.shard import Shard
from tests.house import House
from tests.servers import Server


async def completed(house: House, result: Any = None, payload: Any = None, **options: Any) -> str:
    await house.queue.enqueue("code", payload or {}, **options)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.complete(result)
    return lease.id.ulid


async def read(house: House, tasks: Sequence[str]) -> list[Kept | Plain]:
    return [one async for page in read_ended(house.queue.shard, tasks) for one in page]


async def a_mixture(house: House) -> list[str]:
    """Ended tasks of all kinds, some of which are plain."""
    return [
        await completed(house),
        await completed(house, tags=("a",)),
        await completed(house, "short"),
        await completed(house, payload="x" * 5_000),
        "gone",
        await completed(house, "x" * SHORT),
        await completed(house, payload="x" * 300),
    ]


async def test_at_a_glance_it_is_what_the_script_tells(archived_house: House) -> None:
    tasks = await a_mixture(archived_house)

    found = await read(archived_house, tasks)

    whole = await read_whole(archived_house.queue.shard, tasks)
    assert [one.apart() for one in found] == [one.apart() for one in whole]
    assert [isinstance(one, Plain) for one in found] == [
        True, False, True, True, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize("length", range(SHORT - 4, SHORT + 2))
async def test_a_result_is_whole_whatever_its_length(archived_house: House, length: int) -> None:
    task = await completed(archived_house, "x" * length)

    (found,) = await read(archived_house, [task])

    assert found.result == b'"' + b"x" * length + b'"'


async def test_plain_tasks_need_no_script(
    archived_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = archived_house
    if house.queue.shard.runner.connection.cluster:
        # There each command would be a call of its own.
        assert await ended.glance(house.queue.shard, ["a", "b"]) == [None, None]
        return
    tasks = [await completed(house), await completed(house, "short")]

    async def run(name: str, *_: Any) -> Any:
        raise AssertionError(name)

    monkeypatch.setattr(house.queue.shard, "run", run)
    found = await read(house, tasks)

    assert [one.result for one in found] == [b"", b'"short"']


async def test_what_is_large_comes_in_parts_and_the_rest_is_looked_at_once(
    archived_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, looked = archived_house, list[int]()
    tasks = await a_mixture(house)
    whole = await read_whole(house.queue.shard, tasks)
    glance = ended.glance

    async def noted(shard: Shard, page: Sequence[str]) -> list[Kept | Plain | None]:
        looked.append(len(page))
        return await glance(shard, page)

    monkeypatch.setattr(ended, "BYTES", 1)
    monkeypatch.setattr(ended, "glance", noted)
    pages = [page async for page in read_ended(house.queue.shard, tasks)]

    assert [one.apart() for page in pages for one in page] == [one.apart() for one in whole]
    assert len(pages) > 1
    assert looked == [len(tasks)]


async def test_many_are_looked_at_page_by_page(
    archived_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = await a_mixture(archived_house)
    whole = await read_whole(archived_house.queue.shard, tasks)
    monkeypatch.setattr(ended, "PAGE", 2)

    found = await read(archived_house, tasks)

    assert [one.apart() for one in found] == [one.apart() for one in whole]


@pytest.mark.parametrize("place", range(4))
def test_a_task_with_flags_is_not_plain_wherever_they_stand(place: int) -> None:
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


async def test_a_long_name_of_a_worker_hides_no_failure(archived_house: House) -> None:
    """The hash has no order any more then but the server's own."""
    house, name = archived_house, "a-worker-of-a-deployment-with-a-long-name-7d9f8b6c5d-x2k4q"
    tasks = []
    for n in range(20):
        await house.queue.enqueue("code", n, max_attempts=3, tags=(f"tag-{n}",))
        (lease,) = await house.queue.claim(worker=name)
        await lease.start()
        await lease.fail("error", f"no {n}")
        await house.make_due(lease.id)
        await house.promoter.tick()
        (lease,) = await house.queue.claim(worker=name)
        await lease.start()
        await lease.complete()
        tasks.append(lease.id.ulid)

    found = await read(house, tasks)

    assert [len(one.apart().failures) for one in found] == [1] * 20


async def test_a_key_of_another_type_stands_in_no_others_way(archived_house: House) -> None:
    house = archived_house
    tasks = [await completed(house, n) for n in range(3)]
    await house.client.delete(house.keys.result(tasks[1]))
    await house.client.rpush(house.keys.result(tasks[1]), "odd")

    found = await read(house, tasks)

    assert [one.apart().result for one in found] == [b"0", b"", b"2"]


async def test_a_word_with_a_nul_of_its_own_comes_as_it_is(archived_house: House) -> None:
    house = archived_house
    tasks = [await completed(house, n) for n in range(2)]
    await house.client.hset(house.keys.task(tasks[0]), "holder", b"1 2 a\0b")

    found = await read(house, tasks)

    assert b"1 2 a\0b" in found[0].apart().flat
    assert [one.result for one in found] == [b"0", b"1"]


async def test_whoever_has_the_rights_that_doctor_asks_for_may_read(
    archived_house: House, server: Server
) -> None:
    tasks = await a_mixture(archived_house)
    rights = [f"+{name.lower()}" for name in checkup.commands(archived_house.queue.shard)]
    # What drivers need to find the server and to log in.
    rules = ["on", ">pw", "~rq:*", "-@all", "+@connection", "+cluster", "+command", *rights]
    with redis.Redis.from_url(server.plain_url, protocol=2) as client:
        client.execute_command("ACL", "SETUSER", "archiver", *rules)
        try:
            url = f"{server.url}?username=archiver&password=pw"
            async with Queue(archived_house.queue.name, url=url) as queue:
                found = [one async for page in read_ended(queue.shard, tasks) for one in page]
        finally:
            client.execute_command("ACL", "DELUSER", "archiver")

    assert len(found) == len(tasks)


async def test_an_error_that_is_no_wrong_type_is_told(
    archived_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = archived_house
    connection = house.queue.shard.runner.connection

    async def refused(*_: Any, **__: Any) -> Any:
        raise ScriptFault("ended", "NOPERM")

    monkeypatch.setattr(connection, "ask_together", refused)
    monkeypatch.setattr(connection, "cluster", False)

    with pytest.raises(ScriptFault, match="NOPERM"):
        await read(house, [await completed(house)])
