"""claim: exact effective order over lanes that age at different rates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rqueue.task.ids import new_task_id
from rqueue.task.lane import Lane, micro
from tests.harness import Harness, build
from tests.lua.rows import a_row, claim, submit, words
from tests.servers import Server

RATES = (0.0, 0.01, 0.1, 1.0, 7.5)
DAY_MS = 86_400_000


class Aged(NamedTuple):
    """A task to be: its lane, its priority in millionths, and how long ago it was made."""

    lane: int
    base: int
    age_ms: int


# Few priorities and ages, so that ties are common.
priorities = st.one_of(st.integers(0, 3).map(micro), st.integers(0, micro(100)))
ages = st.one_of(st.sampled_from([0, 60_000, 3_600_000]), st.integers(0, DAY_MS))
tasks = st.builds(Aged, st.integers(1, len(RATES)), priorities, ages)


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@given(st.lists(tasks, min_size=1, max_size=30), st.lists(st.integers(1, 9), max_size=4))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_claim_returns_what_a_plain_sort_puts_first(
    loop: asyncio.Runner, server: Server, wanted: list[Aged], slots: list[int]
) -> None:
    loop.run(check(server, wanted, [*slots, len(wanted)]))


async def check(server: Server, wanted: list[Aged], slots: list[int]) -> None:
    server.flush()
    connection, client = server.connection(), server.client()
    harness = build(connection, client)
    try:
        left = await aged(harness, wanted)
        for seq, n in enumerate(slots, start=1):
            reply = await claim(harness, n, seq=seq)
            got = [row.task for row in reply[3:]]
            # The move stores the time at which it compared the lanes.
            now = await claimed_ms(harness, got[0]) if got else 0
            order = [task for _, task in sorted((left[task](now), task) for task in left)]
            assert got == order[:n]
            for task in got:
                del left[task]
        assert not left
    finally:
        await harness.queue.aclose()
        await connection.aclose()
        await client.aclose()


async def aged(harness: Harness, wanted: list[Aged]) -> dict[str, Any]:
    """The tasks, as if made so long ago; each id with its effective priority at an instant."""
    lanes = [Lane(f"t{number}", rate) for number, rate in enumerate(RATES)]
    rows = [a_row(lane=one.lane, base=one.base, task=new_task_id().ulid) for one in wanted]
    # Every lane is made in order, so that its number is its index.
    makers = [a_row(lane=number + 1) for number in range(len(lanes))]
    await submit(harness, [*makers, *rows], lanes=lanes)
    for number, row in enumerate(makers, start=1):
        await harness.client.zrem(harness.keys.lane(number), row.task)
    found: dict[str, Any] = {}
    for row, one in zip(rows, wanted, strict=True):
        key, rate = harness.keys.task(row.task), lanes[one.lane - 1].micro_rate
        entry = (await harness.client.hget(key, "entry")).decode()
        created = int(entry.split("-")[0]) - one.age_ms
        score = round(one.base + rate * created / 60_000)
        await harness.client.hset(key, mapping={"score": score, "created": created})
        await harness.client.zadd(harness.keys.lane(one.lane), {row.task: score})
        found[row.task] = effective(score, rate)
    return found


def effective(score: int, rate: int) -> Any:
    return lambda now: score - rate * (now / 60_000)


async def claimed_ms(harness: Harness, task: str) -> int:
    holder = words(await harness.client.hget(harness.keys.task(task), "holder"))
    return int(holder.split(" ")[0])


async def test_an_old_task_of_a_fast_lane_passes_a_better_one_of_a_slow_lane(
    harness: Harness,
) -> None:
    left = await aged(
        harness,
        [
            Aged(1, micro(10), 0),
            Aged(4, micro(20), 9 * 60_000),
            Aged(4, micro(20), 11 * 60_000),
        ],
    )
    slow, young, old = left

    reply = await claim(harness, 3)

    assert [row.task for row in reply[3:]] == [old, slow, young]


async def test_equal_tasks_of_two_lanes_come_earlier_first(harness: Harness) -> None:
    lanes = [Lane("a", 0.0), Lane("b", 0.0)]
    rows = [a_row(lane=1 + at % 2) for at in range(6)]
    await submit(harness, rows, lanes=lanes)

    reply = await claim(harness, 6)

    assert [row.task for row in reply[3:]] == [row.task for row in rows]
