"""A task with an unreadable definition, for its holder and for operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rqueue import Lease, State
from rqueue.task.attempt.verdict import refused
from rqueue.task.forms import FORMS, Form
from tests.harness import Harness


async def break_definition(harness: Harness, task: str) -> None:
    """Makes the definition of a task unreadable."""
    await harness.client.hset(harness.keys.task(task[-26:]), "def0", b"\xff{")


async def broken(harness: Harness, **options: Any) -> Lease:
    """Returns the lease of a started task that is unreadable."""
    handle = await harness.queue.enqueue("code", {}, **options)
    await break_definition(harness, handle.id)
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])
    await lease.start()
    return lease


async def test_the_lease_of_an_unreadable_task_reports_it(harness: Harness) -> None:
    lease = await broken(harness)

    task = lease.task

    assert (task.id, task.type, task.payload) == (lease.id, "unknown", None)
    assert (task.unreadable, task.epoch) == ("definition: is not UTF-8", 1)
    assert refused(task) is not None


async def test_an_unreadable_task_can_be_rejected_before_its_start(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", {}, max_attempts=9)
    await break_definition(harness, handle.id)
    (lease,) = await harness.queue.claim(worker="w1")
    outcome = refused(lease.task)
    assert outcome is not None

    state = await lease.settler.fail(lease, outcome)

    task = await harness.task(lease.id)
    assert (state, task.state, task.attempts) == (State.DEAD_LETTERED, State.DEAD_LETTERED, 1)
    assert task.last_error == ("the task's definition cannot be read: definition: is not UTF-8")
    assert [each.state async for each in harness.queue.find(states=["DEAD_LETTERED"])] == [
        task.state
    ]


MOVES: dict[str, tuple[Callable[[Harness, Lease], Awaitable[object]], State]] = {
    "fail": (lambda harness, lease: lease.fail("error", "no"), State.RETRYING),
    "fail for good": (lambda harness, lease: lease.fail(permanent=True), State.DEAD_LETTERED),
    "park": (lambda harness, lease: lease.park(5), State.RETRYING),
    "release": (lambda harness, lease: lease.release(), State.READY),
    "complete": (lambda harness, lease: lease.complete(), State.COMPLETED),
    "renew": (lambda harness, lease: lease.renew(), State.RUNNING),
    "cancel": (lambda harness, lease: harness.queue.cancel(lease.id), State.CANCELLED),
}


@pytest.mark.parametrize("move", MOVES)
async def test_every_move_works_on_an_unreadable_task(harness: Harness, move: str) -> None:
    lease = await broken(harness)
    make, state = MOVES[move]

    await make(harness, lease)

    task = await harness.task(lease.id)
    assert (task.state, task.type, task.unreadable) == (state, "code", "definition: is not UTF-8")


async def test_a_sweep_ends_an_unreadable_task_with_the_others(harness: Harness) -> None:
    handles = await harness.queue.enqueue_many([harness.queue.call("code")] * 3)
    await break_definition(harness, handles[1].id)

    found = [task.id async for task in harness.queue.find(type="code")]
    swept = await harness.queue.purge(states=None, type="code")

    assert sorted(found) == sorted(handle.id for handle in handles)
    assert (swept.found, swept.done) == (3, 3)


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_can_show_an_unreadable_task(harness: Harness, form: Form) -> None:
    lease = await broken(harness)

    assert await (await harness.queue.handle(lease.id)).view(form)


async def test_an_edit_keeps_a_field_of_a_newer_release(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", {"a": 1})
    stored = b'{"t":"code","p":{"a":1},"region":"eu"}'
    await harness.client.hset(harness.keys.task(handle.id.ulid), "def0", stored)

    before = await harness.task(handle.id)
    await harness.queue.edit(handle.id, {"a": 2})

    after = await harness.task(handle.id)
    assert [(task.payload, task.unreadable) for task in (before, after)] == [
        ({"a": 1}, None), ({"a": 2}, None),
    ]  # fmt: skip
    assert await harness.queue._internals.runtime.reader.definition(handle.id.ulid) == (
        b'{"t":"code","p":{"a":2},"region":"eu"}'
    )


async def test_an_invalid_extra_of_a_grant_is_ignored(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", {"a": 1})
    task = harness.keys.task(handle.id.ulid)
    await harness.client.hset(
        task, mapping={"flags": "mf", "more": b"\xff", "created": "1" + "0" * 17}
    )
    (lease,) = await harness.queue.claim(worker="w1", types=["code"])

    assert (lease.task.payload, lease.task.life) == ({"a": 1}, 1)
    assert lease.task.damaged == ("more", "created")
