"""DAGs built in code: submitted at the end of the block, awaited and read."""

from __future__ import annotations

import asyncio

import pytest

from rqueue import Context, DagStatus, Handle, Middleware, Plan, Queue, State, previous
from rqueue.errors import DagFailed, DagNotFound, InvalidTask, Reject, ResultTimeout
from rqueue.handlers import TaskFunction
from rqueue.task.ids import new_dag_id
from rqueue.task.spec import Call
from tests.harness import Harness
from tests.worker.running import working


def adding(queue: Queue) -> tuple[TaskFunction[[int], int], TaskFunction[[list[int]], int]]:
    """Returns two handlers: one adds 1, one sums a list."""

    @queue.task("more", max_attempts=1)
    async def more(n: int) -> int:
        if n < 0:
            raise Reject("less than nothing")
        return n + 1

    @queue.task("total")
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    return more, total


async def test_outputs_flow_along_the_edges(harness: Harness) -> None:
    queue = harness.queue

    @queue.task("study")
    async def study(what: str) -> str:
        return what.upper()

    @queue.task("implement")
    async def implement(ctx: Context, design: str, notes: list[str], times: int = 1) -> str:
        return f"{design} {notes} {times}"

    async with queue.dag("Landing page", budget_usd=5) as dag:
        research = dag.add(study.call("competitors"))
        design = dag.add(study.call("page"), after=[research], name="design")
        built = dag.add(implement.call(design.output, [research.output], times=2), name="built")

    assert (await dag.status()).status is DagStatus.PENDING
    assert (await dag.status()).spec.title == "Landing page"
    async with working(queue):
        assert (await dag.wait(10)).completed == 3
    assert await built.result() == "PAGE ['COMPETITORS'] 2"
    assert await dag.results() == {
        research.id: "COMPETITORS",
        "design": "PAGE",
        "built": "PAGE ['COMPETITORS'] 2",
    }


async def test_arguments_that_are_not_outputs_are_checked_immediately(alone: Harness) -> None:
    @alone.queue.task("pair")
    async def pair(left: int, right: int) -> None: ...

    dag = alone.queue.dag()
    node = dag.add({"type": "a"})

    with pytest.raises(InvalidTask, match=r"arguments\.right"):
        pair.call(node.output, "two")  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="missing a required argument: 'right'"):
        pair.call(node.output)  # type: ignore[call-arg]
    with pytest.raises(InvalidTask, match="and other values"):
        pair.call([node.output, 3], 2)  # type: ignore[arg-type]


async def test_an_output_nested_in_a_payload_is_refused(alone: Harness) -> None:
    dag = alone.queue.dag()
    node = dag.add({"type": "a"})
    dag.add({"type": "b", "payload": {"x": {"deep": node.output}}})

    with pytest.raises(InvalidTask, match="payload"):
        await dag.submit()

    assert await alone.dump() == {}


async def test_after_takes_nodes_names_handles_and_ids(harness: Harness) -> None:
    one, two = [await harness.queue.enqueue("a") for _ in range(2)]

    async with harness.queue.dag() as dag:
        first = dag.add({"type": "a"}, name="first")
        last = dag.add({"type": "b"}, after=[first, "first", one, str(two.id.uuid)])

    assert set((await harness.task(last.id)).blocked_by) == {first.id, one.id, two.id}


async def test_a_handles_output_makes_a_single_task_wait(harness: Harness) -> None:
    more, _ = adding(harness.queue)
    one = await more.enqueue(1)

    two = await more.enqueue(one.output)

    assert (await harness.task(two.id)).blocked_by == (one.id,)
    async with working(harness.queue):
        assert await two.result(10) == 3


async def test_a_map_is_gathered_into_one(harness: Harness) -> None:
    more, total = adding(harness.queue)

    async with harness.queue.dag() as dag:
        by_function = dag.map(more, range(5), into=total)
        by_call = dag.map(lambda n: more.call(2 * n), [1, 2], into=total.call(previous))
        of_nothing = dag.map(more, [], into=total, after=by_call)
        nodes = dag.map(more, [1, 2], after=by_call)

    async with working(harness.queue):
        await dag.wait(10)
    assert await by_function.result() == 15
    assert await by_call.result() == 8
    assert await of_nothing.result() == 0
    assert [await node.result() for node in nodes] == [2, 3]


