"""Which artifacts a sweep may take."""

from __future__ import annotations

import pytest

from rqueue.artifacts.admin import first_of, is_orphan, is_swept
from rqueue.task.artifact import described
from rqueue.task.ids import Ids, new_artifact_id, new_task_id
from rqueue.task.state import FINAL, State


@pytest.mark.parametrize("state", [*State, None])
def test_nothing_whose_task_lives_is_an_orphan(state: State | None) -> None:
    assert is_orphan(state) == (state is None or state in FINAL)


def test_only_what_tasks_of_this_queue_put_is_looked_at() -> None:
    facts = {"id": new_artifact_id(), "name": "a", "size": 1, "sha256": "a" * 64}
    task = new_task_id()

    assert is_swept(described(**facts, task=task, queue="rq/a"), "rq/a")
    assert not is_swept(described(**facts, task=task, queue="rq/b"), "rq/a")
    assert not is_swept(described(**facts, task=task), "rq/a")
    assert not is_swept(described(**facts, queue="rq/a"), "rq/a")


def test_older_ids_come_before_the_first_of_a_moment() -> None:
    ms = 1_700_000_000_000

    def made(at: int) -> str:
        return f"art_{Ids(lambda: at, lambda bits: (1 << bits) - 1).ulids(1)[0]}"

    assert made(ms - 1) < first_of(ms) <= made(ms)
    assert f"{made(ms - 1)}.json" < first_of(ms)
