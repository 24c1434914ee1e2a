"""An invalid DAG is refused as a whole, with the faulty path, and leaves no key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from rqueue import DagStatus, Plan, TaskId
from rqueue.dags.builder import DagBuilder
from rqueue.dags.plan import MAX_FOLLOWERS
from rqueue.errors import DagNotFound, InvalidGraph, InvalidTask
from rqueue.task.ids import new_task_id
from tests.harness import Harness, opened
from tests.servers import Server

A, B = {"type": "a"}, {"type": "b"}


@pytest.fixture
async def narrow(valkey: Server) -> AsyncIterator[Harness]:
    """Returns a queue whose DAGs may have three tasks and three edges."""
    async with opened(valkey, max_dag_nodes=3, max_dag_edges=3) as harness:
        yield harness


async def refused(harness: Harness, *rows: dict[str, Any], **more: Any) -> InvalidGraph:
    """Returns the error of a refused plan of these tasks; nothing was written."""
    before = await harness.dump()
    with pytest.raises(InvalidGraph) as error:
        await harness.queue.dags.submit({"tasks": list(rows), **more})
    assert await harness.dump() == before
    return error.value


async def test_a_cycle_is_named(harness: Harness) -> None:
    error = await refused(
        harness,
        {**A, "name": "root"},
        {**A, "name": "one", "after": ["root", "three"]},
        {**A, "name": "two", "after": ["one"]},
        {**A, "name": "three", "after": ["two"]},
    )

    assert error.rule == "tasks depend on each other in a cycle"
    assert error.path[0] == error.path[-1]
    assert set(error.path) == {"one", "two", "three"}


async def test_a_cycle_of_inputs_is_named(harness: Harness) -> None:
    error = await refused(
        harness,
        {**A, "name": "one", "inputs": {"x": "two"}},
        {**A, "name": "two", "inputs": {"x": ["one"]}},
    )

    assert set(error.path) == {"one", "two"}


async def test_a_self_edge_is_named(harness: Harness) -> None:
    assert (await refused(harness, {**A, "name": "one", "after": ["one"]})).path == ("one", "one")


async def test_a_self_edge_by_id_is_named(harness: Harness) -> None:
    id = new_task_id()

    error = await refused(harness, {**A, "name": "one", "id": id, "after": [str(id.uuid)]})

    assert error.path == ("one", "one")


async def test_a_missing_dependency_is_named(harness: Harness) -> None:
    error = await refused(harness, A, {**B, "name": "two", "after": ["tow"]})

    assert (error.rule, error.path) == (
        "depends on a task that is not in the graph",
        ("two", "tow"),
    )


async def test_a_duplicate_name_is_named(harness: Harness) -> None:
    error = await refused(harness, {**A, "name": "one"}, {**B, "name": "one"})

    assert error.path == ("one", "one")


async def test_a_duplicate_id_is_named(harness: Harness) -> None:
    id = new_task_id()

    error = await refused(harness, {**A, "id": id}, {**B, "id": id})

    assert error.path == (id, id)


async def test_a_duplicate_external_id_is_named(harness: Harness) -> None:
    own = {"external_id": "mine"}

    error = await refused(harness, {**A, **own, "name": "one"}, {**B, **own, "name": "two"})

    assert (error.rule, error.path) == ("two tasks have the same external_id", ("one", "two"))


async def test_a_duplicate_external_id_is_found_in_any_spelling(harness: Harness) -> None:
    ours = new_task_id()
    two = {**B, "external_id": str(ours.uuid), "name": "two"}

    error = await refused(harness, {**A, "external_id": ours, "name": "one"}, two)

    assert error.path == ("one", "two")


async def test_a_dag_with_too_many_tasks_is_refused(narrow: Harness) -> None:
    assert "has 4 tasks; 3 are allowed" in (await refused(narrow, A, A, A, A)).rule


async def test_a_dag_with_too_many_edges_is_refused(narrow: Harness) -> None:
    outside = [(await narrow.queue.enqueue("a")).id for _ in range(2)]

    error = await refused(narrow, A, {**A, "after": ["0", *outside]}, {**A, "after": ["1"]})

    assert "has 4 edges; 3 are allowed" in error.rule


async def test_a_missing_outside_dependency_is_refused(harness: Harness) -> None:
    gone = new_task_id()

    error = await refused(harness, A, {**A, "name": "two", "after": ["0", str(gone)]})

    assert error.path == ("two", gone)


async def test_a_cancelled_outside_dependency_is_refused(harness: Harness) -> None:
    parent = await harness.queue.enqueue("a")
    await parent.cancel()

    error = await refused(harness, {**A, "name": "one", "after": [parent.id]})

    assert error.path == ("one", parent.id)


async def test_the_output_of_a_missing_task_is_refused(harness: Harness) -> None:
    gone = new_task_id()

    error = await refused(harness, {**A, "name": "one", "inputs": {"x": gone}})

    assert error.path == ("one", gone)


async def test_an_id_that_is_taken_is_named_with_its_task(harness: Harness) -> None:
    taken = await harness.queue.enqueue("a")

    error = await refused(harness, B, {**A, "name": "two", "id": taken.id})

    assert "a task with this id exists already" in error.rule
    assert error.path == ("two", taken.id)


async def test_an_external_id_that_is_taken_is_named_with_its_task(harness: Harness) -> None:
    taken = await harness.queue.enqueue("a", external_id="mine")

    error = await refused(harness, B, {**A, "name": "two", "external_id": "mine"})

    assert "its external_id is that of a task" in error.rule
    assert error.path == ("two", taken.id)


async def test_refusals_by_the_server_use_the_names_of_the_plan(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await harness.queue.enqueue("a")
    await parent.cancel()

    async def seen_too_early(*_: Any) -> None: ...

    monkeypatch.setattr("rqueue.dags.builder.refuse_missing", seen_too_early)

    error = await refused(harness, A, {**A, "name": "two", "after": ["0", parent.id]})

    assert error.path == ("two", parent.id)


async def test_an_invalid_follow_up_refuses_the_whole_dag(harness: Harness) -> None:
    follower = {"tasks": [{**A, "after": ["nobody"]}]}

    assert (await refused(harness, A, on_complete=follower)).path == ("0", "nobody")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a key": ({**A, "idempotency_key": "k"}, "0.idempotency_key"),
    "a dedupe": ({**A, "dedupe": "content"}, "0.dedupe"),
    "parents by another word": ({**A, "depends_on": []}, "0.depends_on"),
    "no type": ({"payload": {}}, r"^0\.type"),
    "an id that is none": ({**A, "id": 3}, r"tasks\[0\].id"),
    "an unknown field": ({**A, "dealy": 3}, "0.dealy"),
    "a name that is none": ({**A, "name": "a b"}, r"tasks\[0\].name"),
    "parents that are none": ({**A, "after": 3}, r"tasks\[0\].after"),
    "inputs that are none": ({**A, "inputs": {"x": 3}}, r"tasks\[0\].inputs"),
    "a trigger that is none": ({**A, "trigger": "some"}, "0.trigger"),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_invalid_task_refuses_the_whole_dag(harness: Harness, wrong: str) -> None:
    row, field = WRONG[wrong]

    with pytest.raises(InvalidTask, match=field):
        await harness.queue.dags.submit({"tasks": [row, A]})

    assert await harness.dump() == {}


@pytest.mark.parametrize("plan", [{}, {"tasks": []}, {"tasks": "a"}, {"tasks": [3]}, []])
async def test_an_invalid_document_is_not_a_plan(alone: Harness, plan: Any) -> None:
    with pytest.raises(InvalidTask):
        await alone.queue.dags.submit(plan)

    assert await alone.dump() == {}


async def test_a_block_that_raises_submits_nothing(harness: Harness) -> None:
    dag = harness.queue.dag()

    async def build() -> None:
        async with dag:
            dag.add(A)
            raise KeyError("mine")

    with pytest.raises(KeyError):
        await build()

    assert await harness.dump() == {}
    with pytest.raises(DagNotFound):
        await dag.status()


async def test_an_empty_block_is_refused(alone: Harness) -> None:
    with pytest.raises(InvalidTask, match="at least one task"):
        async with alone.queue.dag():
            pass


@pytest.mark.parametrize("wrong", [{"on_failure": "shrug"}, {"budget_usd": -1}, {"colour": "red"}])
async def test_a_wrong_option_is_reported_where_it_is_given(
    alone: Harness, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidTask, match=next(iter(wrong))):
        alone.queue.dag("x", **wrong)


async def test_a_submitted_builder_takes_no_more_tasks(alone: Harness) -> None:
    async with alone.queue.dag() as dag:
        dag.add(A)

    with pytest.raises(InvalidGraph, match=r"ctx\.spawn"):
        dag.add(B)


async def test_wrong_names_are_reported_where_they_are_given(alone: Harness) -> None:
    dag: DagBuilder = alone.queue.dag()
    dag.add(A, name="one")

    with pytest.raises(InvalidGraph, match="same name"):
        dag.add(B, name="one")
    with pytest.raises(InvalidTask, match="name"):
        dag.add(B, name="a b")
    with pytest.raises(InvalidTask, match="nodes, handles, names and ids"):
        dag.add(B, after=[3])  # type: ignore[list-item]


async def test_a_repeated_submit_succeeds_after_a_dependency_was_cancelled(
    harness: Harness,
) -> None:
    parent = await harness.queue.enqueue("a")
    dag = harness.queue.dag()
    child = dag.add(B, after=parent)
    await dag.submit()
    await parent.cancel(reason="no")

    await dag.submit()

    assert (await dag.status()).status is DagStatus.CANCELLED
    assert (await dag.status()).total == 1
    assert isinstance((await harness.task(child.id)).id, TaskId)


def a_row_of(number: int) -> dict[str, Any]:
    """Returns a plan with a chain of this many follow-ups."""
    plan: dict[str, Any] = {"tasks": [A]}
    for _ in range(number):
        plan = {"tasks": [A], "on_complete": plan}
    return plan


@pytest.mark.parametrize("number", [MAX_FOLLOWERS + 1, 300, 30_000])
async def test_a_too_long_chain_of_follow_ups_is_refused(alone: Harness, number: int) -> None:
    with pytest.raises(InvalidTask, match=r"^on_complete: at most 32 DAGs may follow"):
        await alone.queue.dags.submit(a_row_of(number))

    assert await alone.dump() == {}


async def test_a_chain_of_follow_ups_at_the_limit_is_accepted(alone: Harness) -> None:
    deep: Any = {}
    for _ in range(60):
        deep = {"x": deep}
    last = {"tasks": [{**A, "payload": deep}]}
    plan = a_row_of(MAX_FOLLOWERS - 1)
    innermost = plan
    while "on_complete" in innermost:
        innermost = innermost["on_complete"]
    innermost["on_complete"] = last

    dag = await alone.queue.dags.submit(plan)

    assert (await dag.status()).next is not None


async def test_a_plan_that_follows_itself_is_refused(alone: Harness) -> None:
    plan: dict[str, Any] = {"tasks": [A]}
    plan["on_complete"] = plan

    with pytest.raises(InvalidTask, match="at most 32 DAGs"):
        await alone.queue.dags.submit(plan)


async def test_builders_in_a_row_have_the_same_limit(alone: Harness) -> None:
    dag = alone.queue.dag()
    for _ in range(3000):
        dag = alone.queue.dag(on_complete=dag)

    with pytest.raises(InvalidTask, match="at most 32 DAGs"):
        dag.plan()


async def test_a_follow_up_must_be_a_dag(alone: Harness) -> None:
    with pytest.raises(InvalidTask, match="on_complete: is a DAG or a plan, not"):
        alone.queue.dag(on_complete={"tasks": [A]})  # type: ignore[arg-type]


FOLLOWERS: dict[str, tuple[Any, str]] = {
    "no plan": (3, "on_complete.dag: is a mapping"),
    "no type": ({"tasks": [{"name": "one"}]}, "on_complete.one.type: is required"),
    "a field": ({"tasks": [{**A, "priority": "x"}]}, "on_complete.0.priority: "),
}


@pytest.mark.parametrize("wrong", FOLLOWERS)
async def test_an_error_in_a_follow_up_names_the_follow_up(alone: Harness, wrong: str) -> None:
    following, message = FOLLOWERS[wrong]

    with pytest.raises(InvalidTask, match=f"^{message}"):
        await alone.queue.dags.submit({"tasks": [A], "on_complete": following})


async def test_a_follow_up_has_its_own_ids(alone: Harness) -> None:
    first = Plan.parse({"tasks": [{"type": "a"}]})
    again = replace(first, on_complete=first)

    with pytest.raises(InvalidGraph, match="a follow-up DAG repeats"):
        await alone.queue.dags.submit(again)


async def test_the_number_of_outside_dependencies_of_a_task_is_limited(valkey: Server) -> None:
    async with opened(valkey, max_depends_on=3) as harness:
        there = [(await harness.queue.enqueue("a")).id for _ in range(4)]
        inside = [{**A, "name": name} for name in "xyz"]
        names = [task["name"] for task in inside]
        await harness.queue.dags.submit({"tasks": [*inside, {**B, "after": [*names, *there[:3]]}]})
        child = await harness.queue.enqueue("b", depends_on=there[:3])
        before = await harness.dump()

        with pytest.raises(InvalidTask, match=r"max_depends_on.*as one DAG") as single:
            await harness.queue.enqueue("b", depends_on=there)
        with pytest.raises(InvalidTask, match="names 4 tasks; 3 are allowed") as member:
            await harness.queue.dags.submit(
                {"tasks": [*inside, {**B, "name": "end", "after": there}]}
            )

        assert (single.value.field, member.value.field) == ("depends_on", "end.after")
        assert await harness.dump() == before
        assert len((await harness.task(child.id)).blocked_by) == 3
