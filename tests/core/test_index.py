"""Walks of an index in order: every task is found, also where many have the same time."""

from __future__ import annotations

import asyncio

import pytest

from rqueue.core import index
from tests.harness import Harness

TIMEOUT_SEC = 10


async def found_first(harness: Harness, scores: dict[str, int]) -> list[str]:
    """The dead tasks in the order in which they are found first."""
    await harness.client.zadd(harness.keys.dead(), scores)
    async with asyncio.timeout(TIMEOUT_SEC):
        pages = [
            page async for page in index.newest(harness.queue._internals.shard, harness.keys.dead())
        ]
    return list(dict.fromkeys(member for page in pages for member in page))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 500])
async def test_the_newest_tasks_come_first_for_any_page_size(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(index, "PAGE", size)
    scores = {"a": 1, "b": 7, "c": 7, "d": 7, "e": 7, "f": 8, "g": 9, "h": 9}

    order = await found_first(harness, scores)

    assert order == sorted(scores, key=lambda one: (scores[one], one), reverse=True)


async def test_an_empty_index_gives_no_tasks(harness: Harness) -> None:
    pages = [
        page async for page in index.newest(harness.queue._internals.shard, harness.keys.dead())
    ]

    assert pages == [[]]


async def test_a_removed_task_hides_no_other_task(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "PAGE", 2)
    await harness.client.zadd(harness.keys.dead(), {name: at for at, name in enumerate("abcdef")})

    order: list[str] = []
    async for page in index.newest(harness.queue._internals.shard, harness.keys.dead()):
        order += [member for member in page if member not in order]
        await harness.client.zrem(harness.keys.dead(), "", *page)

    assert order == list("fedcba")
