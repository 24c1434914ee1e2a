"""Where tasks stand, in order: each is met, however many share a time."""

from __future__ import annotations

import asyncio

import pytest

from rqueue.store import index
from tests.house import House

TIMEOUT_SEC = 10


async def walked(house: House, scores: dict[str, int]) -> list[str]:
    """The members of the dead in the order in which they are met first."""
    await house.client.zadd(house.keys.dead(), scores)
    async with asyncio.timeout(TIMEOUT_SEC):
        pages = [page async for page in index.newest(house.queue.shard, house.keys.dead())]
    return list(dict.fromkeys(member for page in pages for member in page))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 500])
async def test_the_newest_come_first_however_large_a_page_is(
    house: House, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(index, "PAGE", size)
    scores = {"a": 1, "b": 7, "c": 7, "d": 7, "e": 7, "f": 8, "g": 9, "h": 9}

    met = await walked(house, scores)

    assert met == sorted(scores, key=lambda one: (scores[one], one), reverse=True)


async def test_none_are_met_where_there_are_none(house: House) -> None:
    pages = [page async for page in index.newest(house.queue.shard, house.keys.dead())]

    assert pages == [[]]


async def test_what_leaves_meanwhile_hides_no_other(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "PAGE", 2)
    await house.client.zadd(house.keys.dead(), {name: at for at, name in enumerate("abcdef")})

    met: list[str] = []
    async for page in index.newest(house.queue.shard, house.keys.dead()):
        met += [member for member in page if member not in met]
        await house.client.zrem(house.keys.dead(), "", *page)

    assert met == list("fedcba")
