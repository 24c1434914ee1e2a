"""Walks of an index in order: every task is found, however many share a time."""

from __future__ import annotations

import asyncio

import pytest

from rqueue.core import index
from tests.harness import Harness

TIMEOUT_SEC = 10


async def walked(harness: Harness, scores: dict[str, int]) -> list[str]:
    """The dead tasks in the order in which they are found first."""
    await harness.client.zadd(harness.keys.dead(), scores)
    async with asyncio.timeout(TIMEOUT_SEC):
        pages = [
            page async for page in index.newest(harness.queue._internals.shard, harness.keys.dead())
        ]
    return list(dict.fromkeys(member for page in pages for member in page))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 500])
async def test_the_newest_come_first_however_large_a_page_is(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(index, "PAGE", size)
    scores = {"a": 1, "b": 7, "c": 7, "d": 7, "e": 7, "f": 8, "g": 9, "h": 9}

    met = await walked(harness, scores)

    assert met == sorted(scores, key=lambda one: (scores[one], one), reverse=True)


async def test_none_are_met_where_there_are_none(harness: Harness) -> None:
    pages = [
        page async for page in index.newest(harness.queue._internals.shard, harness.keys.dead())
    ]

    assert pages == [[]]


async def test_what_leaves_meanwhile_hides_no_other(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "PAGE", 2)
    await harness.client.zadd(harness.keys.dead(), {name: at for at, name in enumerate("abcdef")})

    met: list[str] = []
    async for page in index.newest(harness.queue._internals.shard, harness.keys.dead()):
        met += [member for member in page if member not in met]
        await harness.client.zrem(harness.keys.dead(), "", *page)

    assert met == list("fedcba")
