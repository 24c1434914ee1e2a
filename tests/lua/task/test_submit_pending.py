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
    row = a_row(options={"delay": 60_000})
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


async def test_an_instant_is_stored_as_it_is(harness: Harness) -> None:
    at = await server_ms(harness) + 3_600_000

    task = await submitted(harness, options={"at": at})

    found = await everything(harness)
    assert found["delayed"] == {task: float(at)}
    assert found[f"task:{task}"]["due"] == str(at)


@pytest.mark.parametrize("options", [{"at": 1}, {"delay": 0}], ids=["past", "now"])
async def test_a_past_time_is_no_wait(harness: Harness, options: dict[str, Any]) -> None:
    task = await submitted(harness, options=options)

    found = await everything(harness)
    assert set(found) == {*ALWAYS, "ready", "lane:1", f"task:{task}"}
    assert set(found[f"task:{task}"]) == {"state", "lane", "entry", "score", "def0"}


async def test_a_large_definition_of_a_waiting_task_has_a_key_of_its_own(harness: Harness) -> None:
    task = await submitted(harness, options={"delay": 60_000}, definition="x" * 513)

    found = await everything(harness)
    assert found[f"def:{task}"] == "x" * 513
    assert "def0" not in found[f"task:{task}"]


async def test_an_unmet_dependency_keeps_a_task_pending(harness: Harness) -> None:
    dependency = await submitted(harness)

    dependent = await submitted(harness, options={"parents": [dependency]})

    found = await everything(harness)
    assert set(found) == {
        *ALWAYS, "ready", "lane:1", "blocked", f"task:{dependency}", f"task:{dependent}",
        f"waits:{dependent}", f"dependents:{dependency}", f"dag:{dependency}",
        f"members:{dependency}", "dags", "unfinished",
    }  # fmt: skip
    assert found[f"waits:{dependent}"] == {dependency}
    assert found[f"dependents:{dependency}"] == {dependent}
    assert found[f"task:{dependency}"]["flags"] == f"{dependency}d"
    assert found[f"task:{dependent}"]["flags"] == dependency
    assert found[f"task:{dependent}"]["state"] == "PENDING"
    assert "due" not in found[f"task:{dependent}"]
    assert list(found["lane:1"]) == [dependency]
    assert found["stats"] == {"submitted": "2", "1:PENDING": "1"}


async def test_time_and_dependencies_are_waited_for_together(harness: Harness) -> None:
    dependency = await submitted(harness)

    dependent = await submitted(harness, options={"parents": [dependency], "delay": 60_000})

    found = await everything(harness)
    assert found[f"waits:{dependent}"] == {dependency, "@time"}
    assert list(found["delayed"]) == list(found["blocked"]) == [dependent]


async def test_a_dependency_of_the_same_call_is_known(harness: Harness) -> None:
    plain, late = a_row(), a_row(options={"delay": 60_000})
    dependent = a_row(options={"parents": [plain.task, late.task]})

    reply = await submit(harness, [plain, late, dependent])

    found = await everything(harness)
    assert reply == ["OK", 0]
    assert found[f"waits:{dependent.task}"] == {plain.task, late.task}
    assert found[f"dependents:{plain.task}"] == found[f"dependents:{late.task}"] == {dependent.task}
    flags = [found[f"task:{row.task}"]["flags"] for row in (plain, late)]
    assert flags == [f"{plain.task}d", "d"]


async def test_a_dependency_named_by_its_external_id_is_found(harness: Harness) -> None:
    dependency = await submitted(harness, more={"ext": "sha"})

    dependent = await submitted(harness, options={"parents": ["@sha"]})

    assert (await everything(harness))[f"waits:{dependent}"] == {dependency}


async def test_a_completed_dependency_is_met(harness: Harness) -> None:
    dependency = await submitted(harness)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()

    dependent = await submitted(harness, options={"parents": [dependency]})

    found = await everything(harness)
    assert list(found["lane:1"]) == [dependent]
    assert set(found[f"task:{dependent}"]) == {"state", "lane", "entry", "score", "def0"}
    assert not {f"waits:{dependent}", f"dependents:{dependency}", "blocked"} & set(found)


async def test_a_dead_dependency_may_be_retried_and_is_waited_for(harness: Harness) -> None:
    dependency = await submitted(harness)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", "no", permanent=True)

    dependent = await submitted(harness, options={"parents": [dependency]})

    assert (await everything(harness))[f"waits:{dependent}"] == {dependency}


async def test_a_cancelled_dependency_refuses_the_task(harness: Harness) -> None:
    dependency = await submitted(harness)
    await harness.queue.cancel(f"task_{dependency}")
    before = await harness.dump()

    reply = await submit(
        harness, [a_row(options={"parents": [dependency]}, more={"ext": "e", "idem": "i"})]
    )

    assert reply == ["OK", 0, 0, "PARENT", dependency]
    assert await harness.dump() == before


@pytest.mark.parametrize("named", ["01HZZZZZZZ7ZZZZZZZZZZZZZZZ", "@sha"], ids=["id", "own id"])
async def test_a_missing_dependency_refuses_only_its_dependent(
    harness: Harness, named: str
) -> None:
    dependency = await submitted(harness)
    before = await everything(harness)
    bad, good = a_row(options={"parents": [dependency, named]}), a_row()

    reply = await submit(harness, [bad, good])

    found = await everything(harness)
    assert reply == ["OK", 0, 0, "PARENT", named]
    assert set(found) - set(before) == {f"task:{good.task}"}
    assert found[f"task:{dependency}"] == before[f"task:{dependency}"]
    assert found["stats"] == {"submitted": "2"}


async def test_a_dependent_of_a_refused_task_is_refused_too(harness: Harness) -> None:
    bad = a_row(options={"parents": ["NOBODY"]})
    dependent = a_row(options={"parents": [bad.task]})

    reply = await submit(harness, [bad, dependent])

    assert reply == ["OK", 0, 0, "PARENT", "NOBODY", 1, "PARENT", bad.task]
    assert await harness.dump() == {}
