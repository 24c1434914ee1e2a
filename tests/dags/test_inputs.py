"""Outputs of tasks as arguments of others: filled in when they are claimed, or a clear failure."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Context, Handle, State
from rqueue.dags.handle import Node
from rqueue.errors import StoreUnavailable, TaskDead
from rqueue.task.ids import new_task_id
from rqueue.worker import attempt
from rqueue.worker.context.inputs import filled
from tests.harness import Harness
from tests.worker import inputs
from tests.worker.working import working


async def finish(harness: Harness, how: str, result: object = None) -> None:
    """Claims what is there and ends it this way."""
    (lease,) = await harness.queue.claim(worker="w1", types=["up"])
    await lease.start()
    if how == "complete":
        await lease.complete(result)
    else:
        await lease.fail("error", "no", permanent=True)
        await harness.promoter.tick()


async def pair(harness: Harness, **options: Any) -> tuple[Node, Node]:
    """A task, and one that is given its output as `x`."""
    async with harness.queue.dag() as dag:
        up = dag.add({"type": "up"}, name="up")
        down = dag.add({"type": "down", "payload": {"x": up.output, "y": 1}}, **options)
    return up, down


async def claimed(harness: Harness) -> Any:
    (lease,) = await harness.queue.claim(worker="w2", types=["down"])
    return lease.payload


async def failure(harness: Harness, down: Handle) -> str:
    """Why a task that nobody was given is dead."""
    assert await harness.queue.claim(worker="w2", types=["down"]) == []
    with pytest.raises(TaskDead) as dead:
        await down.result(5)
    return dead.value.message


@pytest.mark.parametrize("result", [{"a": [1, None]}, "text", 0, [], None])
async def test_a_lease_has_what_the_parent_returned(harness: Harness, result: object) -> None:
    await pair(harness)

    await finish(harness, "complete", result)

    assert await claimed(harness) == {"x": result, "y": 1}


async def test_a_dead_parent_gives_nothing_to_one_that_runs_all_the_same(harness: Harness) -> None:
    await pair(harness, trigger="all_done")

    await finish(harness, "fail")

    assert await claimed(harness) == {"x": None, "y": 1}


async def test_one_that_a_death_frees_has_what_is_there(harness: Harness) -> None:
    async with harness.queue.dag() as dag:
        up = dag.add({"type": "up"})
        open_ = dag.add({"type": "other"})
        dag.add({"type": "down", "payload": {"x": [up.output, open_.output]}}, trigger="one_failed")

    await finish(harness, "fail")

    assert await claimed(harness) == {"x": [None, None]}


async def test_a_cancelled_parent_fails_one_that_needs_its_output(harness: Harness) -> None:
    up, down = await pair(harness)

    await harness.queue.cancel(up.id, dependents="unblock")

    assert await failure(harness, down) == f"inputs.x: {up.id} is CANCELLED and has no output"


async def test_a_parent_that_is_gone_fails_it(harness: Harness) -> None:
    up, down = await pair(harness)
    await finish(harness, "complete")
    await harness.client.delete(harness.keys.task(up.id.ulid))

    message = await failure(harness, down)

    assert message.startswith(f"inputs.x: {up.id} is not here")


async def test_what_fails_for_its_inputs_does_not_hide_what_is_behind(harness: Harness) -> None:
    up, _ = await pair(harness)
    await finish(harness, "complete")
    await harness.client.delete(harness.keys.task(up.id.ulid))
    good = await harness.queue.enqueue("down", {"z": 1}, priority=90)

    (lease,) = await harness.queue.claim(worker="w2", types=["down"])

    assert (lease.id, lease.payload) == (good.id, {"z": 1})


async def test_one_that_may_only_look_waits_for_nobody_and_must_find_an_end(
    harness: Harness,
) -> None:
    other = await harness.queue.enqueue("up")
    refs = [f"task:{other.id}:output", "artifact:abc", "task:mine:output"]
    down = await harness.queue.enqueue("down", context_refs=refs)

    message = await failure(harness, down)

    assert message == f"context_refs: {other.id} is READY and has no output yet"


async def test_references_are_what_was_returned(harness: Harness) -> None:
    other = await harness.queue.enqueue("up")
    await finish(harness, "complete", {"a": 1})
    refs = [f"task:{other.id}:output", "artifact:abc", "task:mine:output"]
    await harness.queue.enqueue("down", context_refs=refs)

    (lease,) = await harness.queue.claim(worker="w2", types=["down"])

    assert lease.task.references == {refs[0]: {"a": 1}}
    assert lease.task.spec.context_refs == tuple(refs)


async def test_a_handler_is_given_them_wherever_it_runs(harness: Harness) -> None:
    queue = harness.queue

    @queue.task("up")
    async def up() -> int:
        return 20

    on_loop = queue.task("on_loop")(inputs.on_loop)
    in_thread = queue.task("in_thread")(inputs.in_thread)
    in_process = queue.task("in_process", kind="process")(inputs.in_thread)
    async with queue.dag() as dag:
        first = dag.add(up.call())
        refs: dict[str, Any] = {"context_refs": [first.output.reference]}
        nodes = [
            dag.add(on_loop.call(first.output), **refs),
            dag.add(in_thread.call(first.output), **refs),
            dag.add(in_process.call(first.output), **refs),
        ]

    async with working(queue):
        await dag.wait(30)

    assert [await node.result() for node in nodes] == [[20, [20]]] * 3


async def test_an_output_of_another_type_is_a_clear_failure(harness: Harness) -> None:
    queue = harness.queue

    @queue.task("up")
    async def up() -> str:
        return "many"

    @queue.task("down")
    async def down(ctx: Context, n: int) -> int:
        return n

    async with queue.dag() as dag:
        first = dag.add(up.call())
        last = dag.add(down.call(first.output))

    async with working(queue):
        with pytest.raises(TaskDead, match=r"arguments\.n"):
            await last.result(10)
    assert (await last.task()).attempts == 1


async def test_a_worker_fails_what_it_cannot_give(harness: Harness) -> None:
    @harness.queue.task("down")
    async def down(ctx: Context, n: int) -> int:
        return n

    gone = f"task:{new_task_id()}:output"
    handle = await harness.queue.enqueue("down", {"n": 1}, context_refs=[gone])

    async with working(harness.queue):
        with pytest.raises(TaskDead, match=r"context_refs: task_\w+ is not here"):
            await handle.result(10)
    assert await handle.status() is State.DEAD_LETTERED


async def test_a_worker_waits_for_a_server_that_is_away(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    @harness.queue.task("up")
    async def up() -> int:
        return 1

    @harness.queue.task("down")
    async def down(n: int) -> int:
        return n

    away = [True]

    async def failing(*args: Any) -> Any:
        if away:
            away.clear()
            raise StoreUnavailable("outputs")
        return await filled(*args)

    monkeypatch.setattr(attempt, "filled", failing)
    monkeypatch.setattr(attempt, "ASK_AGAIN_SEC", 0.01)
    async with harness.queue.dag() as dag:
        first = dag.add(up.call())
        last = dag.add(down.call(first.output))

    async with working(harness.queue):
        assert await last.result(10) == 1
    assert (away, (await last.task()).attempts) == ([], 0)