async def test_a_chain_a_group_and_a_chord(harness: Harness) -> None:
    more, total = adding(harness.queue)
    three = (more.call(1), more.call(5), more.call(9))

    async with working(harness.queue):
        chain = await harness.queue.dags.chain(
            more.call(1), more.call(previous), more.call(previous)
        )
        group = await harness.queue.dags.group(*three, title="three")
        chord = await harness.queue.dags.chord(three, total.call(previous))
        for dag in (chain, group, chord):
            await dag.wait(10)

    assert list((await chain.results()).values()) == [2, 3, 4]
    assert list((await group.results()).values()) == [2, 6, 10]
    assert list((await chord.results()).values()) == [2, 6, 10, 18]


async def test_previous_is_refused_without_a_preceding_task(alone: Harness) -> None:
    more, _ = adding(alone.queue)

    with pytest.raises(InvalidTask, match=r"arguments\.n: `previous`"):
        await alone.queue.dags.group(more.call(previous))
    with pytest.raises(InvalidTask, match="inputs"):
        await more.enqueue(previous)

    assert await alone.dump() == {}


async def test_a_group_returns_the_outputs_available(harness: Harness) -> None:
    more, _ = adding(harness.queue)

    group = await harness.queue.dags.group(
        more.call(-1), more.call(1), more.call(2), on_failure="continue"
    )
    async with working(harness.queue, concurrency=1):
        with pytest.raises(DagFailed) as failed:
            await group.wait(10)

    assert failed.value.status == "failed"
    assert sorted(str(value) for value in (await group.results()).values()) == ["2", "3"]


async def test_a_dag_that_continues_after_a_failure_is_waited_for(harness: Harness) -> None:
    group = await harness.queue.dags.group({"type": "a"}, {"type": "a"}, on_failure="continue")
    bad, good = await harness.queue.claim(worker="w1", n=2)
    await bad.fail("error", "no", permanent=True)
    waiting = asyncio.create_task(group.wait(10))

    done, _ = await asyncio.wait({waiting}, timeout=0.1)
    assert not done
    await good.start()
    await good.complete(7)

    with pytest.raises(DagFailed):
        await waiting
    assert await group.results() == {good.id: 7}


async def test_a_timeout_of_the_wait_does_not_stop_the_dag(harness: Harness) -> None:
    more, _ = adding(harness.queue)
    dag = await harness.queue.dags.group(more.call(1))

    with pytest.raises(ResultTimeout):
        await dag.wait(0.01)

    async with working(harness.queue):
        assert (await dag.wait(10)).status is DagStatus.COMPLETED


async def test_a_dead_task_ends_the_wait(harness: Harness) -> None:
    more, _ = adding(harness.queue)
    dag = await harness.queue.dags.chain(more.call(-1), more.call(previous))

    async with working(harness.queue):
        with pytest.raises(DagFailed, match="is failed"):
            await dag.wait(10)


async def test_a_dag_is_found_by_its_id_in_any_form(harness: Harness) -> None:
    async with harness.queue.dag("mine") as dag:
        dag.add({"type": "a"}, name="one")
        dag.add({"type": "b"}, name="two", after="one")

    for form in (dag.id, dag.id.ulid, str(dag.id.uuid)):
        found = await harness.queue.dags.get(form)
        assert [node.name for node in await found.tasks()] == ["one", "two"]
    assert [one.id async for one in harness.queue.dags.list()] == [dag.id]
    with pytest.raises(DagNotFound):
        await harness.queue.dags.get(new_dag_id())


