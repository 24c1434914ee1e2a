"""Joins: a task that waits for another becomes one of its DAG, where that is open and has room."""

from __future__ import annotations

import json

import pytest

from rqueue.core.submit import lanes_text
from rqueue.store.library import Argument
from rqueue.store.shard import ending
from tests.harness import Harness
from tests.lua.dag.planted import planted, run, running, settled
from tests.lua.rows import PLAIN, a_row, submit, submitted
from tests.lua.task.keys_after import afterwards, ask


async def joined(harness: Harness, parent: str, *, room: int = 10_000, **options: object) -> str:
    """A new task that waits for another, in a queue whose DAGs may have so many tasks."""
    row = a_row(ask={"parents": [parent]}, **options)  # type: ignore[arg-type]
    how = json.loads(ending(harness.queue._internals.shard.terms)) | {"max_nodes": room}
    args: dict[str, Argument] = {
        "lanes": lanes_text((PLAIN,)), "max_lanes": 9, "tries": 9, "how": json.dumps(how),
        "who": "", "most": "",
    }  # fmt: skip
    assert await ask(harness, "task/submit", args, [row]) == ["OK", 0]
    return row.task


async def test_a_task_alone_becomes_a_dag_with_its_child(harness: Harness) -> None:
    parent = await submitted(harness)

    child = await joined(harness, parent)

    found = await afterwards(harness, p=parent, c=child)
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
async def test_the_dag_is_as_its_first_task_is(
    harness: Harness, state: str, facts: dict[str, str]
) -> None:
    parent = await submitted(harness)
    (lease,) = await running(harness)
    if state == "DEAD_LETTERED":
        await lease.fail(permanent=True)

    await joined(harness, parent)

    found = (await afterwards(harness, p=parent))["dag:p"]
    assert facts.items() <= found.items()


async def test_the_whole_of_it_ends_with_the_last(harness: Harness) -> None:
    parent = await submitted(harness)
    child = await joined(harness, parent)
    for _ in range(2):
        (lease,) = await running(harness)
        await lease.complete()

    found = await afterwards(harness, p=parent, c=child)
    assert (found["dag:p"]["status"], found["dag:p"]["open"]) == ("completed", "0")
    assert "finished" in found["dag:p"]


@pytest.mark.parametrize(("rule", "total"), [("none", "1"), ("own_dag", "2"), (None, "2")])
async def test_a_dag_to_which_nothing_may_be_added_takes_no_child_in(
    harness: Harness, rule: str | None, total: str
) -> None:
    plant = await planted(harness, {"a": []}, **({"spawn": rule} if rule else {}))
    (lease,) = await running(harness)

    child = await joined(harness, plant.ids["a"].ulid)

    assert await plant.field("total") == total
    found = await afterwards(harness, c=child, **plant.names)
    assert found["task:c"]["state"] == "PENDING"
    assert (found["waits:c"], found["dependents:a"]) == (["a"], ["c"])
    await lease.complete()
    assert (await afterwards(harness, c=child))["task:c"]["state"] == "READY"


async def test_one_of_a_dag_takes_its_child_in(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": []})

    child = await joined(harness, plant.ids["b"].ulid)

    assert await plant.facts() == ("pending", "3", "0", "0")
    assert (await plant.field("total"), await plant.field("edges")) == ("3", "1")
    members = await harness.client.lrange(harness.keys.members(plant.dag), 0, -1)
    assert members[-1].decode() == child


async def test_a_full_dag_takes_nobody_in(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": []})

    child = await joined(harness, plant.ids["a"].ulid, room=2)

    found = await plant.after()
    assert found[f"waits:{child}"] == ["a"]
    assert await plant.field("total") == "2"
    assert "flags" not in found[f"task:{child}"]
    await run(plant, a="done", b="done")
    assert await plant.facts() == ("completed", "0", "0", "0")
    assert (await plant.after())[f"task:{child}"]["state"] == "READY"


async def test_a_parent_that_has_completed_is_met_and_takes_nobody_in(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    await run(plant, a="done")

    child = await joined(harness, plant.ids["a"].ulid)

    assert (await plant.after())[f"task:{child}"]["state"] == "READY"
    assert await plant.field("total") == "1"


async def test_the_first_parent_that_is_open_decides(harness: Harness) -> None:
    done = await planted(harness, {"a": []})
    await run(done, a="done")
    one, two = [await planted(harness, {"a": []}) for _ in range(2)]
    row = a_row(ask={"parents": [plant.ids["a"].ulid for plant in (done, one, two)]})

    await submit(harness, [row])

    totals = [await plant.field("total") for plant in (done, one, two)]
    assert totals == ["1", "2", "1"]
    assert await one.field("edges") == "2"


async def test_sent_again_it_joins_once(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    row = a_row(ask={"parents": [plant.ids["a"].ulid]})
    await submit(harness, [row])
    before = await harness.dump()

    assert await submit(harness, [row]) == ["OK", 0]
    assert await harness.dump() == before


async def test_one_that_is_replaced_is_counted_as_cancelled(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    more = {"idem": "key", "window": 9, "unique": "until_done"}
    asked = {"parents": [plant.ids["a"].ulid], "if_exists": "replace"}
    await submit(harness, [a_row(more=more, ask=asked)])

    await submit(harness, [a_row(more=more, ask=asked)])

    assert await plant.facts() == ("pending", "2", "0", "1")


async def test_a_chain_of_joins_is_one_dag_that_ends(harness: Harness) -> None:
    ids = [await submitted(harness)]
    for _ in range(5):
        ids.append(await joined(harness, ids[-1]))

    await harness.queue.cancel(f"task_{ids[0]}")
    await settled(harness)

    found = (await afterwards(harness, p=ids[0]))["dag:p"]
    assert (found["status"], found["total"], found["cancelled"]) == ("cancelled", "6", "6")
