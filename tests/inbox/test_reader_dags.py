"""DAGs in the inbox: submitted or rejected as a whole, and once per entry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import Dag, State
from rqueue.dags import submit as dag_submit
from rqueue.errors import Overloaded, StoreUnavailable
from rqueue.inbox import reader as service
from rqueue.inbox.entry import Entry, Text, id_of
from rqueue.inbox.reader import Inbox, InboxDone
from rqueue.task.ids import new_dag_id, new_task_id
from tests.harness import Harness
from tests.inbox_entries import add, age, an_inbox, left, payloads, refused

TASKS = [
    {"type": "a", "name": "one", "payload": {"n": 1}},
    {"type": "b", "after": ["one"], "inputs": {"x": "one"}, "payload": {"n": 2}, "priority": 7},
]
PLAN: dict[str, Any] = {"title": "mine", "tasks": TASKS}


@pytest.fixture
def inbox(harness: Harness) -> Inbox:
    return an_inbox(harness)


async def plant(harness: Harness, plan: Any = PLAN) -> str:
    return await add(harness, "dag", json.dumps(plan))


async def dags(harness: Harness) -> list[Dag]:
    return [dag async for dag in harness.queue.dags.list()]


async def test_an_entry_becomes_a_dag(harness: Harness, inbox: Inbox) -> None:
    await plant(harness)

    assert await inbox.tick() == InboxDone(taken=2)

    (dag,) = await dags(harness)
    assert (dag.spec.title, dag.spec.created_by, dag.total) == ("mine", "service:inbox", 2)
    one, two = await (await harness.queue.dags.get(dag.id)).read()
    assert (one.state, two.state, two.blocked_by) == (State.READY, State.PENDING, (one.id,))
    assert (one.spec.name, one.spec.created_by) == ("one", "service:inbox")
    assert (two.spec.priority, two.spec.inputs) == (7, {"x": f"task:{one.id}:output"})
    assert await left(harness) == 0


@pytest.mark.parametrize("reader", ["r1", "r2"])
async def test_a_repeated_entry_is_one_dag(
    harness: Harness, inbox: Inbox, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*_: object) -> int:
        raise StoreUnavailable("received")

    entry = await plant(harness, {**PLAN, "on_complete": {"tasks": TASKS}})
    with monkeypatch.context() as patched:
        patched.setattr(service, "received", dies)
        with pytest.raises(StoreUnavailable):
            await inbox.tick()
    before = await dags(harness)
    if reader != "r1":
        await age(harness, "r1", entry)

    assert await an_inbox(harness, reader).tick() == InboxDone(taken=2)

    assert await dags(harness) == before
    assert await payloads(harness) == [{"n": 1}, {"n": 2}]
    assert (await harness.queue.counts()).submitted == 2


async def test_the_same_plan_in_two_entries_is_two_dags(harness: Harness, inbox: Inbox) -> None:
    await plant(harness)
    await plant(harness)

    assert await inbox.tick() == InboxDone(taken=4)

    assert len(await dags(harness)) == 2


PLANS: dict[str, tuple[Any, str]] = {
    "a number": (5, "dag: is not a JSON object"),
    "a list": ([PLAN], "dag: is not a JSON object"),
    "no tasks": ({}, "tasks: is missing"),
    "a wrong option": ({**PLAN, "colour": "red"}, "colour: is not a known field"),
    "a circle": (
        {"tasks": [{"type": "a", "after": ["1"]}, {"type": "a", "after": ["0"]}]},
        "tasks depend on each other in a cycle",
    ),
    "a missing parent": (
        {"tasks": [{"type": "a", "after": ["x"]}]},
        "depends on a task that is not in the graph: 0 -> x",
    ),
    "a parent that is gone": (
        {"tasks": [{"type": "a", "after": [new_task_id()]}]},
        "depends on a task that does not exist or was cancelled: 0 -> task_",
    ),
    "an id of a task": ({"tasks": [{"type": "a", "id": new_task_id()}]}, "tasks[0].id: is derived"),
    "an id of its own": ({**PLAN, "id": new_dag_id()}, "dag.id: is derived by the inbox"),
    "an id of a follower": ({**PLAN, "on_complete": {**PLAN, "id": "x"}}, "dag.id: is derived"),
    "a wrong task": ({"tasks": [*TASKS, {"type": "a", "dealy": 1}]}, "2.dealy: is not a known"),
    "a key": (
        {"tasks": [{"type": "a", "idempotency_key": "k"}]},
        "0.idempotency_key: is not allowed for a task of a DAG",
    ),
}


@pytest.mark.parametrize("bad", PLANS)
async def test_a_bad_plan_is_rejected_whole(harness: Harness, inbox: Inbox, bad: str) -> None:
    plan, reason = PLANS[bad]
    await plant(harness, plan)
    await add(harness, "task", '{"type": "code"}')

    assert await inbox.tick() == InboxDone(taken=1, rejected=1)

    ((at, found),) = await refused(harness)
    assert (at, found[: len(reason)]) == ("", reason)
    assert (await dags(harness), await left(harness)) == ([], 0)
    assert (await harness.queue.counts()).submitted == 1


@pytest.mark.parametrize(
    "words",
    [
        ("dag", json.dumps(PLAN), "task", '{"type":"a"}'),
        ("dag", json.dumps(PLAN), "form", "A"),
        ("dag", json.dumps(PLAN), "dag", json.dumps(PLAN)),
    ],
    ids=["with a task", "with a form", "twice"],
)
async def test_a_dag_entry_may_have_no_other_field(
    harness: Harness, inbox: Inbox, words: tuple[str, ...]
) -> None:
    await add(harness, *words)

    assert await inbox.tick() == InboxDone(rejected=1)

    assert await refused(harness) == [
        ("", "entry: has a field 'dag' and others; a DAG has an entry to itself")
    ]


async def test_a_text_that_is_not_json_is_rejected(harness: Harness, inbox: Inbox) -> None:
    await add(harness, "dag", '{"tasks": [')

    assert await inbox.tick() == InboxDone(rejected=1)

    assert await refused(harness) == [("", "document: is not JSON")]


async def test_a_full_server_keeps_the_entry(
    harness: Harness, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise Overloaded("out of memory")

    await plant(harness)
    with monkeypatch.context() as patched:
        patched.setattr(dag_submit, "submit", full)
        assert await inbox.tick() == InboxDone(kept=1)
    assert await left(harness) == 1

    assert await inbox.tick() == InboxDone(taken=2)
    assert await left(harness) == 0


def test_ids_are_in_the_order_of_the_entries_however_many_tasks_they_have() -> None:
    before, after = Entry("1-0", []), Entry("1-1", [])

    found = [
        id_of("root", entry, None, Text(at, b""))
        for entry, at in ((before, 0), (before, 9_999), (after, 0), (after, 9_999))
    ]

    assert found == sorted(found)


async def test_a_dag_with_more_tasks_than_positions_has_unique_ids(
    harness: Harness, inbox: Inbox
) -> None:
    await plant(harness, {"tasks": [{"type": "a"} for _ in range(1500)]})

    assert await inbox.tick() == InboxDone(taken=1500)

    (dag,) = await dags(harness)
    assert dag.total == 1500
