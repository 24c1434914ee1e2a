"""Which artifacts a sweep may delete."""

from __future__ import annotations

import pytest

from rqueue.artifacts.admin import first_of, is_orphan, is_swept
from rqueue.task.artifact import artifact_of
from rqueue.task.ids import Ids, new_artifact_id, new_task_id
from rqueue.task.state import FINAL, State


@pytest.mark.parametrize("state", [*State, None])
def test_an_artifact_of_a_live_task_is_no_orphan(state: State | None) -> None:
    assert is_orphan(state) == (state is None or state in FINAL)


def test_only_artifacts_put_by_tasks_of_this_queue_are_swept() -> None:
    facts = {"id": new_artifact_id(), "name": "a", "size": 1, "sha256": "a" * 64}
    task = new_task_id()

    assert is_swept(artifact_of(**facts, task=task, queue="rq/a"), "rq/a")
    assert not is_swept(artifact_of(**facts, task=task, queue="rq/b"), "rq/a")
    assert not is_swept(artifact_of(**facts, task=task), "rq/a")
    assert not is_swept(artifact_of(**facts, queue="rq/a"), "rq/a")


def test_older_ids_sort_before_the_first_id_of_a_time() -> None:
    ms = 1_700_000_000_000

    def made(at: int) -> str:
        return f"art_{Ids(lambda: at, lambda bits: (1 << bits) - 1).ulids(1)[0]}"

    assert made(ms - 1) < first_of(ms) <= made(ms)
    assert f"{made(ms - 1)}.json" < first_of(ms)
