"""Outputs of tasks as arguments of others: filled in at the claim, or a clear failure."""

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
from tests.worker.running import working


async def finish(harness: Harness, how: str, result: object = None) -> None:
    """Claims a task and ends it in this way."""
    (lease,) = await harness.queue.claim(worker="w1", types=["up"])
    await lease.start()
    if how == "complete":
        await lease.complete(result)
    else:
        await lease.fail("error", "no", permanent=True)
        await harness.promoter.tick()


async def pair(harness: Harness, **options: Any) -> tuple[Node, Node]:
    """Enqueues a task, and one that receives its output as `x`."""
    async with harness.queue.dag() as dag:
        up = dag.add({"type": "up"}, name="up")
        down = dag.add({"type": "down", "payload": {"x": up.output, "y": 1}}, **options)
    return up, down


async def claimed(harness: Harness) -> Any:
    (lease,) = await harness.queue.claim(worker="w2", types=["down"])
    return lease.payload


async def failure(harness: Harness, down: Handle) -> str:
    """Returns the error of a dead task that no claim has returned."""
    assert await harness.queue.claim(worker="w2", types=["down"]) == []
    with pytest.raises(TaskDead) as dead:
        await down.result(5)
    return dead.value.message


@pytest.mark.parametrize("result", [{"a": [1, None]}, "text", 0, [], None])
async def test_a_lease_contains_the_output_of_the_dependency(
    harness: Harness, result: object
) -> None:
    await pair(harness)

    await finish(harness, "complete", result)

    assert await claimed(harness) == {"x": result, "y": 1}


async def test_a_dead_dependency_has_no_output_for_a_dependent_that_runs_anyway(
    harness: Harness,
) -> None:
    await pair(harness, trigger="all_done")

    await finish(harness, "fail")

    assert await claimed(harness) == {"x": None, "y": 1}


async def test_a_task_unblocked_by_a_death_gets_the_available_outputs(harness: Harness) -> None:
    async with harness.queue.dag() as dag:
        up = dag.add({"type": "up"})
        open_ = dag.add({"type": "other"})
        dag.add({"type": "down", "payload": {"x": [up.output, open_.output]}}, trigger="one_failed")

    await finish(harness, "fail")

    assert await claimed(harness) == {"x": [None, None]}


async def test_a_cancelled_dependency_fails_a_task_that_needs_its_output(harness: Harness) -> None:
    up, down = await pair(harness)

    await harness.queue.cancel(up.id, dependents="unblock")

    assert await failure(harness, down) == f"inputs.x: {up.id} is CANCELLED and has no output"


async def test_an_expired_dependency_fails_a_task_that_needs_its_output(harness: Harness) -> None:
    up, down = await pair(harness)
    await finish(harness, "complete")
    await harness.client.delete(harness.keys.task(up.id.ulid))

    message = await failure(harness, down)

    assert message.startswith(f"inputs.x: {up.id} was not found")


async def test_a_task_that_fails_for_its_inputs_does_not_block_the_next_one(
    harness: Harness,
) -> None:
    up, _ = await pair(harness)
    await finish(harness, "complete")
    await harness.client.delete(harness.keys.task(up.id.ulid))
    good = await harness.queue.enqueue("down", {"z": 1}, priority=90)

    (lease,) = await harness.queue.claim(worker="w2", types=["down"])

    assert (lease.id, lease.payload) == (good.id, {"z": 1})


async def test_a_context_reference_does_not_delay_a_task_and_needs_an_ended_one(
    harness: Harness,
) -> None:
    other = await harness.queue.enqueue("up")
    refs = [f"task:{other.id}:output", "artifact:abc", "task:mine:output"]
    down = await harness.queue.enqueue("down", context_refs=refs)

    message = await failure(harness, down)

    assert message == f"context_refs: {other.id} is READY and has no output yet"


async def test_references_are_replaced_by_outputs(harness: Harness) -> None:
    other = await harness.queue.enqueue("up")
    await finish(harness, "complete", {"a": 1})
    refs = [f"task:{other.id}:output", "artifact:abc", "task:mine:output"]
    await harness.queue.enqueue("down", context_refs=refs)

    (lease,) = await harness.queue.claim(worker="w2", types=["down"])

    assert lease.task.references == {refs[0]: {"a": 1}}
    assert lease.task.spec.context_refs == tuple(refs)


async def test_every_kind_of_handler_receives_its_inputs(harness: Harness) -> None:
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


async def test_an_output_of_the_wrong_type_fails_with_a_clear_error(harness: Harness) -> None:
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


async def test_a_worker_fails_a_task_whose_input_is_missing(harness: Harness) -> None:
    @harness.queue.task("down")
    async def down(ctx: Context, n: int) -> int:
        return n

    gone = f"task:{new_task_id()}:output"
    handle = await harness.queue.enqueue("down", {"n": 1}, context_refs=[gone])

    async with working(harness.queue):
        with pytest.raises(TaskDead, match=r"context_refs: task_\w+ was not found"):
            await handle.result(10)
    assert await handle.status() is State.DEAD_LETTERED


async def test_a_worker_retries_reading_inputs_while_the_server_is_unavailable(
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
    monkeypatch.setattr(attempt, "RETRY_SEC", 0.01)
    async with harness.queue.dag() as dag:
        first = dag.add(up.call())
        last = dag.add(down.call(first.output))

    async with working(harness.queue):
        assert await last.result(10) == 1
    assert (away, (await last.task()).attempts) == ([], 0)
