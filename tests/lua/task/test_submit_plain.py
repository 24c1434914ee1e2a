"""submit: the fast path of a plain task, beside the general one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue.task.ids import new_task_ids
from rqueue.task.lane import Lane
from tests.harness import Harness
from tests.lua.rows import PLAIN, a_row, claim, everything, submit

AGEING = Lane("code", 0.1)
MAIL = Lane("mail", 0.0)
LANES = (PLAIN, AGEING, MAIL)
*EARLIER, NEW = (task[-26:] for task in new_task_ids(4))
# A time, an entry, or the score of an ageing task.
TIME = re.compile(r"(?<!\d)\d{13}(?:-\d+|\.0)?(?!\d)")
Prepare = Callable[[Harness], Awaitable[object]]


async def nothing(_: Harness) -> None:
    pass


async def waiting(harness: Harness) -> None:
    await claim(harness, wait_ms=60_000)


async def waiting_for_two(harness: Harness) -> None:
    await claim(harness, 2, wait_ms=60_000)


async def waiting_under_two_profiles(harness: Harness) -> None:
    await claim(harness, wait_ms=60_000, types=["code"])
    # Of two that wait since the same millisecond, either may be answered.
    await asyncio.sleep(0.005)
    await claim(harness, 2, wait_ms=60_000, waiter="two", consumer="w2", box="box2")


async def waiting_for_other_types(harness: Harness) -> None:
    await claim(harness, wait_ms=60_000, types=["mail"])


async def waiting_while_paused(harness: Harness) -> None:
    await harness.queue.pause()
    await claim(harness, wait_ms=60_000)


async def known(harness: Harness) -> None:
    await submit(harness, [a_row(task=NEW)])


STATES = (
    nothing, waiting, waiting_for_two, waiting_under_two_profiles, waiting_for_other_types,
    waiting_while_paused, known,
)  # fmt: skip


async def left(harness: Harness, prepare: Prepare, lane: Lane, special: str) -> Any:
    """The reply to a plain task, and the keys that are left but those of earlier tasks, with `*`
    for times.
    """
    await harness.client.flushall()
    rows = [a_row(task=task, lane=at) for at, task in enumerate(EARLIER, 1)]
    await submit(harness, rows, lanes=LANES)
    for task in EARLIER:
        assert await harness.queue.cancel(f"task_{task}")
    await prepare(harness)
    row = a_row(task=NEW)._replace(special=special)
    reply = await submit(harness, [row], lanes=[lane])
    keys = await everything(harness)
    for task in EARLIER:
        del keys[f"task:{task}"]
    return reply, {name: TIME.sub("*", shown(content)) for name, content in keys.items()}


def shown(content: Any) -> str:
    """The content of a key as text; the order of what has none is that of its names."""
    if isinstance(content, set):
        return str(sorted(content))
    return str(sorted(content.items()) if isinstance(content, dict) else content)


@pytest.mark.parametrize("lane", LANES[:2], ids=["plain", "ageing"])
@pytest.mark.parametrize("prepare", STATES)
async def test_a_plain_task_leaves_the_same_keys_on_the_fast_path_and_on_the_general_one(
    harness: Harness, prepare: Prepare, lane: Lane
) -> None:
    fast = await left(harness, prepare, lane, "")

    assert fast == await left(harness, prepare, lane, "\n")
    assert fast[0] == ["OK", 0]
    assert f"task:{NEW}" in fast[1]
