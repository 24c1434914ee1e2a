"""What a task is given of others, by how far they are and by what frees it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from rqueue.errors import InvalidTask
from rqueue.model.artifact import described
from rqueue.model.dag import Trigger
from rqueue.model.ids import new_artifact_id, new_task_id
from rqueue.model.reference import Output, divided, output_of, previous
from rqueue.model.spec import TaskSpec
from rqueue.model.state import FINAL, State
from rqueue.policy.inputs import Given, Returned, artifacts_wanted, given, wanted

ONE, TWO = new_task_id(), new_task_id()
DONE = Returned(State.COMPLETED, b"[1]")
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)


def a_spec(**fields: Any) -> TaskSpec:
    return TaskSpec.of(type="a", payload={"y": 1}, **fields)


def test_arguments_are_filled_by_one_output_or_a_list() -> None:
    spec = a_spec(inputs={"x": output_of(ONE), "all": [output_of(TWO), output_of(ONE)], "no": []})

    assert wanted(spec) == [ONE, TWO]
    assert given(spec, {ONE: DONE, TWO: Returned(State.COMPLETED)}) == Given(
        {"y": 1, "x": [1], "all": [None, [1]], "no": []}, {}
    )


def test_what_may_be_looked_at_is_apart() -> None:
    spec = a_spec(context_refs=[output_of(ONE), "artifact:1", "a line"])

    assert wanted(spec) == [ONE]
    assert given(spec, {ONE: DONE}) == Given({"y": 1}, {output_of(ONE): [1]})


def test_an_artifact_is_given_by_its_facts_and_looked_at_as_it_is() -> None:
    one = described(id=new_artifact_id(), name="a.txt", size=1, sha256="a" * 64)
    spec = a_spec(inputs={"x": one.reference, "all": [one.reference]}, context_refs=[one.reference])

    assert artifacts_wanted(spec) == [one.id]
    facts = {**one.model_dump(mode="json", exclude_none=True)}
    assert given(spec, {}, {one.id: one}) == Given(
        {"y": 1, "x": facts, "all": [facts]}, {one.reference: one}
    )


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("state", [*State, None])
def test_who_may_be_given_nothing(state: State | None, trigger: Trigger) -> None:
    spec = a_spec(inputs={"x": output_of(ONE)}, trigger=trigger)
    may = state is State.COMPLETED or (
        state is not None
        and (trigger == "one_failed" or (trigger == "all_done" and state in FINAL))
    )

    if may:
        assert given(spec, {ONE: Returned(state)}).payload == {"y": 1, "x": None}
    else:
        with pytest.raises(InvalidTask, match=f"x: {ONE} is") as error:
            given(spec, {ONE: Returned(state)})
        assert error.value.field == "inputs.x"


def test_arguments_that_outputs_fill_are_divided_from_the_others() -> None:
    output = Output(output_of(ONE))

    assert divided({"x": output, "y": [output], "z": [], "n": 1, "p": previous}) == (
        {"z": [], "n": 1},
        {"x": output_of(ONE), "y": [output_of(ONE)], "p": "previous"},
    )
    with pytest.raises(InvalidTask, match=r"arguments\.x"):
        divided({"x": [output, 1]})
