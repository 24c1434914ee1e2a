"""submit: a DAG is written in parts that nobody sees; a part that is sent again changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.errors import InvalidGraph, TaskNotFound
from rqueue.model.lane import signature
from rqueue.store import planting
from rqueue.store.shard import ending
from tests.house import House
from tests.lua.dag.planted import DIAMOND, a_plant, fan, planted, run
from tests.lua.rows import BASE, DEFINITION, PLAIN, a_row, everything, submit, submitted
from tests.lua.task.afterwards import ask

LANE = {"lanes": {signature(PLAIN): "1", "next": "1", "version": "*"}}
TASK = {
    "created": "*", "def0": "*", "lane": "1", "rank": "0", "score": "*", "state": "CREATED",
}  # fmt: skip

# One that waits for others of its DAG alone: PENDING, and CREATED for everyone until the commit.
INSIDE = TASK | {"state": "PENDING"}


async def test_tasks_are_written_and_stand_in_no_index(house: House) -> None:
    plant = a_plant(house, DIAMOND, title="T", follow="{}")

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
    house: House, length: int
) -> None:
    definition = DEFINITION.ljust(length)
    edges = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["c"]}
    plant = await a_plant(house, edges, definition=definition).written()

    found = await everything(house)
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


async def test_what_leads_to_a_task_is_written_with_it(house: House) -> None:
    more = {"ext": "own", "tags": ["t"], "deadline": 99, "trigger": "all_done"}
    plant = a_plant(house, {"a": [], "b": ["a"]}, more={"b": more}, asks={"b": {"delay": 60_000}})

    await plant.written()

    found = await plant.after()
    assert (found["ext:own"], found["tag:t"], found["deadlines"]) == ("b", ["b"], ["b"])
    assert found["heirs:a"] == {"b": "all_done"}
    assert found["waits:b"] == ["@time", "a"]
    assert found["task:b"] == TASK | {"flags": "mD", "more": "*", "up0": "a", "due": "*"}
    assert not {"dependents:a", "delayed", "blocked"} & set(found)


async def test_a_part_that_is_sent_again_changes_nothing(house: House) -> None:
    plant = await a_plant(house, fan(450, to_one=True)).written()
    before = await plant.after()

    assert [await plant.write(rows) for rows in plant.parts()] == [["OK"]] * len(plant.parts())

    assert await plant.after() == before
    assert (await plant.field("edges"), await plant.field("total")) == ("450", "451")
    assert len(before["parents:end"]) == 450


async def test_a_part_that_comes_after_the_commit_changes_nothing(house: House) -> None:
    plant = await planted(house, DIAMOND)
    before = await house.dump()

    assert [await plant.write(rows) for rows in plant.parts()] == [["OK"]]
    assert await house.dump() == before


async def test_another_task_for_a_committed_dag_is_refused(house: House) -> None:
    plant = await planted(house, DIAMOND)
    (row,) = a_plant(house, {"x": []}).parts()[0]
    before = await house.dump()

    assert await plant.write([row]) == ["STATE", "pending"]
    assert await house.dump() == before


async def test_nobody_sees_what_is_written(house: House) -> None:
    plant = await a_plant(house, DIAMOND).written()
    before = await house.dump()
    task = plant.ids["a"]

    with pytest.raises(TaskNotFound):
        await house.queue.get(task)
    watched = await ask(house, "task/watch", {"box": "x", "keep_ms": 9}, [(task.ulid,)])
    assert watched == ["OK", "GONE"]
    assert not await house.queue.cancel(task)
    child = a_row(ask={"parents": [task.ulid]})
    assert await submit(house, [child]) == ["OK", 0, 0, "PARENT", task.ulid]
    assert await house.queue.claim(worker="w1") == []

    after = await house.dump()
    assert {key for key in after if "waiter:" not in key and "workers" not in key} == set(before)


@pytest.mark.parametrize("name", ["a", "b"])
async def test_what_is_written_cannot_be_changed(house: House, name: str) -> None:
    plant = await a_plant(house, {"a": [], "b": ["a"]}).written()
    task, before = plant.ids[name].ulid, await house.dump()
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

    said = {verb: await ask(house, f"task/{verb}", {"task": task, **asked[verb]}) for verb in asked}

    assert said == {verb: ["GONE"] for verb in asked}
    how = ending(house.queue.shard.terms)
    discarded = await ask(house, "task/discard", {"reason": "", "how": how}, [(task, 1, "")])
    assert discarded == ["OK", "GONE"]
    assert await house.dump() == before


async def test_a_written_task_is_no_parent_of_another_dag(house: House) -> None:
    hidden = await a_plant(house, {"a": []}).written()
    other = a_plant(house, {"x": []}, outside={"x": [hidden.ids["a"].ulid]})
    before = await house.dump()

    said = await other.write(other.parts()[0])

    assert said == ["PARENT", other.ids["x"].ulid, hidden.ids["a"].ulid]
    assert await house.dump() == before


@pytest.mark.parametrize("parent", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "@nobody"])
async def test_a_part_with_a_parent_that_is_not_there_writes_nothing(
    house: House, parent: str
) -> None:
    plant = a_plant(house, {"a": [], "b": ["a"]}, outside={"b": [parent]})
    before = await house.dump()

    said = await plant.write(plant.parts()[0])

    assert said[:2] == ["PARENT", plant.ids["b"].ulid]
    assert await house.dump() == before


async def test_a_task_of_the_same_producers_id_is_told(house: House) -> None:
    known = await submitted(house, more={"ext": "own"})
    plant = a_plant(house, {"a": []}, more={"a": {"ext": "own"}})
    before = await house.dump()

    assert await plant.write(plant.parts()[0]) == ["EXISTS", plant.ids["a"].ulid, known]
    assert await house.dump() == before


@pytest.mark.parametrize("parts", [1, 2])
async def test_two_tasks_of_the_same_producers_id_are_not_taken(house: House, parts: int) -> None:
    more = {"a": {"ext": "own"}, "b": {"ext": "own"}}
    plant = a_plant(house, {"a": [], "b": []}, more=more)
    (rows,) = plant.parts()
    for row in rows[: parts - 1]:
        await plant.write([row])
    before = await house.dump()

    said = await plant.write(rows[parts - 1 :])

    assert said == ["EXISTS", plant.ids["b"].ulid, plant.ids["a"].ulid]
    assert await house.dump() == before


@pytest.mark.parametrize("where", ["alone", "in another DAG"])
async def test_an_id_that_another_task_has_is_refused_and_that_one_left_alone(
    house: House, where: str
) -> None:
    plant = a_plant(house, {"a": [], "b": ["a"]})
    if where == "alone":
        await submit(house, [a_row(task=plant.ids["b"].ulid)])
    else:
        other = a_plant(house, {"b": []})
        node = other.planting.nodes[0]._replace(id=plant.ids["b"])
        await planting.submit(house.queue.shard, other.planting._replace(nodes=[node]))
    before = await house.dump()

    with pytest.raises(InvalidGraph):
        await planting.submit(house.queue.shard, plant.planting)

    assert await house.dump() == before


async def test_too_many_lanes_write_nothing(house: House) -> None:
    await house.queue.enqueue("code")
    plant = a_plant(house, {"a": []})
    args: dict[str, Any]
    args, rows = planting.asked(house.queue.shard, plant.planting, (PLAIN,), plant.parts()[0])
    before = await house.dump()

    assert await ask(house, "dag/submit", {**args, "max_lanes": 1}, rows) == ["LANES"]
    assert await house.dump() == before


async def test_a_refused_part_takes_the_others_with_it(house: House) -> None:
    outside = {"399": ["01ARZ3NDEKTSV4RRFFQ69G5FAV"]}
    plant = a_plant(house, fan(400), outside=outside)

    with pytest.raises(InvalidGraph):
        await planting.submit(house.queue.shard, plant.planting)

    assert await plant.after() == LANE | {"stats": {}}
