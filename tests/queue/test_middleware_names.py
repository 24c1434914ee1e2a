"""The options of a task function apply to tasks that are enqueued by the name of its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rqueue import Call, Queue
from rqueue.errors import ConfigError, InvalidTask
from rqueue.task.spec import TaskSpec, merged
from tests.harness import Harness
from tests.queue.test_middleware import Way, by_call, by_document, by_documents, by_mapping, by_name


def with_job(queue: Queue, **options: Any) -> None:
    @queue.task("job", **options)
    async def job(n: int = 0) -> None: ...


async def by_own_call(queue: Queue) -> Any:
    return (await queue.enqueue_many([Call("job", {"n": 1})]))[0]


@pytest.mark.parametrize("way", [by_name, by_call, by_own_call, by_mapping])
async def test_a_task_by_name_has_its_functions_options(alone: Harness, way: Way) -> None:
    with_job(alone.queue, priority=30, timeout=60, max_attempts=7)

    spec = (await alone.task((await way(alone.queue)).id)).spec

    assert (spec.payload, spec.priority, spec.timeout_sec, spec.max_attempts) == (
        {"n": 1},
        30,
        60,
        7,
    )


@pytest.mark.parametrize("way", [by_document, by_documents])
async def test_options_of_a_function_do_not_apply_to_documents(alone: Harness, way: Way) -> None:
    with_job(alone.queue, priority=30, timeout=60, max_attempts=7)

    spec = (await alone.task((await way(alone.queue)).id)).spec

    assert (spec.priority, spec.timeout_sec, spec.max_attempts) == (50, None, 3)


async def test_a_type_without_a_handler_has_the_plain_defaults(alone: Harness) -> None:
    with_job(alone.queue, priority=30)

    handle = await alone.queue.enqueue("other")

    assert (await alone.task(handle.id)).spec == TaskSpec.of(type="other")


async def test_options_of_the_call_override_those_of_the_function(alone: Harness) -> None:
    with_job(alone.queue, priority=30, timeout=60, tags=["a"])

    handle = await alone.queue.enqueue("job", priority=5, tags=["b"])

    spec = (await alone.task(handle.id)).spec
    assert (spec.priority, spec.timeout_sec, spec.tags) == (5, 60, ("b",))


async def test_a_type_that_is_not_a_string_is_refused(alone: Harness) -> None:
    with_job(alone.queue, priority=30)

    wrong: list[Any] = [["job"], {}, None, 3]
    for type in wrong:
        with pytest.raises(InvalidTask, match="type"):
            await alone.queue.enqueue(type)
        with pytest.raises(InvalidTask, match="type"):
            await alone.queue.enqueue_many([{"type": type}])
    assert await alone.dump() == {}


@pytest.mark.parametrize(
    ("declared", "given", "found"),
    [
        ({"priority": 9, "scale": "1-10"}, {}, {"priority": 10}),
        ({"priority": 9, "scale": "1-10"}, {"priority": 20}, {"priority": 20}),
        ({"priority": 20}, {"priority": 9, "scale": "1-10"}, {"priority": 10}),
        ({"timeout": 60}, {"timeout_sec": 5}, {"timeout_sec": 5}),
        ({"timeout_sec": 60}, {"timeout": 5}, {"timeout_sec": 5}),
        ({"timeout": 60}, {"timeout": None}, {"timeout_sec": None}),
        ({"delay": 60}, {"at": "2030-01-01T00:00:00Z"}, {"delay_sec": None}),
        ({"delay_sec": 60}, {"delay": 0}, {"delay_sec": 0}),
        ({"dedupe_fields": ["type"]}, {"dedupe": "content"}, {"dedupe_fields": ()}),
        ({"idempotency_key": "a"}, {"dedupe": None}, {"idempotency_key": None}),
    ],
)
async def test_an_option_given_by_another_name_overrides_too(
    alone: Harness, declared: dict[str, Any], given: dict[str, Any], found: dict[str, Any]
) -> None:
    @alone.queue.task("job", **declared)
    async def job() -> None: ...

    drafter = alone.queue._internals.drafter
    named = drafter.spec({"type": "job", **drafter.call(Call("job", None, given)).options})
    called = drafter.spec({"type": "job", **job.options(**given).call().options})

    assert {name: getattr(named, name) for name in found} == found
    assert called == named


def test_options_that_are_not_given_are_kept() -> None:
    declared: Mapping[str, Any] = {"delay": 1, "timeout": 2, "priority": 3, "tags": ["a"]}

    assert merged(declared, {}) == declared
    assert merged({}, declared) == declared


def test_a_priority_is_declared_on_the_queues_own_scale() -> None:
    queue = Queue("q", url="redis://localhost:1", scale="1-10")

    with_job(queue, priority=10)
    with pytest.raises(InvalidTask, match="scale 1-10"):
        queue.task("other", priority=30)


def test_a_payload_is_not_an_option() -> None:
    queue = Queue("q", url="redis://localhost:1")

    with pytest.raises(ConfigError, match="payload"):
        queue.task("job", payload={"n": 1})


def test_an_unregistered_type_skips_the_options_of_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = Queue("q", url="redis://localhost:1")
    monkeypatch.setattr(queue._internals.drafter, "completed", None)

    assert (
        queue._internals.drafter.draft(Call("job", {"n": 1})).definition
        == b'{"t":"job","p":{"n":1}}'
    )
