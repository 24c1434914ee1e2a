"""submit: tasks that wait for their time or for other tasks."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.timers import read_last_check
from tests.harness import Harness
from tests.lua.rows import DEFINITION, a_row, everything, submit, submitted

ALWAYS = {"lanes", "stats"}


async def server_ms(harness: Harness) -> int:
    now, _ = await read_last_check(harness.queue._internals.shard)
    return now


async def test_a_delayed_task_waits_for_its_time_and_has_no_entry(harness: Harness) -> None:
    row = a_row(ask={"delay": 60_000})
    before = await server_ms(harness)

    reply = await submit(harness, [row])

    found = await everything(harness)
    task = found[f"task:{row.task}"]
    created, due = int(task["created"]), int(task["due"])
    assert reply == ["OK", 0]
    assert before <= created == due - 60_000 <= await server_ms(harness)
    assert found.pop("lanes")["next"] == "1"
    assert found == {
        "stats": {"submitted": "1", "1:PENDING": "1"},
        "blocked": {row.task: float(created)},
        "delayed": {row.task: float(due)},
        f"waits:{row.task}": {"@time"},
        f"task:{row.task}": {
            "state": "PENDING",
            "lane": "1",
            "created": str(created),
            "score": "50000000",
            "due": str(due),
            "def0": DEFINITION,
        },
    }


async def test_an_instant_is_taken_as_it_is(harness: Harness) -> None:
    at = await server_ms(harness) + 3_600_000

    task = await submitted(harness, ask={"at": at})

    found = await everything(harness)
    assert found["delayed"] == {task: float(at)}
    assert found[f"task:{task}"]["due"] == str(at)


@pytest.mark.parametrize("ask", [{"at": 1}, {"delay": 0}], ids=["past", "now"])
async def test_a_time_that_has_come_is_no_wait(harness: Harness, ask: dict[str, Any]) -> None:
    task = await submitted(harness, ask=ask)

    found = await everything(harness)
    assert set(found) == {*ALWAYS, "ready", "lane:1", f"task:{task}"}
    assert set(found[f"task:{task}"]) == {"state", "lane", "entry", "score", "def0"}


async def test_a_large_definition_of_a_waiting_task_has_a_key_of_its_own(harness: Harness) -> None:
    task = await submitted(harness, ask={"delay": 60_000}, definition="x" * 513)

    found = await everything(harness)
    assert found[f"def:{task}"] == "x" * 513
    assert "def0" not in found[f"task:{task}"]


async def test_an_unmet_parent_keeps_a_task_pending(harness: Harness) -> None:
    parent = await submitted(harness)

    child = await submitted(harness, ask={"parents": [parent]})

    found = await everything(harness)
    assert set(found) == {
        *ALWAYS, "ready", "lane:1", "blocked", f"task:{parent}", f"task:{child}",
        f"waits:{child}", f"dependents:{parent}", f"dag:{parent}", f"members:{parent}", "dags",
        "unfinished",
    }  # fmt: skip
    assert found[f"waits:{child}"] == {parent}
    assert found[f"dependents:{parent}"] == {child}
    assert found[f"task:{parent}"]["flags"] == f"{parent}d"
    assert found[f"task:{child}"]["flags"] == parent
    assert found[f"task:{child}"]["state"] == "PENDING"
    assert "due" not in found[f"task:{child}"]
    assert list(found["lane:1"]) == [parent]
    assert found["stats"] == {"submitted": "2", "1:PENDING": "1"}


async def test_time_and_parents_are_waited_for_together(harness: Harness) -> None:
    parent = await submitted(harness)

    child = await submitted(harness, ask={"parents": [parent], "delay": 60_000})

    found = await everything(harness)
    assert found[f"waits:{child}"] == {parent, "@time"}
    assert list(found["delayed"]) == list(found["blocked"]) == [child]


async def test_a_parent_of_the_same_call_is_known(harness: Harness) -> None:
    plain, late = a_row(), a_row(ask={"delay": 60_000})
    child = a_row(ask={"parents": [plain.task, late.task]})

    reply = await submit(harness, [plain, late, child])

    found = await everything(harness)
    assert reply == ["OK", 0]
    assert found[f"waits:{child.task}"] == {plain.task, late.task}
    assert found[f"dependents:{plain.task}"] == found[f"dependents:{late.task}"] == {child.task}
    flags = [found[f"task:{row.task}"]["flags"] for row in (plain, late)]
    assert flags == [f"{plain.task}d", "d"]


async def test_a_parent_named_by_the_callers_own_id_is_found(harness: Harness) -> None:
    parent = await submitted(harness, more={"ext": "sha"})

    child = await submitted(harness, ask={"parents": ["@sha"]})

    assert (await everything(harness))[f"waits:{child}"] == {parent}


async def test_a_completed_parent_is_met(harness: Harness) -> None:
    parent = await submitted(harness)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()

    child = await submitted(harness, ask={"parents": [parent]})

    found = await everything(harness)
    assert list(found["lane:1"]) == [child]
    assert set(found[f"task:{child}"]) == {"state", "lane", "entry", "score", "def0"}
    assert not {f"waits:{child}", f"dependents:{parent}", "blocked"} & set(found)


async def test_a_dead_parent_may_live_again_and_is_waited_for(harness: Harness) -> None:
    parent = await submitted(harness)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", "no", permanent=True)

    child = await submitted(harness, ask={"parents": [parent]})

    assert (await everything(harness))[f"waits:{child}"] == {parent}


async def test_a_cancelled_parent_refuses_the_child(harness: Harness) -> None:
    parent = await submitted(harness)
    await harness.queue.cancel(f"task_{parent}")
    before = await harness.dump()

    reply = await submit(
        harness, [a_row(ask={"parents": [parent]}, more={"ext": "e", "idem": "i"})]
    )

    assert reply == ["OK", 0, 0, "PARENT", parent]
    assert await harness.dump() == before


@pytest.mark.parametrize("named", ["01HZZZZZZZ7ZZZZZZZZZZZZZZZ", "@sha"], ids=["id", "own id"])
async def test_a_missing_parent_refuses_the_child_alone(harness: Harness, named: str) -> None:
    parent = await submitted(harness)
    before = await everything(harness)
    bad, good = a_row(ask={"parents": [parent, named]}), a_row()

    reply = await submit(harness, [bad, good])

    found = await everything(harness)
    assert reply == ["OK", 0, 0, "PARENT", named]
    assert set(found) - set(before) == {f"task:{good.task}"}
    assert found[f"task:{parent}"] == before[f"task:{parent}"]
    assert found["stats"] == {"submitted": "2"}


async def test_a_child_of_a_refused_one_is_refused_too(harness: Harness) -> None:
    bad = a_row(ask={"parents": ["NOBODY"]})
    child = a_row(ask={"parents": [bad.task]})

    reply = await submit(harness, [bad, child])

    assert reply == ["OK", 0, 0, "PARENT", "NOBODY", 1, "PARENT", bad.task]
    assert await harness.dump() == {}
