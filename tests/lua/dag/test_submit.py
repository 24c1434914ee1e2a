"""submit: a DAG is written in parts that nobody sees; a part that is sent again changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.dags import submit as dag_submit
from rqueue.errors import InvalidGraph, TaskNotFound
from rqueue.store.shard import ending
from rqueue.task.lane import signature
from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, a_plant, fan, planted, run
from tests.lua.rows import BASE, DEFINITION, PLAIN, a_row, everything, submit, submitted
from tests.lua.task.keys_after import ask

LANE = {"lanes": {signature(PLAIN): "1", "next": "1", "version": "*"}}
TASK = {
    "created": "*", "def0": "*", "lane": "1", "rank": "0", "score": "*", "state": "CREATED",
}  # fmt: skip

# One that waits for others of its DAG alone: PENDING, and CREATED for everyone until the commit.
INSIDE = TASK | {"state": "PENDING"}


async def test_tasks_are_written_and_stand_in_no_index(harness: Harness) -> None:
    plant = a_plant(harness, DIAMOND, title="T", follow="{}")

    assert [await plant.write(rows) for rows in plant.parts()] == [["OK"]]

    up = [task.ulid for task in (plant.ids["b"], plant.ids["c"])]
    assert up == sorted(up)
    assert await plant.after() == LANE | {
        "dag:D": {
            "cancelled": "0", "created": "*", "dead": "0", "edges": "4", "on_failure": "hold",
            "open": "4", "status": "writing", "title": "T", "total": "4", "waiting:1": "3",
        },
        "members:D": ["a", "b", "c", "d"],
        "fresh:D": ["a"],
        "writing": ["D"],
        "follow:D": "{}",
        "task:a": TASK | {"flags": "dD"},
        "task:b": INSIDE | {"flags": "oD", "up0": "a", "sole": "1", "down": "d"},
        "task:c": INSIDE | {"flags": "oD", "up0": "a", "sole": "1", "down": "d"},
        "task:d": INSIDE | {"flags": "uD", "up0": "b c"},
        "waits:d": ["b", "c"], "dependents:a": ["b", "c"],
        "stats": {"1:CREATED": 4},
    }  # fmt: skip


@pytest.mark.parametrize("length", [15, 64, 65, 128, 129, 192, 193, 512, 513, 600])
async def test_a_definition_of_any_length_is_written_and_read_whole(
    harness: Harness, length: int
) -> None:
    definition = DEFINITION.ljust(length)
    edges = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["c"]}
    plant = await a_plant(harness, edges, definition=definition).written()

    found = await everything(harness)
    read = {name: found[f"task:{task.ulid}"] for name, task in plant.ids.items()}
    pieces = [[task.pop(f"def{at}", "") for at in range(8)] for task in read.values()]
    whole = "" if length > 512 else definition
    assert ["".join(each) for each in pieces] == [whole] * 5
    own = [found.get(f"def:{task.ulid}") for task in plant.ids.values()]
    assert own == [definition if length > 512 else None] * 5
    assert {len(piece) for each in pieces for piece in each[: (length - 1) // 64]} <= {64, 0}
    bare = {field: value for field, value in INSIDE.items() if field != "def0"}
    after = {name: fields for name, fields in (await plant.after()).items() if "task:" in name}
    assert {
        name: {f: v for f, v in after[f"task:{name}"].items() if f != "def0"} for name in "bc"
    } == {
        "b": bare | {"flags": "ouD", "up0": "a", "sole": "1", "down": "c"},
        "c": bare | {"flags": "duD", "up0": "b", "sole": "1"},
    }
    await plant.commit()
    await run(plant, a="done", b="done", c="done", d="done", e="done")
    assert await plant.facts() == ("completed", "0", "0", "0")


async def test_what_leads_to_a_task_is_written_with_it(harness: Harness) -> None:
    more = {"ext": "own", "tags": ["t"], "deadline": 99, "trigger": "all_done"}
    plant = a_plant(harness, {"a": [], "b": ["a"]}, more={"b": more}, asks={"b": {"delay": 60_000}})

    await plant.written()

    found = await plant.after()
    assert (found["ext:own"], found["tag:t"], found["deadlines"]) == ("b", ["b"], ["b"])
    assert found["heirs:a"] == {"b": "all_done"}
    assert found["waits:b"] == ["@time", "a"]
    assert found["task:b"] == TASK | {"flags": "mD", "more": "*", "up0": "a", "due": "*"}
    assert not {"dependents:a", "delayed", "blocked"} & set(found)


async def test_a_part_that_is_sent_again_changes_nothing(harness: Harness) -> None:
    plant = await a_plant(harness, fan(450, to_one=True)).written()
    before = await plant.after()

    assert [await plant.write(rows) for rows in plant.parts()] == [["OK"]] * len(plant.parts())

    assert await plant.after() == before
    assert (await plant.field("edges"), await plant.field("total")) == ("450", "451")
    assert len(before["parents:end"]) == 450


async def test_a_part_that_comes_after_the_commit_changes_nothing(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    before = await harness.dump()

    assert [await plant.write(rows) for rows in plant.parts()] == [["OK"]]
    assert await harness.dump() == before


async def test_another_task_for_a_committed_dag_is_refused(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    (row,) = a_plant(harness, {"x": []}).parts()[0]
    before = await harness.dump()

    assert await plant.write([row]) == ["STATE", "pending"]
    assert await harness.dump() == before


async def test_nobody_sees_what_is_written(harness: Harness) -> None:
    plant = await a_plant(harness, DIAMOND).written()
    before = await harness.dump()
    task = plant.ids["a"]

    with pytest.raises(TaskNotFound):
        await harness.queue.get(task)
    watched = await ask(harness, "task/watch", {"box": "x", "keep_ms": 9}, [(task.ulid,)])
    assert watched == ["OK", "GONE"]
    assert not await harness.queue.cancel(task)
    child = a_row(ask={"parents": [task.ulid]})
    assert await submit(harness, [child]) == ["OK", 0, 0, "PARENT", task.ulid]
    assert await harness.queue.claim(worker="w1") == []

    after = await harness.dump()
    assert {key for key in after if "waiter:" not in key and "workers" not in key} == set(before)


@pytest.mark.parametrize("name", ["a", "b"])
async def test_what_is_written_cannot_be_changed(harness: Harness, name: str) -> None:
    plant = await a_plant(harness, {"a": [], "b": ["a"]}).written()
    task, before = plant.ids[name].ulid, await harness.dump()
    asked: dict[str, dict[str, Any]] = {
        "set_priority": {"priority": 1, "was": BASE},
        "reschedule": {"delay": 5, "at": ""},
        "edit": {"was": DEFINITION, "def": "{}"},
        "run_now": {"request": "r", "tries": 9, "events": 9},
        "revive": {
            "life": 1, "def": "", "delay": 0, "tries": 9, "steps": 9, "page": 9, "terms": "{}",
            "review": "",
        },
    }  # fmt: skip

    said = {
        verb: await ask(harness, f"task/{verb}", {"task": task, **asked[verb]}) for verb in asked
    }

    assert said == {verb: ["GONE"] for verb in asked}
    how = ending(harness.queue._internals.shard.terms)
    discarded = await ask(harness, "task/discard", {"reason": "", "how": how}, [(task, 1, "")])
    assert discarded == ["OK", "GONE"]
    assert await harness.dump() == before


async def test_a_written_task_is_no_parent_of_another_dag(harness: Harness) -> None:
    hidden = await a_plant(harness, {"a": []}).written()
    other = a_plant(harness, {"x": []}, outside={"x": [hidden.ids["a"].ulid]})
    before = await harness.dump()

    said = await other.write(other.parts()[0])

    assert said == ["PARENT", other.ids["x"].ulid, hidden.ids["a"].ulid]
    assert await harness.dump() == before


@pytest.mark.parametrize("parent", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "@nobody"])
async def test_a_part_with_a_parent_that_is_not_there_writes_nothing(
    harness: Harness, parent: str
) -> None:
    plant = a_plant(harness, {"a": [], "b": ["a"]}, outside={"b": [parent]})
    before = await harness.dump()

    said = await plant.write(plant.parts()[0])

    assert said[:2] == ["PARENT", plant.ids["b"].ulid]
    assert await harness.dump() == before


async def test_a_task_of_the_same_producers_id_is_told(harness: Harness) -> None:
    known = await submitted(harness, more={"ext": "own"})
    plant = a_plant(harness, {"a": []}, more={"a": {"ext": "own"}})
    before = await harness.dump()

    assert await plant.write(plant.parts()[0]) == ["EXISTS", plant.ids["a"].ulid, known]
    assert await harness.dump() == before


@pytest.mark.parametrize("parts", [1, 2])
async def test_two_tasks_of_the_same_producers_id_are_not_taken(
    harness: Harness, parts: int
) -> None:
    more = {"a": {"ext": "own"}, "b": {"ext": "own"}}
    plant = a_plant(harness, {"a": [], "b": []}, more=more)
    (rows,) = plant.parts()
    for row in rows[: parts - 1]:
        await plant.write([row])
    before = await harness.dump()

    said = await plant.write(rows[parts - 1 :])

    assert said == ["EXISTS", plant.ids["b"].ulid, plant.ids["a"].ulid]
    assert await harness.dump() == before


@pytest.mark.parametrize("where", ["alone", "in another DAG"])
async def test_an_id_that_another_task_has_is_refused_and_that_one_left_alone(
    harness: Harness, where: str
) -> None:
    plant = a_plant(harness, {"a": [], "b": ["a"]})
    if where == "alone":
        await submit(harness, [a_row(task=plant.ids["b"].ulid)])
    else:
        other = a_plant(harness, {"b": []})
        node = other.planting.nodes[0]._replace(id=plant.ids["b"])
        await dag_submit.submit(
            harness.queue._internals.shard, other.planting._replace(nodes=[node])
        )
    before = await harness.dump()

    with pytest.raises(InvalidGraph):
        await dag_submit.submit(harness.queue._internals.shard, plant.planting)

    assert await harness.dump() == before


async def test_too_many_lanes_write_nothing(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    plant = a_plant(harness, {"a": []})
    args: dict[str, Any]
    args, rows = dag_submit.part_call(
        harness.queue._internals.shard, plant.planting, (PLAIN,), plant.parts()[0]
    )
    before = await harness.dump()

    assert await ask(harness, "dag/submit", {**args, "max_lanes": 1}, rows) == ["LANES"]
    assert await harness.dump() == before


async def test_a_refused_part_takes_the_others_with_it(harness: Harness) -> None:
    outside = {"399": ["01ARZ3NDEKTSV4RRFFQ69G5FAV"]}
    plant = a_plant(harness, fan(400), outside=outside)

    with pytest.raises(InvalidGraph):
        await dag_submit.submit(harness.queue._internals.shard, plant.planting)

    assert await plant.after() == LANE | {"stats": {}}
