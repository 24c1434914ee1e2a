"""DAGs over the inbox: taken whole or set aside whole, and once, however often an entry comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import Dag, State
from rqueue.errors import Overloaded, StoreUnavailable
from rqueue.model.ids import new_dag_id, new_task_id
from rqueue.model.inbox import Entry, Text, id_of
from rqueue.services import inbox as service
from rqueue.services.inbox import Inbox, InboxDone
from rqueue.store import planting
from tests.house import House
from tests.inbox import add, age, an_inbox, left, payloads, refused

TASKS = [
    {"type": "a", "name": "one", "payload": {"n": 1}},
    {"type": "b", "after": ["one"], "inputs": {"x": "one"}, "payload": {"n": 2}, "priority": 7},
]
PLAN: dict[str, Any] = {"title": "mine", "tasks": TASKS}


@pytest.fixture
def inbox(house: House) -> Inbox:
    return an_inbox(house)


async def plant(house: House, plan: Any = PLAN) -> str:
    return await add(house, "dag", json.dumps(plan))


async def dags(house: House) -> list[Dag]:
    return [dag async for dag in house.queue.dags()]


async def test_an_entry_becomes_a_dag(house: House, inbox: Inbox) -> None:
    await plant(house)

    assert await inbox.tick() == InboxDone(taken=2)

    (dag,) = await dags(house)
    assert (dag.spec.title, dag.spec.created_by, dag.total) == ("mine", "service:inbox", 2)
    one, two = await (await house.queue.get_dag(dag.id)).read()
    assert (one.state, two.state, two.blocked_by) == (State.READY, State.PENDING, (one.id,))
    assert (one.spec.name, one.spec.created_by) == ("one", "service:inbox")
    assert (two.spec.priority, two.spec.inputs) == (7, {"x": f"task:{one.id}:output"})
    assert await left(house) == 0


@pytest.mark.parametrize("reader", ["r1", "r2"])
async def test_an_entry_dealt_with_twice_is_one_dag(
    house: House, inbox: Inbox, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*_: object) -> int:
        raise StoreUnavailable("received")

    entry = await plant(house, {**PLAN, "on_complete": {"tasks": TASKS}})
    with monkeypatch.context() as patched:
        patched.setattr(service, "received", dies)
        with pytest.raises(StoreUnavailable):
            await inbox.tick()
    before = await dags(house)
    if reader != "r1":
        await age(house, "r1", entry)

    assert await an_inbox(house, reader).tick() == InboxDone(taken=2)

    assert await dags(house) == before
    assert await payloads(house) == [{"n": 1}, {"n": 2}]
    assert (await house.queue.counts()).submitted == 2


async def test_the_same_plan_in_two_entries_is_two_dags(house: House, inbox: Inbox) -> None:
    await plant(house)
    await plant(house)

    assert await inbox.tick() == InboxDone(taken=4)

    assert len(await dags(house)) == 2


PLANS: dict[str, tuple[Any, str]] = {
    "a number": (5, "dag: is not a JSON object"),
    "a list": ([PLAN], "dag: is not a JSON object"),
    "no tasks": ({}, "tasks: is missing"),
    "a wrong option": ({**PLAN, "colour": "red"}, "colour: is not a known field"),
    "a circle": (
        {"tasks": [{"type": "a", "after": ["1"]}, {"type": "a", "after": ["0"]}]},
        "tasks depend on each other in a circle",
    ),
    "a missing parent": (
        {"tasks": [{"type": "a", "after": ["x"]}]},
        "depends on a task that is not in the graph: 0 -> x",
    ),
    "a parent that is gone": (
        {"tasks": [{"type": "a", "after": [new_task_id()]}]},
        "depends on a task that is not there or was cancelled: 0 -> task_",
    ),
    "an id of a task": ({"tasks": [{"type": "a", "id": new_task_id()}]}, "tasks[0].id: is given"),
    "an id of its own": ({**PLAN, "id": new_dag_id()}, "dag.id: is given by the inbox"),
    "an id of a follower": ({**PLAN, "on_complete": {**PLAN, "id": "x"}}, "dag.id: is given"),
    "a wrong task": ({"tasks": [*TASKS, {"type": "a", "dealy": 1}]}, "2.dealy: is not a known"),
    "a key": ({"tasks": [{"type": "a", "idempotency_key": "k"}]}, "0.idempotency_key: is not for"),
}


@pytest.mark.parametrize("bad", PLANS)
async def test_a_bad_plan_is_set_aside_whole(house: House, inbox: Inbox, bad: str) -> None:
    plan, reason = PLANS[bad]
    await plant(house, plan)
    await add(house, "task", '{"type": "code"}')

    assert await inbox.tick() == InboxDone(taken=1, rejected=1)

    ((at, said),) = await refused(house)
    assert (at, said[: len(reason)]) == ("", reason)
    assert (await dags(house), await left(house)) == ([], 0)
    assert (await house.queue.counts()).submitted == 1


@pytest.mark.parametrize(
    "words",
    [
        ("dag", json.dumps(PLAN), "task", '{"type":"a"}'),
        ("dag", json.dumps(PLAN), "form", "A"),
        ("dag", json.dumps(PLAN), "dag", json.dumps(PLAN)),
    ],
    ids=["with a task", "with a form", "twice"],
)
async def test_a_dag_has_an_entry_to_itself(
    house: House, inbox: Inbox, words: tuple[str, ...]
) -> None:
    await add(house, *words)

    assert await inbox.tick() == InboxDone(rejected=1)

    assert await refused(house) == [
        ("", "entry: has a field 'dag' and others; a DAG has an entry to itself")
    ]


async def test_a_text_that_is_no_json_is_set_aside(house: House, inbox: Inbox) -> None:
    await add(house, "dag", '{"tasks": [')

    assert await inbox.tick() == InboxDone(rejected=1)

    assert await refused(house) == [("", "document: is not JSON")]


async def test_a_full_server_keeps_the_entry(
    house: House, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise Overloaded("out of memory")

    await plant(house)
    with monkeypatch.context() as patched:
        patched.setattr(planting, "submit", full)
        assert await inbox.tick() == InboxDone(kept=1)
    assert await left(house) == 1

    assert await inbox.tick() == InboxDone(taken=2)
    assert await left(house) == 0


def test_ids_are_in_the_order_of_the_entries_however_many_tasks_they_have() -> None:
    before, after = Entry("1-0", []), Entry("1-1", [])

    found = [
        id_of("root", entry, None, Text(at, b""))
        for entry, at in ((before, 0), (before, 9_999), (after, 0), (after, 9_999))
    ]

    assert found == sorted(found)


async def test_a_dag_of_more_tasks_than_there_are_places_has_as_many_ids(
    house: House, inbox: Inbox
) -> None:
    await plant(house, {"tasks": [{"type": "a"} for _ in range(1500)]})

    assert await inbox.tick() == InboxDone(taken=1500)

    (dag,) = await dags(house)
    assert dag.total == 1500
