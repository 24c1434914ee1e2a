"""submit: tasks that wait for their time or for other tasks."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.store.reaping import read_seen
from tests.house import House
from tests.lua.rows import DEFINITION, a_row, everything, submit, submitted

ALWAYS = {"lanes", "stats"}


async def server_ms(house: House) -> int:
    now, _ = await read_seen(house.queue.shard)
    return now


async def test_a_delayed_task_waits_for_its_time_and_has_no_entry(house: House) -> None:
    row = a_row(ask={"delay": 60_000})
    before = await server_ms(house)

    reply = await submit(house, [row])

    found = await everything(house)
    task = found[f"task:{row.task}"]
    created, due = int(task["created"]), int(task["due"])
    assert reply == ["OK", 0]
    assert before <= created == due - 60_000 <= await server_ms(house)
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


async def test_an_instant_is_taken_as_it_is(house: House) -> None:
    at = await server_ms(house) + 3_600_000

    task = await submitted(house, ask={"at": at})

    found = await everything(house)
    assert found["delayed"] == {task: float(at)}
    assert found[f"task:{task}"]["due"] == str(at)


@pytest.mark.parametrize("ask", [{"at": 1}, {"delay": 0}], ids=["past", "now"])
async def test_a_time_that_has_come_is_no_wait(house: House, ask: dict[str, Any]) -> None:
    task = await submitted(house, ask=ask)

    found = await everything(house)
    assert set(found) == {*ALWAYS, "ready", "lane:1", f"task:{task}"}
    assert set(found[f"task:{task}"]) == {"state", "lane", "entry", "score", "def0"}


async def test_a_large_definition_of_a_waiting_task_has_a_key_of_its_own(house: House) -> None:
    task = await submitted(house, ask={"delay": 60_000}, definition="x" * 513)

    found = await everything(house)
    assert found[f"def:{task}"] == "x" * 513
    assert "def0" not in found[f"task:{task}"]


async def test_an_unmet_parent_keeps_a_task_pending(house: House) -> None:
    parent = await submitted(house)

    child = await submitted(house, ask={"parents": [parent]})

    found = await everything(house)
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


async def test_time_and_parents_are_waited_for_together(house: House) -> None:
    parent = await submitted(house)

    child = await submitted(house, ask={"parents": [parent], "delay": 60_000})

    found = await everything(house)
    assert found[f"waits:{child}"] == {parent, "@time"}
    assert list(found["delayed"]) == list(found["blocked"]) == [child]


async def test_a_parent_of_the_same_call_is_known(house: House) -> None:
    plain, late = a_row(), a_row(ask={"delay": 60_000})
    child = a_row(ask={"parents": [plain.task, late.task]})

    reply = await submit(house, [plain, late, child])

    found = await everything(house)
    assert reply == ["OK", 0]
    assert found[f"waits:{child.task}"] == {plain.task, late.task}
    assert found[f"dependents:{plain.task}"] == found[f"dependents:{late.task}"] == {child.task}
    flags = [found[f"task:{row.task}"]["flags"] for row in (plain, late)]
    assert flags == [f"{plain.task}d", "d"]


async def test_a_parent_named_by_the_callers_own_id_is_found(house: House) -> None:
    parent = await submitted(house, more={"ext": "sha"})

    child = await submitted(house, ask={"parents": ["@sha"]})

    assert (await everything(house))[f"waits:{child}"] == {parent}


async def test_a_completed_parent_is_met(house: House) -> None:
    parent = await submitted(house)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()

    child = await submitted(house, ask={"parents": [parent]})

    found = await everything(house)
    assert list(found["lane:1"]) == [child]
    assert set(found[f"task:{child}"]) == {"state", "lane", "entry", "score", "def0"}
    assert not {f"waits:{child}", f"dependents:{parent}", "blocked"} & set(found)


async def test_a_dead_parent_may_live_again_and_is_waited_for(house: House) -> None:
    parent = await submitted(house)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", "no", permanent=True)

    child = await submitted(house, ask={"parents": [parent]})

    assert (await everything(house))[f"waits:{child}"] == {parent}


async def test_a_cancelled_parent_refuses_the_child(house: House) -> None:
    parent = await submitted(house)
    await house.queue.cancel(f"task_{parent}")
    before = await house.dump()

    reply = await submit(house, [a_row(ask={"parents": [parent]}, more={"ext": "e", "idem": "i"})])

    assert reply == ["OK", 0, 0, "PARENT", parent]
    assert await house.dump() == before


@pytest.mark.parametrize("named", ["01HZZZZZZZ7ZZZZZZZZZZZZZZZ", "@sha"], ids=["id", "own id"])
async def test_a_missing_parent_refuses_the_child_alone(house: House, named: str) -> None:
    parent = await submitted(house)
    before = await everything(house)
    bad, good = a_row(ask={"parents": [parent, named]}), a_row()

    reply = await submit(house, [bad, good])

    found = await everything(house)
    assert reply == ["OK", 0, 0, "PARENT", named]
    assert set(found) - set(before) == {f"task:{good.task}"}
    assert found[f"task:{parent}"] == before[f"task:{parent}"]
    assert found["stats"] == {"submitted": "2"}


async def test_a_child_of_a_refused_one_is_refused_too(house: House) -> None:
    bad = a_row(ask={"parents": ["NOBODY"]})
    child = a_row(ask={"parents": [bad.task]})

    reply = await submit(house, [bad, child])

    assert reply == ["OK", 0, 0, "PARENT", "NOBODY", 1, "PARENT", bad.task]
    assert await house.dump() == {}
