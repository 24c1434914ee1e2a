"""explain: how many tasks come before a task, in the exact order of a claim; nothing is written."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from rqueue.errors import ScriptFault, TaskNotFound
from rqueue.explain import explain as store
from rqueue.explain.explain import standing
from rqueue.store.lanes import Lanes, read_lanes
from rqueue.task.ids import TaskId, new_task_id
from rqueue.task.lane import Lane
from tests.harness import Harness
from tests.lua.rows import BASE, PLAIN, a_row, claim, held, submit, submitted, words

LANES = [Lane("code", 0.0), Lane("code", 0.1), Lane("mail", 0.1), Lane("mail", 2.5)]


async def ahead(harness: Harness, task: str) -> tuple[int, int, bool]:
    found = await standing(harness.queue._internals.shard, TaskId.from_ulid(task))
    return found.before, found.ahead, found.stands


async def test_the_position_is_that_of_a_claim(harness: Harness) -> None:
    random = Random(7)
    rows = [
        a_row(lane=random.randint(1, len(LANES)), base=random.choice((10, 11, 12)) * 1_000_000)
        for _ in range(60)
    ]
    await submit(harness, rows, lanes=LANES)
    before = await harness.dump()

    counted = {row.task: (await ahead(harness, row.task))[1] for row in rows}

    assert await harness.dump() == before
    given = [grant.task for grant in (await claim(harness, len(rows)))[3:]]
    assert [counted[task] for task in given] == list(range(len(rows)))


async def test_equal_tasks_are_ordered_by_id(harness: Harness) -> None:
    rows = [a_row(lane=1 + at % 2) for at in range(9)]
    await submit(harness, rows, lanes=[PLAIN, Lane("mail", 0.0)])

    found = [await ahead(harness, row.task) for row in rows]

    assert found == [(at // 2, at, True) for at in range(9)]


async def test_a_waiting_task_is_counted_as_if_it_were_ready(harness: Harness) -> None:
    first = await submitted(harness, base=1)
    waiting = await submitted(harness, base=2, options={"delay": 60_000})
    last = await submitted(harness, base=3)

    assert [await ahead(harness, task) for task in (first, waiting, last)] == [
        (0, 0, True), (1, 1, False), (1, 1, True),
    ]  # fmt: skip


async def test_a_leased_task_has_no_position(harness: Harness) -> None:
    lease = await held(harness)

    found = await standing(harness.queue._internals.shard, TaskId.from_ulid(lease.task))

    assert (found.state, found.stands, found.score, found.lane) == ("RUNNING", False, BASE, PLAIN)


async def test_an_unknown_task_or_one_without_a_score_is_gone(harness: Harness) -> None:
    broken = await submitted(harness)
    await harness.client.hset(harness.keys.task(broken), "score", "much")

    for task in (new_task_id().ulid, broken):
        with pytest.raises(TaskNotFound):
            await ahead(harness, task)


async def test_a_lane_that_was_created_meanwhile_is_read_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await submitted(harness)
    reply = await harness.queue._internals.shard.run(
        "task/explain", {"task": task, "lanes": json.dumps([])}
    )
    assert words(reply) == ["LANES"]
    old = [Lanes()]

    async def read(shard: Any) -> Lanes:
        return old.pop() if old else await read_lanes(shard)

    monkeypatch.setattr(store, "read_lanes", read)

    assert await ahead(harness, task) == (0, 0, True)


async def test_an_unknown_lane_is_an_error(harness: Harness) -> None:
    task = await submitted(harness)
    await harness.client.hset(harness.keys.task(task), "lane", "99")

    with pytest.raises(ScriptFault):
        await ahead(harness, task)
