"""Ids: UUIDv7 and ULID in one, always rising."""

import os
import pickle
import threading
from random import Random
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from rqueue.errors import ConfigError, InvalidTask
from rqueue.task.ids import DagId, Ids, TaskId, new_dag_id, new_task_id

SHARD = st.integers(0, 1023)
MS = st.integers(0, 2**48 - 1)


def an_id(ms: int = 1_770_541_200_000, shard: int = 0, seed: int = 7) -> TaskId:
    return TaskId.from_ulid(Ids(lambda: ms, Random(seed).getrandbits).ulids(1, shard)[0])


def without_shard(task: str) -> str:
    return task[:-2]


@given(MS, SHARD, st.integers(0, 2**32))
def test_an_id_carries_its_time_and_shard_and_is_a_uuid_of_version_7(
    ms: int, shard: int, seed: int
) -> None:
    task = an_id(ms, shard, seed)

    assert (task.created_ms, task.shard) == (ms, shard)
    assert task.uuid.version == 7
    assert task.uuid.int >> 80 == ms
    assert task.uuid.int & 1023 == shard
    assert len(task.ulid) == 26


@given(MS, SHARD, st.integers(0, 2**32))
def test_every_form_of_an_id_is_parsed_as_the_same_id(ms: int, shard: int, seed: int) -> None:
    task = an_id(ms, shard, seed)
    uuid = task.uuid
    forms = [task, task.ulid, task.lower(), task.ulid.lower(), str(uuid), uuid.hex, f"task_{uuid}"]

    assert {TaskId.parse(form) for form in forms} == {task}
    assert TaskId.parse(uuid) == TaskId(str(task)) == task
    assert type(TaskId.parse(str(task))) is TaskId


@given(st.lists(st.tuples(st.integers(0, 5), SHARD), min_size=2, max_size=200))
def test_ids_rise_strictly_whatever_the_clock_does_and_whatever_the_shard(
    steps: list[tuple[int, int]],
) -> None:
    times = iter([ms for ms, _ in steps])
    ids = Ids(lambda: next(times), Random(3).getrandbits)

    made = [without_shard(ids.ulids(1, shard)[0]) for _, shard in steps]

    assert made == sorted(set(made))


def test_more_ids_than_fit_into_a_millisecond_use_the_next_one() -> None:
    ids = Ids(lambda: 1000, lambda bits: (1 << bits) - 1)

    made = ids.ulids(40_000)

    assert made == sorted(set(made))
    assert TaskId.from_ulid(made[-1]).created_ms == 1001
    assert TaskId.parse(made[-1]).uuid.version == 7


def test_ids_sort_by_their_time() -> None:
    made = [an_id(ms) for ms in (1, 10, 1_000, 1_770_541_200_000, 2**48 - 1)]

    assert made == sorted(made)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "task_",
        "task_01KGY7NCM0E00800000000010",
        "dag_01KGY7NCM0E008000000000100",
        "task_01KGY7NCM0E00800000000010U",
        "task_81KGY7NCM0E008000000000100",
        "task_01KGY7NCM0E008000000000100\n",
        " task_01KGY7NCM0E008000000000100",
        "task-01KGY7NCM0E008000000000100",
        "0b6ee0b2-6f9e-4ef0-8a5b-6a3f3d4c9b11",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "task_01KGY7NCM0E00800000000010\u017f",
    ],
)
def test_an_invalid_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        TaskId.parse(text)

    assert refused.value.field == "id"


def test_a_random_uuid_is_refused() -> None:
    with pytest.raises(InvalidTask, match="version 7"):
        TaskId.parse(UUID(str(uuid4())))


def test_task_and_dag_ids_differ_in_their_prefix_only() -> None:
    task, dag = new_task_id(3), new_dag_id(3)

    assert (task[:5], dag[:4]) == ("task_", "dag_")
    assert task.shard == dag.shard == 3
    assert task.ulid < dag.ulid


@pytest.mark.parametrize("shard", [-1, 1024])
def test_a_shard_beyond_ten_bits_is_refused(shard: int) -> None:
    with pytest.raises(ConfigError):
        new_task_id(shard)


def test_ids_made_by_many_threads_are_all_different() -> None:
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.extend(new_task_id() for _ in range(2000)))
        for _ in range(4)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(made)) == 8000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_repeat_ids() -> None:
    new_task_id()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        os.write(writer, b"".join(new_task_id().encode() for _ in range(100)))
        os._exit(0)

    ours = {new_task_id() for _ in range(100)}
    os.waitpid(child, 0)
    text = os.read(reader, 10_000).decode()
    os.close(reader)
    os.close(writer)

    theirs = {text[at : at + 31] for at in range(0, len(text), 31)}
    assert len(theirs) == 100
    assert ours.isdisjoint(theirs)


def test_an_id_survives_pickling_and_pydantic() -> None:
    task, adapter = new_task_id(), TypeAdapter(TaskId)

    assert pickle.loads(pickle.dumps(task)) == task
    assert adapter.validate_python(str(task.uuid)) == task
    assert adapter.dump_json(task) == f'"{task}"'.encode()
    assert adapter.json_schema()["type"] == "string"
    with pytest.raises(ValidationError, match="bare ULID"):
        adapter.validate_python("x")


def test_a_dag_id_is_not_accepted_as_a_task_id() -> None:
    with pytest.raises(InvalidTask):
        TaskId.parse(DagId.from_ulid(new_task_id().ulid))
