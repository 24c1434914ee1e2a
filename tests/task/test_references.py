"""What a task receives of others, by their state and its trigger."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from rqueue.errors import InvalidTask
from rqueue.task.artifact import artifact_of
from rqueue.task.dag import Trigger
from rqueue.task.ids import new_artifact_id, new_task_id
from rqueue.task.references import (
    Output,
    ResolvedInputs,
    TaskOutput,
    artifacts_wanted,
    output_of,
    outputs_wanted,
    previous,
    resolve_inputs,
    split_arguments,
)
from rqueue.task.spec import TaskSpec
from rqueue.task.state import FINAL, State

ONE, TWO = new_task_id(), new_task_id()
DONE = TaskOutput(State.COMPLETED, b"[1]")
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)


def a_spec(**fields: Any) -> TaskSpec:
    return TaskSpec.of(type="a", payload={"y": 1}, **fields)


def test_an_argument_is_filled_with_an_output_or_a_list_of_outputs() -> None:
    spec = a_spec(inputs={"x": output_of(ONE), "all": [output_of(TWO), output_of(ONE)], "no": []})

    assert outputs_wanted(spec) == [ONE, TWO]
    assert resolve_inputs(spec, {ONE: DONE, TWO: TaskOutput(State.COMPLETED)}) == ResolvedInputs(
        {"y": 1, "x": [1], "all": [None, [1]], "no": []}, {}
    )


def test_context_refs_are_not_part_of_the_payload() -> None:
    spec = a_spec(context_refs=[output_of(ONE), "artifact:1", "a line"])

    assert outputs_wanted(spec) == [ONE]
    assert resolve_inputs(spec, {ONE: DONE}) == ResolvedInputs({"y": 1}, {output_of(ONE): [1]})


def test_an_input_gets_an_artifacts_metadata_and_a_context_ref_the_artifact() -> None:
    one = artifact_of(id=new_artifact_id(), name="a.txt", size=1, sha256="a" * 64)
    spec = a_spec(inputs={"x": one.reference, "all": [one.reference]}, context_refs=[one.reference])

    assert artifacts_wanted(spec) == [one.id]
    facts = {**one.model_dump(mode="json", exclude_none=True)}
    assert resolve_inputs(spec, {}, {one.id: one}) == ResolvedInputs(
        {"y": 1, "x": facts, "all": [facts]}, {one.reference: one}
    )


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("state", [*State, None])
def test_the_trigger_decides_whether_an_output_may_be_missing(
    state: State | None, trigger: Trigger
) -> None:
    spec = a_spec(inputs={"x": output_of(ONE)}, trigger=trigger)
    may = state is State.COMPLETED or (
        state is not None
        and (trigger == "one_failed" or (trigger == "all_done" and state in FINAL))
    )

    found = "was not found" if state is None else "is "
    if may:
        assert resolve_inputs(spec, {ONE: TaskOutput(state)}).payload == {"y": 1, "x": None}
    else:
        with pytest.raises(InvalidTask, match=f"x: {ONE} {found}") as error:
            resolve_inputs(spec, {ONE: TaskOutput(state)})
        assert error.value.field == "inputs.x"


def test_arguments_that_are_outputs_are_separated_from_the_others() -> None:
    output = Output(output_of(ONE))

    assert split_arguments({"x": output, "y": [output], "z": [], "n": 1, "p": previous}) == (
        {"z": [], "n": 1},
        {"x": output_of(ONE), "y": [output_of(ONE)], "p": "previous"},
    )
    with pytest.raises(InvalidTask, match=r"arguments\.x"):
        split_arguments({"x": [output, 1]})
