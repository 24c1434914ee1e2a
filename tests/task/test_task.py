"""The read model."""

from datetime import UTC, datetime, timedelta

import pytest

from rqueue.errors import InvalidTask
from rqueue.task.ids import new_task_id
from rqueue.task.priority import Tier
from rqueue.task.spec import TaskSpec
from rqueue.task.state import FINAL, State
from rqueue.task.task import Task

NOW = datetime(2026, 2, 8, 9, tzinfo=UTC)


def a_task(state: State = State.READY, **fields: object) -> Task:
    spec = fields.pop("spec", TaskSpec.of(type="code"))
    return Task.of(id=new_task_id(), spec=spec, state=state, created_at=NOW, **fields)


def test_the_tier_is_that_of_the_effective_priority_if_there_is_one() -> None:
    assert a_task().tier is Tier.NORMAL
    assert a_task(effective_priority=-3.0).tier is Tier.CRITICAL


def test_only_a_retrying_task_has_a_retry_time() -> None:
    due = NOW + timedelta(seconds=10)

    assert a_task(State.RETRYING, available_at=due).retry_at == due
    assert a_task(State.PENDING, available_at=due).retry_at is None


@pytest.mark.parametrize("state", State)
def test_only_a_task_in_a_final_state_has_ended(state: State) -> None:
    assert a_task(state).ended is (state in FINAL)


def test_an_existing_spec_is_returned_unchanged() -> None:
    spec = TaskSpec.of(type="code")

    assert a_task(spec=spec).spec is spec


def test_counts_are_not_negative() -> None:
    with pytest.raises(InvalidTask, match="attempts"):
        a_task(attempts=-1)
