"""submit: a DAG is written in parts that are not visible; a repeated part changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.dags import submit as dag_submit
from rqueue.errors import InvalidGraph, TaskNotFound
from rqueue.store.shard import ending
from rqueue.task.lane import signature
from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, committed_dag, fan, run, unsent_dag
from tests.lua.rows import BASE, DEFINITION, PLAIN, a_row, everything, submit, submitted
from tests.lua.task.keyspace import run_move

LANE = {"lanes": {signature(PLAIN): "1", "next": "1", "version": "*"}}
TASK = {
    "created": "*", "def0": "*", "lane": "1", "rank": "0", "score": "*", "state": "CREATED",
}  # fmt: skip

# A task that waits only for others of its DAG: PENDING, counted as CREATED until the commit.
INSIDE = TASK | {"state": "PENDING"}


async def test_tasks_are_written_and_are_in_no_index(harness: Harness) -> None:
    dag = unsent_dag(harness, DIAMOND, title="T", follow="{}")

    assert [await dag.write(rows) for rows in dag.parts()] == [["OK"]]

    up = [task.ulid for task in (dag.ids["b"], dag.ids["c"])]
    assert up == sorted(up)
    assert await dag.after() == LANE | {
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
    dag = await unsent_dag(harness, edges, definition=definition).written()

    found = await everything(harness)
    read = {name: found[f"task:{task.ulid}"] for name, task in dag.ids.items()}
    pieces = [[task.pop(f"def{at}", "") for at in range(8)] for task in read.values()]
    whole = "" if length > 512 else definition
    assert ["".join(each) for each in pieces] == [whole] * 5
    own = [found.get(f"def:{task.ulid}") for task in dag.ids.values()]
    assert own == [definition if length > 512 else None] * 5
    assert {len(piece) for each in pieces for piece in each[: (length - 1) // 64]} <= {64, 0}
    bare = {field: value for field, value in INSIDE.items() if field != "def0"}
    after = {name: fields for name, fields in (await dag.after()).items() if "task:" in name}
    assert {
        name: {f: v for f, v in after[f"task:{name}"].items() if f != "def0"} for name in "bc"
    } == {
        "b": bare | {"flags": "ouD", "up0": "a", "sole": "1", "down": "c"},
        "c": bare | {"flags": "duD", "up0": "b", "sole": "1"},
    }
    await dag.commit()
    await run(dag, a="done", b="done", c="done", d="done", e="done")
    assert await dag.facts() == ("completed", "0", "0", "0")


async def test_names_of_a_task_are_written_with_it(harness: Harness) -> None:
    more = {"ext": "own", "tags": ["t"], "deadline": 99, "trigger": "all_done"}
    dag = unsent_dag(
        harness, {"a": [], "b": ["a"]}, more={"b": more}, options={"b": {"delay": 60_000}}
    )

    await dag.written()

    found = await dag.after()
    assert (found["ext:own"], found["tag:t"], found["deadlines"]) == ("b", ["b"], ["b"])
    assert found["heirs:a"] == {"b": "all_done"}
    assert found["waits:b"] == ["@time", "a"]
    assert found["task:b"] == TASK | {"flags": "mD", "more": "*", "up0": "a", "due": "*"}
    assert not {"dependents:a", "delayed", "blocked"} & set(found)


async def test_a_repeated_part_changes_nothing(harness: Harness) -> None:
    dag = await unsent_dag(harness, fan(450, to_one=True)).written()
    before = await dag.after()

    assert [await dag.write(rows) for rows in dag.parts()] == [["OK"]] * len(dag.parts())

    assert await dag.after() == before
    assert (await dag.field("edges"), await dag.field("total")) == ("450", "451")
    assert len(before["parents:end"]) == 450


async def test_a_part_after_the_commit_changes_nothing(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    before = await harness.dump()

    assert [await dag.write(rows) for rows in dag.parts()] == [["OK"]]
    assert await harness.dump() == before


async def test_another_task_for_a_committed_dag_is_refused(harness: Harness) -> None:
    dag = await committed_dag(harness, DIAMOND)
    (row,) = unsent_dag(harness, {"x": []}).parts()[0]
    before = await harness.dump()

    assert await dag.write([row]) == ["STATE", "pending"]
    assert await harness.dump() == before


async def test_an_uncommitted_task_is_not_visible(harness: Harness) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()
    before = await harness.dump()
    task = dag.ids["a"]

    with pytest.raises(TaskNotFound):
        await harness.queue.get(task)
    watched = await run_move(harness, "task/watch", {"box": "x", "keep_ms": 9}, [(task.ulid,)])
    assert watched == ["OK", "GONE"]
    assert not await harness.queue.cancel(task)
    dependent = a_row(options={"parents": [task.ulid]})
    assert await submit(harness, [dependent]) == ["OK", 0, 0, "PARENT", task.ulid]
    assert await harness.queue.claim(worker="w1") == []

    after = await harness.dump()
    assert {key for key in after if "waiter:" not in key and "workers" not in key} == set(before)


@pytest.mark.parametrize("name", ["a", "b"])
async def test_an_uncommitted_task_cannot_be_changed(harness: Harness, name: str) -> None:
    dag = await unsent_dag(harness, {"a": [], "b": ["a"]}).written()
    task, before = dag.ids[name].ulid, await harness.dump()
    options: dict[str, dict[str, Any]] = {
        "set_priority": {"priority": 1, "was": BASE},
        "reschedule": {"delay": 5, "at": ""},
        "edit": {"was": DEFINITION, "def": "{}"},
        "run_now": {"request": "r", "tries": 9, "events": 9},
        "revive": {
            "life": 1, "def": "", "delay": 0, "tries": 9, "steps": 9, "page": 9, "terms": "{}",
            "review": "",
        },
    }  # fmt: skip

    reply = {
        verb: await run_move(harness, f"task/{verb}", {"task": task, **options[verb]})
        for verb in options
    }

    assert reply == {verb: ["GONE"] for verb in options}
    how = ending(harness.queue._internals.shard.terms)
    discarded = await run_move(harness, "task/discard", {"reason": "", "how": how}, [(task, 1, "")])
    assert discarded == ["OK", "GONE"]
    assert await harness.dump() == before


async def test_an_uncommitted_task_cannot_be_a_dependency_of_another_dag(harness: Harness) -> None:
    hidden = await unsent_dag(harness, {"a": []}).written()
    other = unsent_dag(harness, {"x": []}, outside={"x": [hidden.ids["a"].ulid]})
    before = await harness.dump()

    reply = await other.write(other.parts()[0])

    assert reply == ["PARENT", other.ids["x"].ulid, hidden.ids["a"].ulid]
    assert await harness.dump() == before


@pytest.mark.parametrize("dependency", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "@nobody"])
async def test_a_part_with_an_unknown_dependency_writes_nothing(
    harness: Harness, dependency: str
) -> None:
    dag = unsent_dag(harness, {"a": [], "b": ["a"]}, outside={"b": [dependency]})
    before = await harness.dump()

    reply = await dag.write(dag.parts()[0])

    assert reply[:2] == ["PARENT", dag.ids["b"].ulid]
    assert await harness.dump() == before


async def test_an_external_id_that_another_task_has_is_refused(harness: Harness) -> None:
    known = await submitted(harness, more={"ext": "own"})
    dag = unsent_dag(harness, {"a": []}, more={"a": {"ext": "own"}})
    before = await harness.dump()

    assert await dag.write(dag.parts()[0]) == ["EXISTS", dag.ids["a"].ulid, known]
    assert await harness.dump() == before


@pytest.mark.parametrize("parts", [1, 2])
async def test_two_tasks_with_the_same_external_id_are_refused(
    harness: Harness, parts: int
) -> None:
    more = {"a": {"ext": "own"}, "b": {"ext": "own"}}
    dag = unsent_dag(harness, {"a": [], "b": []}, more=more)
    (rows,) = dag.parts()
    for row in rows[: parts - 1]:
        await dag.write([row])
    before = await harness.dump()

    reply = await dag.write(rows[parts - 1 :])

    assert reply == ["EXISTS", dag.ids["b"].ulid, dag.ids["a"].ulid]
    assert await harness.dump() == before


@pytest.mark.parametrize("where", ["alone", "in another DAG"])
async def test_an_id_of_another_task_is_refused_and_that_task_is_unchanged(
    harness: Harness, where: str
) -> None:
    dag = unsent_dag(harness, {"a": [], "b": ["a"]})
    if where == "alone":
        await submit(harness, [a_row(task=dag.ids["b"].ulid)])
    else:
        other = unsent_dag(harness, {"b": []})
        node = other.draft.nodes[0]._replace(id=dag.ids["b"])
        await dag_submit.submit(harness.queue._internals.shard, other.draft._replace(nodes=[node]))
    before = await harness.dump()

    with pytest.raises(InvalidGraph):
        await dag_submit.submit(harness.queue._internals.shard, dag.draft)

    assert await harness.dump() == before


async def test_too_many_lanes_write_nothing(harness: Harness) -> None:
    await harness.queue.enqueue("code")
    dag = unsent_dag(harness, {"a": []})
    args: dict[str, Any]
    args, rows = dag_submit.part_call(
        harness.queue._internals.shard, dag.draft, (PLAIN,), dag.parts()[0]
    )
    before = await harness.dump()

    assert await run_move(harness, "dag/submit", {**args, "max_lanes": 1}, rows) == ["LANES"]
    assert await harness.dump() == before


async def test_a_refused_part_drops_the_other_parts(harness: Harness) -> None:
    outside = {"399": ["01ARZ3NDEKTSV4RRFFQ69G5FAV"]}
    dag = unsent_dag(harness, fan(400), outside=outside)

    with pytest.raises(InvalidGraph):
        await dag_submit.submit(harness.queue._internals.shard, dag.draft)

    assert await dag.after() == LANE | {"stats": {}}
