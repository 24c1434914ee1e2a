"""Checks of the arguments beside a task: errors are those of rqueue."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from rqueue import State
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidTask
from tests.harness import Harness

SURROGATE = "\ud800"
# Any: what the types forbid is called here.
Bad = Callable[[Any, str], Awaitable[object]]

OPERATOR: dict[str, tuple[Bad, str, str]] = {
    "cancel, surrogate": (lambda q, at: q.cancel(at, SURROGATE), "reason", "lone surrogate"),
    "cancel, NUL": (lambda q, at: q.cancel(at, "a\0b"), "reason", "NUL"),
    "cancel, long": (lambda q, at: q.cancel(at, "x" * 1001), "reason", "1000 are allowed"),
    "cancel, no text": (lambda q, at: q.cancel(at, 5), "reason", "is text"),
    "cancel, dependents": (
        lambda q, at: q.cancel(at, dependents="bogus"),
        "dependents",
        "cascade, unblock",
    ),
    "discard, surrogate": (lambda q, at: q.dead.discard(at, SURROGATE), "reason", "lone surrogate"),
    "discard, long": (lambda q, at: q.dead.discard(at, "x" * 1001), "reason", "1000 are allowed"),
    "sweep, reason": (
        lambda q, _: q.purge(states=None, reason=SURROGATE),
        "reason",
        "lone surrogate",
    ),
    "sweep, state": (lambda q, _: q.purge(states=["bogus"]), "states", "READY"),
    "sweep, tag": (lambda q, _: q.purge(states=None, tag=SURROGATE), "tag", "is a label"),
    "purge, state": (lambda q, _: q.purge(states=["DEAD"]), "states", "DEAD_LETTERED"),
    "purge, no zone": (lambda q, _: q.purge(before=datetime(2026, 1, 1)), "before", "time zone"),
    "pause, type": (lambda q, _: q.pause(type=SURROGATE), "type", "is a name"),
    "pause, lane": (lambda q, _: q.pause(lane="one"), "lane", "number"),
    "pause, both": (lambda q, _: q.pause(type="code", lane=1), "lane", "one of them"),
    "resume, type": (lambda q, _: q.resume(type=SURROGATE), "type", "is a name"),
    "reschedule, text": (lambda q, at: q.reschedule(at, delay="5"), "delay", "number of seconds"),
    "reschedule, no zone": (
        lambda q, at: q.reschedule(at, at="2030-01-01T00:00:00"),
        "at",
        "no time zone",
    ),
    "reschedule, words": (lambda q, at: q.reschedule(at, at="tomorrow"), "at", "ISO 8601"),
    "retry, text": (lambda q, at: q.dead.retry(at, delay="5"), "delay", "number of seconds"),
}

WORKER: dict[str, tuple[dict[str, Any], str, str]] = {
    "worker that is a number": ({"worker": 5}, "worker", "is a label"),
    "worker with a space": ({"worker": "a b"}, "worker", "is a label"),
    "half a task": ({"n": 1.5}, "n", "whole number"),
    "yes": ({"n": True}, "n", "whole number"),
    "none": ({"n": 0}, "n", "1 to 500"),
    "501": ({"n": 501}, "n", "1 to 500"),
    "wait in words": ({"wait": "x"}, "wait", "number of seconds"),
    "wait NaN": ({"wait": math.nan}, "wait", "0 seconds to a year"),
    "wait for ever": ({"wait": math.inf}, "wait", "0 seconds to a year"),
    "wait below 0": ({"wait": -1}, "wait", "0 seconds to a year"),
    "types in one text": ({"types": "code"}, "types", "list of names"),
    "type that is no name": ({"types": [SURROGATE]}, "types", "is a name"),
    "capabilities in one text": ({"capabilities": "git"}, "capabilities", "list of names"),
}


@pytest.mark.parametrize("bad", OPERATOR)
async def test_a_bad_call_is_refused_and_changes_nothing(alone: Harness, bad: str) -> None:
    call, field, rule = OPERATOR[bad]
    lease = await alone.claimed()
    before = await alone.dump()

    with pytest.raises(InvalidTask) as caught:
        await call(alone.queue, lease.id)

    assert caught.value.field == field
    assert rule in caught.value.rule
    assert await alone.dump() == before


@pytest.mark.parametrize("bad", WORKER)
async def test_a_bad_claim_is_refused_and_changes_nothing(alone: Harness, bad: str) -> None:
    options, field, rule = WORKER[bad]
    await alone.queue.enqueue("code")
    before = await alone.dump()

    with pytest.raises(InvalidTask) as caught:
        await alone.queue.claim(**{"worker": "w1", **options})

    assert caught.value.field == field
    assert rule in caught.value.rule
    assert await alone.dump() == before


async def test_the_longest_reason_is_kept_unchanged(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code")
    reason = "ä" * 999 + "\n"

    assert await harness.queue.cancel(handle.id, reason) is True

    assert (await handle.task()).cancel_reason == reason


async def test_a_time_may_be_written_as_text(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code", delay=60)
    at = (SYSTEM.now() + timedelta(days=1)).replace(microsecond=0)

    await harness.queue.reschedule(handle.id, at=at.isoformat().replace("+00:00", "Z"))

    assert (await handle.task()).available_at == at
    assert [t.id async for t in harness.queue.find(before="2100-01-01T00:00:00Z")] == [handle.id]


async def test_a_single_state_may_be_given(harness: Harness) -> None:
    handle = await harness.queue.enqueue("code")

    found = [task.id async for task in harness.queue.find(states=State.READY)]

    assert found == [handle.id]