async def test_a_dag_is_paused_resumed_and_cancelled(harness: Harness) -> None:
    async with harness.queue.dag() as dag:
        node = dag.add({"type": "a"})

    await dag.pause()
    assert await harness.queue.claim(worker="w1") == []
    await dag.resume()
    assert await dag.cancel("enough") is True
    assert await dag.cancel("enough") is False

    assert await node.status() is State.CANCELLED
    with pytest.raises(DagFailed, match="is cancelled: enough"):
        await dag.wait(1)


async def test_a_dag_with_only_dead_tasks_cannot_be_cancelled(harness: Harness) -> None:
    async with harness.queue.dag() as dag:
        dag.add({"type": "a"})
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.fail(permanent=True)

    assert await dag.cancel("enough") is False

    assert (await dag.status()).reason is None


async def test_a_follow_up_dag_gets_the_options_of_its_handlers(harness: Harness) -> None:
    @harness.queue.task("deploy", priority=7)
    async def deploy(where: str) -> None: ...

    then = harness.queue.dag("deploy")
    then.add({"type": "deploy", "payload": {"where": "here"}}, name="deploy")
    async with harness.queue.dag("build", on_complete=then) as dag:
        dag.add({"type": "build"})

    with pytest.raises(DagNotFound):
        await then.status()
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()
    scheduler = harness.queue.scheduler("s1")
    for service in scheduler.services:
        if service.name == "resumer":
            await service.tick()

    assert (await dag.status()).next == then.id
    (task,) = await then.tasks()
    assert (await task.task()).spec.priority == 7
    assert (await task.task()).payload == {"where": "here"}


async def test_middleware_runs_for_every_task(harness: Harness) -> None:
    class Tracing(Middleware):
        seen: list[str] = []  # noqa: RUF012

        async def before_submit(self, call: Call) -> Call:
            return call.with_headers({"trace": "t1"})

        async def after_submit(self, handles: list[Handle]) -> None:  # type: ignore[override]
            self.seen += [handle.id for handle in handles]

    harness.queue.use(Tracing())
    async with harness.queue.dag() as dag:
        nodes = [dag.add({"type": "a"}, name="one"), dag.add({"type": "b"}, after="one")]

    assert Tracing.seen == [node.id for node in nodes]
    assert [(await harness.task(n.id)).spec.headers for n in nodes] == [{"trace": "t1"}] * 2


async def test_blocking_code_submits_a_plan_and_waits(harness: Harness) -> None:
    more, _ = adding(harness.queue)

    def plainly() -> object:
        dag = harness.queue.dag("plain")
        dag.add(more.call(1), name="one")
        handle = harness.queue.sync.dags.submit(dag.plan())
        try:
            handle.wait(10)
            return handle.results()
        finally:
            harness.queue.sync.aclose()

    async with working(harness.queue):
        assert await asyncio.to_thread(plainly) == {"one": 2}


async def test_a_plan_is_read_from_its_own_document(harness: Harness) -> None:
    plan = Plan.parse(
        {
            "title": "twice",
            "tasks": [
                {"type": "a", "name": "one"},
                {"type": "b", "inputs": {"x": "one"}, "after": ["one"]},
            ],
        }
    )

    first = await harness.queue.dags.submit(plan)
    again = await harness.queue.dags.submit(plan)

    assert first.id == again.id
    assert (await again.status()).total == 2
    assert [one.id async for one in harness.queue.dags.list()] == [plan.id]


async def test_deduplication_by_content_does_not_merge_tasks_of_a_dag(alone: Harness) -> None:
    alone.queue._internals.drafter.by_content = True

    dag = await alone.queue.dags.group({"type": "a", "tags": ["x"]}, {"type": "a", "tags": ["x"]})

    assert [task.spec.dedupe for task in await dag.read()] == [None, None]


async def test_a_type_whose_tasks_are_unique_may_be_in_a_dag_twice(harness: Harness) -> None:
    @harness.queue.task("only", dedupe="content")
    async def only() -> None: ...

    async with harness.queue.dag() as dag:
        first = dag.add(only.call())
        second = dag.add(only.call())

    found = [(await harness.task(one.id)).state for one in (first, second)]
    assert found == [State.READY, State.READY]
    assert not [key for key in await harness.client.keys("*") if b":idem:" in key]
