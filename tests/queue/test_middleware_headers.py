"""Headers are stored with a task for tracing, and are not passed to its handler."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Call
from rqueue.errors import InvalidTask
from tests.harness import Harness

TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Baggage": "a=é"}


async def test_headers_are_kept_and_shown(alone: Harness) -> None:
    handle = await alone.queue.enqueue("job", {"n": 1}, headers=TRACE)

    task = await alone.task(handle.id)
    assert (task.payload, task.spec.headers) == ({"n": 1}, TRACE)
    assert (await (await alone.queue.handle(handle.id)).view("native"))["headers"] == TRACE


async def test_a_native_document_has_headers_too(alone: Harness) -> None:
    handle = await alone.queue.enqueue_document({"type": "job", "headers": TRACE})

    assert (await alone.task(handle.id)).spec.headers == TRACE


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        (None, "headers"),
        (["a"], "headers"),
        ({"a b": "c"}, r"headers\.a b"),
        ({"": "c"}, "headers"),
        ({"a": 1}, r"headers\.a"),
        ({"a": None}, r"headers\.a"),
        ({"a": "b\0"}, r"headers\.a"),
        ({"a": "\ud800"}, r"headers\.a"),
        ({"a": "b" * 8193}, r"headers\.a"),
        ({f"a{n}": "b" for n in range(33)}, "headers"),
    ],
)
async def test_bad_headers_are_refused_and_leave_nothing(
    alone: Harness, headers: Any, field: str
) -> None:
    with pytest.raises(InvalidTask, match=f"^{field}"):
        await alone.queue.enqueue("job", headers=headers)

    assert await alone.dump() == {}


async def test_headers_do_not_distinguish_tasks_in_deduplication(alone: Harness) -> None:
    first = await alone.queue.enqueue("job", {"n": 1}, dedupe="content", headers={"a": "1"})
    again = await alone.queue.enqueue("job", {"n": 1}, dedupe="content", headers={"a": "2"})

    assert (again.id, again.created) == (first.id, False)


def test_headers_of_a_call_are_merged_with_those_of_the_function() -> None:
    call = Call("job", None, {"headers": {"a": "1", "b": "1"}, "priority": 3})

    changed = call.with_headers({"b": "2", "c": "2"})

    assert changed.options == {"headers": {"a": "1", "b": "2", "c": "2"}, "priority": 3}
    assert call.options["headers"] == {"a": "1", "b": "1"}
