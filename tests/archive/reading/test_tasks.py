"""Reading: a task read from the archive equals the task read from Redis, field by field."""

from __future__ import annotations

import pytest

from rqueue import Task
from rqueue.core.notes import note, step
from rqueue.errors import TaskNotFound
from rqueue.task.ids import new_task_id
from rqueue.task.task import Note
from tests.archive.reading.reader_harness import ReaderHarness

# Fields that depend on the time of reading.
MOVING = {"effective_priority"}


def facts(task: Task) -> dict[str, object]:
    return {name: getattr(task, name) for name in Task.model_fields if name not in MOVING}


async def assert_same(env: ReaderHarness, *tasks: Task) -> None:
    """Asserts that these tasks read the assert_same from the archive as from Redis."""
    await env.moved()
    for task in tasks:
        found = await env.queue.get(task.id)
        assert facts(found) == facts(task)
        assert (found.effective_priority is None) == (task.effective_priority is None)


async def test_an_unknown_task_is_not_found(env: ReaderHarness) -> None:
    await env.completed()
    await env.moved()

    for name in (new_task_id(), "nobody's", str(new_task_id().uuid)):
        with pytest.raises(TaskNotFound):
            await env.queue.get(name)
        with pytest.raises(TaskNotFound):
            await env.queue.archive.get(name)
        with pytest.raises(TaskNotFound):
            await env.queue.archive.lives(name)


async def test_a_plain_task_reads_the_same_from_the_archive(env: ReaderHarness) -> None:
    bare = await env.completed()
    full = await env.completed("other", {"answer": [42, None, "ü\U0001f600"]}, payload={"a": 1})

    await assert_same(env, bare, full)


async def test_a_task_with_every_option_reads_the_same(env: ReaderHarness) -> None:
    task = await env.completed(
        title="the title", prompt="do", context_refs=["file:a"], priority=12.5,
        priority_boost_per_minute=2.5, deadline="2040-01-01T00:00:00Z", on_deadline="run",
        expected_duration_sec=3.0, limit_key="client-1",
        idempotency_key="once", external_id="mine", max_attempts=7, timeout=20,
        max_duration_sec=10.0, max_cost_usd=2.0, estimated_cost_usd=0.5, model_preferences=["m"],
        fallback_models=["n"], output_type="json", artifacts=["a"],
        created_by="human:me", tags=["a", "b"], headers={"k": "v"},
        retry={"strategy": "fixed", "initial_delay_sec": 3.0},
    )  # fmt: skip

    await assert_same(env, task)
    assert facts(await env.queue.get("mine")) == facts(task)


async def test_a_task_that_failed_before_it_completed_reads_the_same(env: ReaderHarness) -> None:
    lease = await env.lease(max_attempts=3)
    await lease.fail("timeout", "too slow\nby 'far' \x00\t")
    await env.harness.make_due(lease.id)
    await env.harness.promoter.tick()
    (lease,) = await env.queue.claim(worker="w2", types=["code"])
    await lease.start()
    await lease.complete("done")
    task = await env.queue.get(lease.id)

    assert (task.failure_reason, len(task.failure_history)) == ("timeout", 1)
    await assert_same(env, task)


async def test_dead_and_discarded_tasks_read_the_same(env: ReaderHarness) -> None:
    dead = await env.dead(error="bytes \udcff and \u2028", tags=["x"])
    gone = await env.dead()
    await env.queue.dead.discard(gone.id, "not worth it")

    await assert_same(env, dead, await env.queue.get(gone.id))


async def test_a_cancelled_task_reads_the_same(env: ReaderHarness) -> None:
    waiting = await env.queue.enqueue("code", delay=60)
    await waiting.cancel("no longer")
    running = await env.lease("other")
    await env.queue.cancel(running.id, "stop")
    tasks = [await env.queue.get(waiting.id), await env.queue.get(running.id)]

    await assert_same(env, *tasks)


async def test_notes_and_logs_of_a_task_read_the_same(env: ReaderHarness) -> None:
    lease = await env.lease()
    reported = Note(
        progress={"at": 3}, checkpoint=[1, "\ud7ff"], line="so far", usd=0.25, tokens_in=7
    )
    await note(env.queue._internals.shard, lease.held, reported, seq=1)
    await step(env.queue._internals.shard, lease.held, "fetch", b'"done"')
    await lease.complete({"ok": True})
    task = await env.queue.get(lease.id)

    assert (task.steps, task.cost_usd, task.logs) == (("fetch",), 0.25, ("so far",))
    await assert_same(env, task)


async def test_the_tasks_of_a_dag_read_the_same(env: ReaderHarness) -> None:
    async with env.queue.dag("a diamond") as dag:
        top = dag.add(env.queue.call("code", {"n": 1}), name="top")
        sides = [dag.add(env.queue.call("code", {"n": n}), after=top) for n in range(4)]
        dag.add(env.queue.call("code"), name="end", after=sides)
    for _ in range(6):
        (lease,) = await env.queue.claim(worker="w1", types=["code"])
        await lease.start()
        await lease.complete()
    tasks = await dag.read()

    assert [len(task.spec.depends_on) for task in tasks] == [0, 1, 1, 1, 1, 4]
    await assert_same(env, *tasks)


async def test_each_life_is_found_and_the_newest_is_the_default(env: ReaderHarness) -> None:
    first = await env.dead(external_id="mine")
    await env.archive()
    await env.queue.dead.retry(first.id)
    (lease,) = await env.queue.claim(worker="w2", types=["code"])
    await lease.start()
    await lease.complete("at last")
    second = await env.queue.get(first.id)
    await env.moved()

    assert facts(await env.queue.get(str(first.id.uuid))) == facts(second)
    assert facts(await env.queue.archive.get("mine", life=1)) == facts(first)
    lives = await env.queue.archive.lives("mine")
    assert [facts(life) for life in lives] == [facts(second), facts(first)]
    with pytest.raises(TaskNotFound):
        await env.queue.archive.get(first.id, life=3)


@pytest.mark.parametrize(
    "damage", [b'{"t":"code","deadline":"nonsense","p":{"x":"\\u0000"}}', b"\xff\x00 no JSON"]
)
async def test_an_unreadable_definition_is_reported_as_from_redis(
    pg_env: ReaderHarness, damage: bytes
) -> None:
    lease = await pg_env.lease("code", {"a": 1})
    key = pg_env.harness.keys.task(lease.id.ulid)
    await pg_env.harness.client.hset(key, "def0", damage)
    await pg_env.harness.client.hset(key, "odd", b"\xfe")
    await lease.complete()
    task = await pg_env.queue.get(lease.id)

    assert task.unreadable is not None
    assert task.type == "code"
    await assert_same(pg_env, task)
