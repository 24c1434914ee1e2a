"""Middleware around submits, for every submitting call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from rqueue import Call, Context, Handle, Middleware, Queue
from rqueue.errors import ConfigError, InvalidGraph, InvalidTask, SubmitError
from tests.harness import Harness

FIXTURES = Path(__file__).parent.parent / "fixtures"
TRACE: ContextVar[str] = ContextVar("TRACE", default="none")
Way = Callable[[Queue], Awaitable[Any]]


class Steps(Middleware):
    """Records its calls under its name."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen

    async def before_submit(self, call: Call) -> Call | None:
        self.seen.append(f"{self.name} before {call.type} {call.payload}")
        return None

    async def after_submit(self, handles: Sequence[Handle]) -> None:
        self.seen.append(f"{self.name} after {len(handles)}")


class Tracing(Middleware):
    """Adds a header from the caller's context."""

    async def before_submit(self, call: Call) -> Call | None:
        return call.with_headers({"traceparent": TRACE.get()})


class Refusing(Middleware):
    """Refuses every call."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def before_submit(self, call: Call) -> Call | None:
        raise self.error


async def by_name(queue: Queue) -> Any:
    return await queue.enqueue("job", {"n": 1})


async def to_replicas(queue: Queue) -> Any:
    return await queue.enqueue("job", {"n": 1}, wait_replicas=0)


async def by_call(queue: Queue) -> Any:
    return (await queue.enqueue_many([queue.call("job", {"n": 1})]))[0]


async def by_mapping(queue: Queue) -> Any:
    return (await queue.enqueue_many([{"type": "job", "payload": {"n": 1}}]))[0]


async def by_document(queue: Queue) -> Any:
    return await queue.enqueue_document({"type": "job", "payload": {"n": 1}})


async def by_document_text(queue: Queue) -> Any:
    return await queue.enqueue_document("task: {type: job, payload: {n: 1}}", form="B")


async def by_documents(queue: Queue) -> Any:
    return (await queue.enqueue_many([{"task": {"type": "job", "payload": {"n": 1}}}]))[0]


async def by_function(queue: Queue) -> Any:
    @queue.task("job")
    async def job(n: int) -> None: ...

    return await job.enqueue(1)


async def by_function_calls(queue: Queue) -> Any:
    @queue.task("job")
    async def job(n: int) -> None: ...

    return (await queue.enqueue_many([job.call(1)]))[0]


async def from_blocking_code(queue: Queue) -> Any:
    return await blocking(queue, queue.sync.enqueue, "job", {"n": 1})


async def from_a_blocking_function(queue: Queue) -> Any:
    @queue.task("job")
    def job(n: int) -> None: ...

    return await blocking(queue, job.sync.enqueue, 1)


async def blocking(queue: Queue, call: Callable[..., Any], *args: Any) -> Any:
    """Returns the result of a blocking call and closes its connections."""
    try:
        return await asyncio.to_thread(call, *args)
    finally:
        await asyncio.to_thread(queue.sync.aclose)


WAYS: list[Way] = [
    by_name, to_replicas, by_call, by_mapping, by_document, by_document_text, by_documents,
    by_function, by_function_calls, from_blocking_code, from_a_blocking_function,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_every_submitting_call_runs_the_hooks(alone: Harness, way: Way) -> None:
    seen: list[str] = []
    alone.queue.use(Steps("outer", seen), Steps("inner", seen))

    handle = await way(alone.queue)

    assert (await alone.task(handle.id)).payload == {"n": 1}
    assert seen == [
        "outer before job {'n': 1}", "inner before job {'n': 1}", "inner after 1", "outer after 1",
    ]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_an_exception_of_a_hook_reaches_the_caller_and_nothing_is_submitted(
    alone: Harness, way: Way
) -> None:
    seen: list[str] = []
    error = SubmitError("the quota of this tenant is spent")
    alone.queue.use(Refusing(error), Steps("inner", seen))

    with pytest.raises(SubmitError) as caught:
        await way(alone.queue)

    assert caught.value is error
    assert (seen, await alone.dump()) == ([], {})


@pytest.mark.parametrize("way", WAYS)
async def test_a_hook_copies_headers_from_the_callers_context(alone: Harness, way: Way) -> None:
    alone.queue.use(Tracing())
    TRACE.set("00-abc-01")

    handle = await way(alone.queue)

    assert (await alone.task(handle.id)).spec.headers == {"traceparent": "00-abc-01"}


async def test_one_refused_call_of_many_refuses_all(alone: Harness) -> None:
    class Second(Middleware):
        async def before_submit(self, call: Call) -> Call | None:
            if call.payload == 2:
                raise InvalidTask("payload", "is not wanted")
            return None

    alone.queue.use(Second())

    with pytest.raises(InvalidTask, match="not wanted"):
        await alone.queue.enqueue_many([alone.queue.call("job", n) for n in (1, 2, 3)])

    assert await alone.dump() == {}


async def test_a_hook_gets_the_call_of_the_previous_hook(alone: Harness) -> None:
    class Also(Middleware):
        def __init__(self, tag: str) -> None:
            self.tag = tag

        async def before_submit(self, call: Call) -> Call | None:
            tags = [*call.options.get("tags", ()), self.tag]
            return call.with_options(tags=tags)

    alone.queue.use(Also("outer"), Also("inner"))

    handle = await alone.queue.enqueue("job", tags=["own"])

    assert (await alone.task(handle.id)).spec.tags == ("own", "outer", "inner")


async def test_a_hook_gets_the_options_of_the_handler(alone: Harness) -> None:
    seen: list[Any] = []

    class Looking(Middleware):
        async def before_submit(self, call: Call) -> Call | None:
            seen.append(dict(call.options))
            return None

    @alone.queue.task("job", priority=30)
    async def job() -> None: ...

    alone.queue.use(Looking())
    await alone.queue.enqueue("job", {}, tags=["a"])
    await job.enqueue()

    assert seen == [{"priority": 30, "tags": ["a"]}, {"priority": 30}]


async def test_a_call_changed_by_a_hook_is_checked(alone: Harness) -> None:
    class Wrong(Middleware):
        async def before_submit(self, call: Call) -> Call | None:
            return call.with_options(headers={"a b": "c"})

    alone.queue.use(Wrong())

    with pytest.raises(InvalidTask, match="headers"):
        await alone.queue.enqueue("job")
    assert await alone.dump() == {}


async def test_a_hook_that_returns_something_else_than_a_call_is_refused(alone: Harness) -> None:
    class Wrong(Middleware):
        async def before_submit(self, call: Call) -> Call | None:
            return {"type": "job"}  # type: ignore[return-value]

    alone.queue.use(Wrong())

    with pytest.raises(ConfigError, match=r"Wrong\.before_submit"):
        await alone.queue.enqueue("job")
    assert await alone.dump() == {}


async def test_an_exception_after_a_submit_is_logged_and_has_no_other_effect(
    alone: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    class Failing(Middleware):
        async def after_submit(self, handles: Sequence[Handle]) -> None:
            raise ValueError("too late")

    alone.queue.use(Steps("outer", seen), Failing())
    with caplog.at_level(logging.ERROR):
        handle = await alone.queue.enqueue("job")

    assert handle.created
    assert seen[-1] == "outer after 1"
    assert "after_submit of Failing failed" in caplog.text


async def test_of_many_tasks_the_accepted_ones_are_passed_to_the_hook(alone: Harness) -> None:
    submitted: list[str] = []

    class Recording(Middleware):
        async def after_submit(self, handles: Sequence[Handle]) -> None:
            submitted.extend(handle.id for handle in handles)

    alone.queue.use(Recording())
    calls = [
        alone.queue.call("job"),
        alone.queue.call("job", depends_on=["nobody"]),
        alone.queue.call("job"),
    ]

    with pytest.raises(InvalidGraph):
        await alone.queue.enqueue_many(calls)

    assert sorted(submitted) == sorted([task.id async for task in alone.queue.find()])
    assert len(submitted) == 2


@pytest.mark.parametrize("scale", ["native", "1-10"])
@pytest.mark.parametrize("name", ["document_a.json", "document_b.yaml", "document_c.json"])
def test_a_document_is_read_the_same_with_hooks_and_without(name: str, scale: str) -> None:
    drafter = Queue("q", url="redis://localhost:1", scale=scale)._internals.drafter
    text = (FIXTURES / name).read_text("utf-8")

    call = drafter.call_of_document(text, None)

    assert drafter.of_call(call) == drafter.of_document(text, None)
    assert drafter.of_call(call.with_headers({})) == drafter.of_call(call)


@pytest.mark.parametrize("payload", [None, {}, [], 0, ""])
async def test_a_payload_passes_the_hooks_unchanged(alone: Harness, payload: Any) -> None:
    alone.queue.use(Tracing())

    handle = await alone.queue.enqueue_document({"type": "job", "payload": payload})
    (other,) = await alone.queue.enqueue_many([{"type": "job", "payload": payload}])

    assert (await alone.task(handle.id)).payload == payload
    assert (await alone.task(other.id)).payload == payload


class Plain(Middleware):
    def before_attempt(self, ctx: Context) -> None:  # type: ignore[override]
        """Should be a coroutine."""


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        (Middleware, "not an instance"),
        (print, "not an instance"),
        (Plain(), r"Plain\.before_attempt"),
    ],
)
def test_an_object_that_is_not_middleware_is_refused(step: Any, rule: str) -> None:
    queue = Queue("q", url="redis://localhost:1")

    with pytest.raises(ConfigError, match=rule):
        queue.use(Middleware(), step)

    assert queue._internals.hooks.middleware == []
