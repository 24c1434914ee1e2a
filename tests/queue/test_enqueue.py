"""Enqueue as a producer uses it: options, handles, ids in every form, priorities, own ids."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from rqueue import Queue, RetryPolicy, State, TaskId
from rqueue.clock import SYSTEM
from rqueue.errors import TaskNotFound
from rqueue.task.ids import new_task_id
from tests.harness import Harness
from tests.servers import Server


async def test_a_handle_has_the_id_of_its_task(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", {"n": 1})

    assert isinstance(handle.id, TaskId)
    assert handle.created is True
    assert await handle.status() is State.READY
    task = await handle.task()
    assert (task.id, task.type, task.payload) == (handle.id, "code", {"n": 1})


async def test_a_handle_gives_the_result(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", {"n": 1})
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete({"answer": [1, 2.5, "ä", None, True]})

    assert await handle.result(timeout=5) == {"answer": [1, 2.5, "ä", None, True]}
    assert await handle.status() is State.COMPLETED


async def test_a_task_without_payload_or_result_has_empty_ones(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code")
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()

    assert (await handle.task()).payload == {}
    assert await handle.result(timeout=5) is None


async def test_options_are_the_models_own_names(harness: Harness) -> None:
    deadline = datetime(2030, 1, 1, tzinfo=UTC)
    options: dict[str, Any] = {
        "title": "Fix CORS",
        "prompt": "line 1\nline 2",
        "context_refs": ("artifact:abc",),
        "priority": 20.5,
        "priority_boost_per_minute": 0.25,
        "deadline": deadline,
        "on_deadline": "cancel",
        "expected_duration_sec": 60.0,
        "agent_name": "coder",
        "required_capabilities": ("git", "web-search"),
        "limit_key": "openai:gpt-4o",
        "idempotency_key": "pr-123-lint",
        "if_exists": "replace",
        "unique": "until_start",
        "external_id": "own-1",
        "max_attempts": 5,
        "retry": RetryPolicy.fixed(3.0),
        "timeout_sec": 300.0,
        "max_duration_sec": 200.0,
        "heartbeat_interval_sec": 5.0,
        "max_cost_usd": 0.5,
        "estimated_cost_usd": 0.2,
        "model_preferences": ("claude-sonnet-4",),
        "fallback_models": ("claude-haiku",),
        "output_type": "json",
        "validation": "json-schema",
        "validation_schema": {"type": "object"},
        "artifacts": ("a/b.txt",),
        "result_ttl_sec": 600.0,
        "created_by": "agent:orchestrator/1",
        "tags": ("repo:myapp", "team/a"),
    }

    handle = await harness.queue.enqueue("code", {"n": 1}, **options)

    spec = (await handle.task()).spec
    assert {name: getattr(spec, name) for name in options} == options


async def test_short_names_for_times_are_accepted(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", timeout=30, delay=60)

    task = await handle.task()
    assert (task.spec.timeout_sec, task.spec.delay_sec) == (30, 60)
    assert task.state is State.PENDING


async def test_a_delayed_task_waits_for_its_time(harness: Harness) -> None:
    tomorrow = SYSTEM.now() + timedelta(days=1)
    delayed = await harness.queue.enqueue("code", delay=3600)
    scheduled = await harness.queue.enqueue("code", at=tomorrow)

    found = await scheduled.task()

    assert await harness.queue.claim(worker="w1", n=2) == []
    assert await delayed.status() is State.PENDING
    assert found.available_at is not None
    assert abs(found.available_at - tomorrow) < timedelta(milliseconds=2)


async def test_a_start_time_in_the_past_means_now(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", at="2020-01-01T00:00:00+02:00")

    assert await handle.status() is State.READY


FORMS: dict[str, Callable[[TaskId], str]] = {
    "ours": str,
    "bare ULID": lambda task: task.ulid,
    "bare ULID in small letters": lambda task: task.ulid.lower(),
    "UUID": lambda task: str(task.uuid),
    "UUID in capitals": lambda task: str(task.uuid).upper(),
    "UUID without hyphens": lambda task: task.uuid.hex,
    "UUID with our prefix": lambda task: f"task_{task.uuid}",
}


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_an_id_is_accepted_everywhere(harness: Harness, form: str) -> None:
    queue, written = harness.queue, FORMS[form]
    handle = await queue.enqueue("code", {"n": 1}, delay=60)
    task = written(handle.id)

    child = await queue.enqueue("code", depends_on=[task], parent_id=task)
    await queue.edit(task, {"n": 2})
    await queue.set_priority(task, 5)
    await queue.reschedule(task, delay=30)
    assert await queue.run_now(task) is True
    assert (await queue.get(task)).payload == {"n": 2}
    assert (await child.task()).blocked_by == (handle.id,)
    assert (await child.task()).spec.depends_on == (handle.id,)
    (lease,) = await queue.claim(worker="w1")
    await lease.fail("error", "no", permanent=True)
    assert await queue.dead.retry(task) is State.READY
    (lease,) = await queue.claim(worker="w1")
    await lease.fail("error", "no", permanent=True)
    await queue.dead.discard(task, "enough")
    assert await queue.cancel(task) is False


async def test_an_id_is_a_uuid_of_version_7_that_sorts_by_time(alone: Harness) -> None:
    handles = [await alone.queue.enqueue("code") for _ in range(20)]

    uuids = [UUID(str(handle.id.uuid)) for handle in handles]

    assert {found.version for found in uuids} == {7}
    assert uuids == sorted(uuids)
    assert [h.id for h in handles] == sorted(h.id for h in handles)


OWN = ("order-17", "0b6ee0b2-6f9e-4ef0-8a5b-6a3f3d4c9b11", "a b/c:d ä", str(new_task_id()))


@pytest.mark.parametrize("own", OWN, ids=("word", "uuid", "odd", "ours"))
async def test_a_task_may_be_named_by_its_external_id(harness: Harness, own: str) -> None:
    handle = await harness.queue.enqueue("code", {"n": 1}, external_id=own)
    child = await harness.queue.enqueue("code", depends_on=[own])

    assert handle.id != own
    assert (await harness.queue.get(own)).id == handle.id
    assert (await harness.queue.get(own)).spec.external_id == own
    assert (await child.task()).blocked_by == (handle.id,)
    assert await harness.queue.cancel(own, "not needed") is True
    assert await child.status() is State.CANCELLED


async def test_an_unknown_id_is_not_found(harness: Harness) -> None:
    missing = new_task_id()

    for name in (missing, str(missing), str(missing.uuid), "never-seen", "", "\ud800"):
        with pytest.raises(TaskNotFound) as caught:
            await harness.queue.get(name)
        assert caught.value.task == name


async def test_a_queue_opens_by_its_url(valkey: Server) -> None:
    async with Queue("mine", url=valkey.url, lease_sec=10) as queue:
        handle = await queue.enqueue("code")

        assert await handle.status() is State.READY
        assert queue.settings.lease_sec == 10
    assert await queue.cancel(handle.id) is True
    await queue.aclose()
