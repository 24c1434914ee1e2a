"""What is kept of ended tasks: read at a glance where they are plain, else by the script."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import TaskId
from rqueue.errors import ScriptFault
from rqueue.store import ended
from rqueue.store.ended import SHORT, read_page, read_whole
from rqueue.store.kept import Kept, Plain
from tests.house import House


async def completed(house: House, result: Any = None, payload: Any = None, **options: Any) -> str:
    await house.queue.enqueue("code", payload or {}, **options)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.complete(result)
    return lease.id.ulid


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

    found = await read_page(archived_house.queue.shard, tasks)

    whole = await read_whole(archived_house.queue.shard, tasks)
    assert [one.apart() for one in found] == [one.apart() for one in whole]
    assert [isinstance(one, Plain) for one in found] == [
        True, False, True, True, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize("length", range(SHORT - 4, SHORT + 2))
async def test_a_result_is_whole_whatever_its_length(archived_house: House, length: int) -> None:
    task = await completed(archived_house, "x" * length)

    (found,) = await read_page(archived_house.queue.shard, [task])

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
    found = await read_page(house.queue.shard, tasks)

    assert [one.result for one in found] == [b"", b'"short"']


async def test_a_page_ends_where_the_script_did(
    archived_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = await a_mixture(archived_house)
    monkeypatch.setattr(ended, "BYTES", 1)
    shard = archived_house.queue.shard

    pages = []
    done = 0
    while done < len(tasks):
        page = await read_page(shard, tasks[done:])
        pages.append(page)
        done += len(page)

    monkeypatch.undo()
    whole = await read_whole(shard, tasks)
    assert [one.apart() for page in pages for one in page] == [one.apart() for one in whole]
    assert len(pages) > 1


async def test_no_more_than_a_page_is_read(
    archived_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = await a_mixture(archived_house)
    monkeypatch.setattr(ended, "PAGE", 2)

    assert len(await read_page(archived_house.queue.shard, tasks)) == 2


async def test_a_key_of_another_type_stands_in_no_others_way(archived_house: House) -> None:
    house = archived_house
    tasks = [await completed(house, n) for n in range(3)]
    await house.client.delete(house.keys.result(tasks[1]))
    await house.client.rpush(house.keys.result(tasks[1]), "odd")

    found: list[Kept | Plain] = []
    while len(found) < len(tasks):
        found += await read_page(house.queue.shard, tasks[len(found) :])

    assert [one.apart().result for one in found] == [b"0", b"", b"2"]


async def test_a_word_with_a_nul_of_its_own_comes_as_it_is(archived_house: House) -> None:
    house = archived_house
    tasks = [await completed(house, n) for n in range(2)]
    await house.client.hset(house.keys.task(tasks[0]), "holder", b"1 2 a\0b")

    found = await read_page(house.queue.shard, tasks)

    assert b"1 2 a\0b" in found[0].apart().flat
    assert [one.result for one in found] == [b"0", b"1"]


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
        await read_page(house.queue.shard, [TaskId.parse(await completed(house)).ulid])
