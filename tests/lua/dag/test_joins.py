"""Joins: a task with a dependency joins the DAG of that, if the DAG is open and has room."""

from __future__ import annotations

import json

import pytest

from rqueue.core.submit import lanes_text
from rqueue.store.library import Argument
from rqueue.store.shard import ending
from tests.harness import Harness
from tests.lua.dag.dags import committed_dag, run, running, settled
from tests.lua.rows import PLAIN, a_row, submit, submitted
from tests.lua.task.keyspace import all_keys, run_move


async def joined(
    harness: Harness, dependency: str, *, room: int = 10_000, **options: object
) -> str:
    """A new task that waits for another, in a queue whose DAGs may have so many tasks."""
    row = a_row(options={"parents": [dependency]}, **options)  # type: ignore[arg-type]
    how = json.loads(ending(harness.queue._internals.shard.terms)) | {"max_nodes": room}
    args: dict[str, Argument] = {
        "lanes": lanes_text((PLAIN,)), "max_lanes": 9, "tries": 9, "how": json.dumps(how),
        "who": "", "most": "",
    }  # fmt: skip
    assert await run_move(harness, "task/submit", args, [row]) == ["OK", 0]
    return row.task


async def test_a_task_without_a_dag_becomes_a_dag_with_its_dependent(harness: Harness) -> None:
    dependency = await submitted(harness)

    dependent = await joined(harness, dependency)

    found = await all_keys(harness, p=dependency, c=dependent)
    assert found["dag:p"] == {
        "cancelled": "0", "created": "*", "dead": "0", "edges": "1", "on_failure": "hold",
        "open": "2", "status": "pending", "total": "2",
    }  # fmt: skip
    assert (found["members:p"], found["dags"]) == (["c", "p"], ["p"])
    assert found["unfinished"] == {"rank p": "1"}
    assert (found["task:p"]["flags"], found["task:c"]["flags"]) == ("pd", "p")


@pytest.mark.parametrize(
    ("state", "facts"),
    [
        ("RUNNING", {"status": "running", "open": "2", "dead": "0"}),
        ("DEAD_LETTERED", {"status": "failed", "open": "1", "dead": "1"}),
    ],
)
async def test_the_status_of_the_dag_is_that_of_its_first_task(
    harness: Harness, state: str, facts: dict[str, str]
) -> None:
    dependency = await submitted(harness)
    (lease,) = await running(harness)
    if state == "DEAD_LETTERED":
        await lease.fail(permanent=True)

    await joined(harness, dependency)

    found = (await all_keys(harness, p=dependency))["dag:p"]
    assert facts.items() <= found.items()


async def test_the_dag_ends_with_its_last_task(harness: Harness) -> None:
    dependency = await submitted(harness)
    dependent = await joined(harness, dependency)
    for _ in range(2):
        (lease,) = await running(harness)
        await lease.complete()

    found = await all_keys(harness, p=dependency, c=dependent)
    assert (found["dag:p"]["status"], found["dag:p"]["open"]) == ("completed", "0")
    assert "finished" in found["dag:p"]


@pytest.mark.parametrize(("rule", "total"), [("none", "1"), ("own_dag", "2"), (None, "2")])
async def test_a_dag_that_allows_no_additions_is_not_joined(
    harness: Harness, rule: str | None, total: str
) -> None:
    dag = await committed_dag(harness, {"a": []}, **({"spawn": rule} if rule else {}))
    (lease,) = await running(harness)

    dependent = await joined(harness, dag.ids["a"].ulid)

    assert await dag.field("total") == total
    found = await all_keys(harness, c=dependent, **dag.names)
    assert found["task:c"]["state"] == "PENDING"
    assert (found["waits:c"], found["dependents:a"]) == (["a"], ["c"])
    await lease.complete()
    assert (await all_keys(harness, c=dependent))["task:c"]["state"] == "READY"


async def test_a_dependent_joins_the_dag_of_its_dependency(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": []})

    dependent = await joined(harness, dag.ids["b"].ulid)

    assert await dag.facts() == ("pending", "3", "0", "0")
    assert (await dag.field("total"), await dag.field("edges")) == ("3", "1")
    members = await harness.client.lrange(harness.keys.members(dag.ulid), 0, -1)
    assert members[-1].decode() == dependent


async def test_a_full_dag_is_not_joined(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": []})

    dependent = await joined(harness, dag.ids["a"].ulid, room=2)

    found = await dag.after()
    assert found[f"waits:{dependent}"] == ["a"]
    assert await dag.field("total") == "2"
    assert "flags" not in found[f"task:{dependent}"]
    await run(dag, a="done", b="done")
    assert await dag.facts() == ("completed", "0", "0", "0")
    assert (await dag.after())[f"task:{dependent}"]["state"] == "READY"


async def test_a_completed_dependency_is_met_and_not_joined(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    await run(dag, a="done")

    dependent = await joined(harness, dag.ids["a"].ulid)

    assert (await dag.after())[f"task:{dependent}"]["state"] == "READY"
    assert await dag.field("total") == "1"


async def test_the_first_open_dependency_decides_the_dag(harness: Harness) -> None:
    done = await committed_dag(harness, {"a": []})
    await run(done, a="done")
    one, two = [await committed_dag(harness, {"a": []}) for _ in range(2)]
    row = a_row(options={"parents": [dag.ids["a"].ulid for dag in (done, one, two)]})

    await submit(harness, [row])

    totals = [await dag.field("total") for dag in (done, one, two)]
    assert totals == ["1", "2", "1"]
    assert await one.field("edges") == "2"


async def test_a_repeated_submit_joins_once(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    row = a_row(options={"parents": [dag.ids["a"].ulid]})
    await submit(harness, [row])
    before = await harness.dump()

    assert await submit(harness, [row]) == ["OK", 0]
    assert await harness.dump() == before


async def test_a_replaced_task_is_counted_as_cancelled(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    more = {"idem": "key", "window": 9, "unique": "until_done"}
    options = {"parents": [dag.ids["a"].ulid], "if_exists": "replace"}
    await submit(harness, [a_row(more=more, options=options)])

    await submit(harness, [a_row(more=more, options=options)])

    assert await dag.facts() == ("pending", "2", "0", "1")


async def test_a_chain_of_joins_is_one_dag_that_ends(harness: Harness) -> None:
    ids = [await submitted(harness)]
    for _ in range(5):
        ids.append(await joined(harness, ids[-1]))

    await harness.queue.cancel(f"task_{ids[0]}")
    await settled(harness)

    found = (await all_keys(harness, p=ids[0]))["dag:p"]
    assert (found["status"], found["total"], found["cancelled"]) == ("cancelled", "6", "6")
