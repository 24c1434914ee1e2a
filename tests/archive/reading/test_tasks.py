"""Reading: the archive gives back the Task that Redis showed, field by field."""

from __future__ import annotations

import pytest

from rqueue import Task
from rqueue.core.notes import note, step
from rqueue.errors import TaskNotFound
from rqueue.task.ids import new_task_id
from rqueue.task.task import Note
from tests.archive.reading.library import Library

# What depends on the moment of reading.
MOVING = {"effective_priority"}


def facts(task: Task) -> dict[str, object]:
    return {name: getattr(task, name) for name in Task.model_fields if name not in MOVING}


async def same(library: Library, *tasks: Task) -> None:
    """The archive alone shows these tasks as Redis did."""
    await library.moved()
    for task in tasks:
        found = await library.queue.get(task.id)
        assert facts(found) == facts(task)
        assert (found.effective_priority is None) == (task.effective_priority is None)


async def test_a_task_that_is_nowhere_is_not_found(library: Library) -> None:
    await library.completed()
    await library.moved()

    for name in (new_task_id(), "nobody's", str(new_task_id().uuid)):
        with pytest.raises(TaskNotFound):
            await library.queue.get(name)
        with pytest.raises(TaskNotFound):
            await library.queue.archive.get(name)
        with pytest.raises(TaskNotFound):
            await library.queue.archive.lives(name)


async def test_a_plain_task_is_the_same(library: Library) -> None:
    bare = await library.completed()
    full = await library.completed("other", {"answer": [42, None, "ü\U0001f600"]}, payload={"a": 1})

    await same(library, bare, full)


async def test_a_task_with_every_option_is_the_same(library: Library) -> None:
    task = await library.completed(
        title="the title", prompt="do", context_refs=["file:a"], priority=12.5,
        priority_boost_per_minute=2.5, deadline="2040-01-01T00:00:00Z", on_deadline="run",
        expected_duration_sec=3.0, limit_key="client-1",
        idempotency_key="once", external_id="mine", max_attempts=7, timeout=20,
        max_duration_sec=10.0, max_cost_usd=2.0, estimated_cost_usd=0.5, model_preferences=["m"],
        fallback_models=["n"], output_type="json", artifacts=["a"],
        created_by="human:me", tags=["a", "b"], headers={"k": "v"},
        retry={"strategy": "fixed", "initial_delay_sec": 3.0},
    )  # fmt: skip

    await same(library, task)
    assert facts(await library.queue.get("mine")) == facts(task)


async def test_a_task_that_failed_before_it_completed_is_the_same(library: Library) -> None:
    lease = await library.lease(max_attempts=3)
    await lease.fail("timeout", "too slow\nby 'far' \x00\t")
    await library.harness.make_due(lease.id)
    await library.harness.promoter.tick()
    (lease,) = await library.queue.claim(worker="w2", types=["code"])
    await lease.start()
    await lease.complete("done")
    task = await library.queue.get(lease.id)

    assert (task.failure_reason, len(task.failure_history)) == ("timeout", 1)
    await same(library, task)


async def test_a_dead_task_is_the_same_and_so_is_one_that_was_discarded(library: Library) -> None:
    dead = await library.dead(error="bytes \udcff and \u2028", tags=["x"])
    gone = await library.dead()
    await library.queue.dead.discard(gone.id, "not worth it")

    await same(library, dead, await library.queue.get(gone.id))


async def test_a_cancelled_task_is_the_same(library: Library) -> None:
    waiting = await library.queue.enqueue("code", delay=60)
    await waiting.cancel("no longer")
    running = await library.lease("other")
    await library.queue.cancel(running.id, "stop")
    tasks = [await library.queue.get(waiting.id), await library.queue.get(running.id)]

    await same(library, *tasks)


async def test_what_a_task_said_of_itself_is_the_same(library: Library) -> None:
    lease = await library.lease()
    said = Note(progress={"at": 3}, checkpoint=[1, "\ud7ff"], line="so far", usd=0.25, tokens_in=7)
    await note(library.queue._internals.shard, lease.held, said, seq=1)
    await step(library.queue._internals.shard, lease.held, "fetch", b'"done"')
    await lease.complete({"ok": True})
    task = await library.queue.get(lease.id)

    assert (task.steps, task.cost_usd, task.logs) == (("fetch",), 0.25, ("so far",))
    await same(library, task)


async def test_the_tasks_of_a_dag_are_the_same(library: Library) -> None:
    async with library.queue.dag("a diamond") as dag:
        top = dag.add(library.queue.call("code", {"n": 1}), name="top")
        sides = [dag.add(library.queue.call("code", {"n": n}), after=top) for n in range(4)]
        dag.add(library.queue.call("code"), name="end", after=sides)
    for _ in range(6):
        (lease,) = await library.queue.claim(worker="w1", types=["code"])
        await lease.start()
        await lease.complete()
    tasks = await dag.read()

    assert [len(task.spec.depends_on) for task in tasks] == [0, 1, 1, 1, 1, 4]
    await same(library, *tasks)


async def test_each_life_is_found_and_the_newest_stands_for_the_task(library: Library) -> None:
    first = await library.dead(external_id="mine")
    await library.archive()
    await library.queue.dead.retry(first.id)
    (lease,) = await library.queue.claim(worker="w2", types=["code"])
    await lease.start()
    await lease.complete("at last")
    second = await library.queue.get(first.id)
    await library.moved()

    assert facts(await library.queue.get(str(first.id.uuid))) == facts(second)
    assert facts(await library.queue.archive.get("mine", life=1)) == facts(first)
    lives = await library.queue.archive.lives("mine")
    assert [facts(life) for life in lives] == [facts(second), facts(first)]
    with pytest.raises(TaskNotFound):
        await library.queue.archive.get(first.id, life=3)


@pytest.mark.parametrize(
    "damage", [b'{"t":"code","deadline":"nonsense","p":{"x":"\\u0000"}}', b"\xff\x00 no JSON"]
)
async def test_a_definition_that_cannot_be_read_is_told_as_redis_tells_it(
    one_library: Library, damage: bytes
) -> None:
    lease = await one_library.lease("code", {"a": 1})
    key = one_library.harness.keys.task(lease.id.ulid)
    await one_library.harness.client.hset(key, "def0", damage)
    await one_library.harness.client.hset(key, "odd", b"\xfe")
    await lease.complete()
    task = await one_library.queue.get(lease.id)

    assert task.unreadable is not None
    assert task.type == "code"
    await same(one_library, task)
