"""Plans: read, checked, and written so that they are read as the same plan."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rqueue.dags.plan import Plan, resolved
from rqueue.errors import InvalidGraph, InvalidTask
from rqueue.task.attempt.retry import RetryPolicy
from rqueue.task.ids import TaskId, new_task_id


def a_plan(*rows: dict[str, Any], **more: Any) -> Plan:
    return Plan.parse({"tasks": [{"type": "a", **row} for row in rows], **more})


def names(plan: Plan) -> list[str]:
    return [task.name for task in plan.checked(max_nodes=100, max_edges=100)]


def test_an_unnamed_task_is_named_by_its_position() -> None:
    plan = a_plan({}, {"name": "mine"}, {}, {"name": "2026"})
    again = Plan.parse(json.loads(plan.text()))

    for one in (plan, again):
        assert [task.name for task in one.tasks] == ["0", "mine", "2", "2026"]
        assert [task.given_name for task in one.tasks] == [None, "mine", None, "2026"]


def test_each_task_comes_after_its_dependencies() -> None:
    plan = a_plan(
        {"name": "last", "after": ["mid"]},
        {"name": "mid", "inputs": {"x": ["first"]}},
        {"name": "first"},
    )

    assert names(plan) == ["first", "mid", "last"]


def test_a_single_dependency_needs_no_list() -> None:
    assert a_plan({}, {"after": "0"}).edges() == {"0": [], "1": ["0"]}


def test_a_task_of_the_plan_may_be_named_by_its_id() -> None:
    id = new_task_id()
    plan = a_plan({"id": id, "name": "one"}, {"after": [id.ulid, "one"], "inputs": {"x": id}})

    assert plan.edges() == {"one": [], "1": ["one"]}


def test_dependencies_outside_the_dag_are_named_in_one_form() -> None:
    id = new_task_id()
    plan = a_plan({"after": [id, id.ulid, str(id.uuid)]})

    (task,) = plan.checked(max_nodes=1, max_edges=1)

    assert task.after == [id]


def test_a_written_plan_is_read_as_the_same_plan() -> None:
    plan = a_plan(
        {"name": "one", "payload": {"x": [1, None]}, "trigger": "all_done"},
        {"after": ["one"], "inputs": {"x": "one", "y": ["one", "one"]}},
        title="mine",
        budget_usd=5.0,
        on_complete={"tasks": [{"type": "b"}]},
    )

    assert Plan.parse(json.loads(plan.text())) == plan


def test_options_that_are_not_json_are_written_as_json() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    plan = a_plan({"at": at, "retry": RetryPolicy(), "timeout": timedelta(seconds=5)})

    (task,) = Plan.parse(json.loads(plan.text())).tasks

    assert task.fields["at"] == "2030-01-01T00:00:00Z"
    assert RetryPolicy.parse(task.fields["retry"]) == RetryPolicy()


def test_ids_come_from_the_given_id_function() -> None:
    made = [new_task_id().ulid for _ in range(5)]
    left = iter(made)

    plan = Plan.parse(
        {"tasks": [{"type": "a"}, {"type": "a"}], "on_complete": {"tasks": [{"type": "b"}]}},
        lambda number: [next(left) for _ in range(number)],
    )

    assert plan.on_complete is not None
    found = [plan.id, *(task.id for task in plan.tasks)]
    found += [plan.on_complete.id, *(task.id for task in plan.on_complete.tasks)]
    assert [id.ulid for id in found] == made


@pytest.mark.parametrize("given", [None, [], "tasks", {"tasks": None}, {"tasks": "a"}])
def test_an_invalid_plan_is_refused(given: object) -> None:
    with pytest.raises(InvalidTask):
        Plan.parse(given)


def test_an_empty_plan_is_always_refused() -> None:
    plan = a_plan({})

    with pytest.raises(InvalidTask, match="at least one task"):
        Plan(plan.id, plan.spec, []).checked(max_nodes=1, max_edges=1)


def test_a_plan_of_exactly_the_maximum_size_is_accepted() -> None:
    plan = a_plan({}, {"after": ["0"]})

    assert len(plan.checked(max_nodes=2, max_edges=1)) == 2
    with pytest.raises(InvalidGraph, match="2 tasks; 1 are allowed"):
        plan.checked(max_nodes=1, max_edges=1)
    with pytest.raises(InvalidGraph, match="1 edges; 0 are allowed"):
        plan.checked(max_nodes=2, max_edges=0)


def test_inputs_are_stored_with_ids() -> None:
    inside, outside = new_task_id(), new_task_id()

    found = resolved({"x": "one", "y": ["one", outside.ulid], "z": []}, {"one": inside})

    assert found == {
        "x": f"task:{inside}:output",
        "y": [f"task:{inside}:output", f"task:{outside}:output"],
        "z": [],
    }
    assert isinstance(inside, TaskId)
