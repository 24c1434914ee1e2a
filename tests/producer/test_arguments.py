"""Checks of arguments: bad input is refused with the field and the rule, and writes no key."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from rqueue import Queue
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidGraph, InvalidTask
from rqueue.task.ids import new_task_id
from tests.harness import Harness

YEAR_SEC = 365 * 24 * 3600
GOOD = {"type": "code", "payload": {"good": True}}


def nested(depth: int) -> Any:
    """Lists within lists, to a depth."""
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    return value


class TextSubclass(str):
    __slots__ = ()


PAYLOADS = {
    "not a number": ({"a": math.nan}, "payload.a", "NaN or infinite"),
    "infinity": ([1.0, math.inf], "payload[1]", "NaN or infinite"),
    "minus infinity": (-math.inf, "payload", "NaN or infinite"),
    "1e400": (json.loads("[1e400]"), "payload[0]", "NaN or infinite"),
    "2**63": ({"n": 2**63}, "payload.n", "beyond 64 bits"),
    "-2**63-1": ([-(2**63) - 1], "payload[0]", "beyond 64 bits"),
    "5,000 digits": ({"n": 10**4999}, "payload.n", "beyond 64 bits"),
    "300,000 digits": ({"n": 10**299_999}, "payload.n", "beyond 64 bits"),
    "65 deep": (nested(65), "payload" + "[0]" * 64, "too deeply"),
    "250 deep": (nested(250), "payload", "too deeply"),
    "900 deep": (nested(900), "payload", "too deeply"),
    "100,000 deep": (nested(100_000), "payload", "too deeply"),
    "lone surrogate": ({"a": "x\ud800"}, "payload.a", "lone surrogate"),
    "lone surrogate in a key": ({"\udfff": 1}, "payload", "lone surrogate"),
    "lone surrogate in a subclass": ({"a": TextSubclass("\ud800")}, "payload.a", "lone surrogate"),
    "NUL": ({"a": ["x\0y"]}, "payload.a[0]", "NUL"),
    "NUL in a key": ({"a": {"x\0y": 1}}, "payload.a", "NUL"),
    "a byte too much": ("x" * (256 * 1024 - 1), "payload", "262144 are allowed"),
    "16 megabytes": ("x" * 16_000_000, "payload", "262144 are allowed"),
    "bytes": ({"a": b"raw"}, "payload.a", "bytes"),
    "a set": ({"a": {1}}, "payload.a", "set"),
    "an object": ([object()], "payload[0]", "object"),
    "keys that are no text": ({1: 2}, "payload", "keys are text"),
}

Entry = Callable[[Queue, str, Any], Awaitable[object]]

ENTRIES: dict[str, Entry] = {
    "enqueue": lambda queue, _, bad: queue.enqueue("code", bad),
    "enqueue with options": lambda queue, _, bad: queue.enqueue("code", bad, tags=["a"], delay=1),
    "enqueue by content": lambda queue, _, bad: queue.enqueue("code", bad, dedupe="content"),
    "many calls": lambda queue, _, bad: queue.enqueue_many([GOOD, queue.call("code", bad), GOOD]),
    "many dicts": lambda queue, _, bad: queue.enqueue_many(
        [GOOD, {"type": "code", "payload": bad}, GOOD]
    ),
    "document": lambda queue, _, bad: queue.enqueue_document({"type": "code", "payload": bad}),
    "document A": lambda queue, _, bad: queue.enqueue_document(
        {"type": "code", "payload": bad, "maxRetries": 2}
    ),
    "document C": lambda queue, _, bad: queue.enqueue_document(
        {"task_type": "code", "payload": bad}
    ),
    "edit": lambda queue, task, bad: queue.edit(task, bad),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("bad", PAYLOADS)
async def test_a_bad_payload_is_refused_and_leaves_nothing(
    alone: Harness, bad: str, entry: str
) -> None:
    payload, field, rule = PAYLOADS[bad]
    there = await alone.queue.enqueue("code", {"n": 1})
    before = await alone.dump()

    with pytest.raises(InvalidTask) as caught:
        await ENTRIES[entry](alone.queue, there.id, payload)

    assert caught.value.field.startswith(field)
    assert rule in caught.value.rule
    assert len(str(caught.value)) < 1000
    assert await alone.dump() == before


OPTIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "empty type": ({"type": ""}, "type", "is a name"),
    "type with a brace": ({"type": "}{"}, "type", "is a name"),
    "type with a star": ({"type": "*"}, "type", "is a name"),
    "type with a line": ({"type": "a\nb"}, "type", "is a name"),
    "type with a last line": ({"type": "a\n"}, "type", "is a name"),
    "type with other letters": ({"type": "ä"}, "type", "is a name"),
    "type with a colon": ({"type": "a:b"}, "type", "is a name"),
    "type too long": ({"type": "a" * 129}, "type", "is a name"),
    "type that is a number": ({"type": 5}, "type", ""),
    "type that is bytes": ({"type": b"code"}, "type", ""),
    "type that is a list": ({"type": ["code"]}, "type", ""),
    "no type": ({"type": None}, "type", ""),
    "agent": ({"agent_name": "a b"}, "agent_name", "is a name"),
    "capability": ({"required_capabilities": ["git", "a{b"]}, "required_capabilities[1]", "name"),
    "tag": ({"tags": ["ok", "a b"]}, "tags[1]", "is a label"),
    "tag with a brace": ({"tags": ["{x}"]}, "tags[0]", "is a label"),
    "65 tags": ({"tags": [f"t{n}" for n in range(65)]}, "tags", "64"),
    "creator": ({"created_by": "unknown"}, "created_by", "kind:name"),
    "limit key": ({"limit_key": "a*"}, "limit_key", "is a label"),
    "key with a line": ({"idempotency_key": "a\nb"}, "idempotency_key", "control character"),
    "key too long": ({"idempotency_key": "a" * 513}, "idempotency_key", "512"),
    "empty key": ({"idempotency_key": ""}, "idempotency_key", "1"),
    "own id with NUL": ({"external_id": "a\0"}, "external_id", "control character"),
    "title with an escape": ({"title": "\x1b[31m"}, "title", "control character"),
    "title with a surrogate": ({"title": "\ud800"}, "title", ""),
    "prompt with NUL": ({"prompt": "a\0"}, "prompt", "NUL"),
    "unknown field": ({"prio": 5}, "prio", "is not a known field"),
    "state": ({"state": "COMPLETED"}, "state", "is not a known field"),
    "priority above 100": ({"priority": 101}, "priority", "0 (most urgent) to 100"),
    "priority below 0": ({"priority": -1}, "priority", "0 (most urgent) to 100"),
    "priority NaN": ({"priority": math.nan}, "priority", "0 (most urgent) to 100"),
    "priority in words": ({"priority": "high"}, "priority", "is a number"),
    "priority yes": ({"priority": True}, "priority", "is a number"),
    "11 of 1-10": ({"priority": 11, "scale": "1-10"}, "priority", "scale 1-10"),
    "0 of 1-10": ({"priority": 0, "scale": "1-10"}, "priority", "scale 1-10"),
    "4 of 0-3": ({"priority": 4, "scale": "0-3"}, "priority", "scale 0-3"),
    "1.5 of 0-3": ({"priority": 1.5, "scale": "0-3"}, "priority", "scale 0-3"),
    "unknown scale": ({"priority": 1, "scale": "1-5"}, "scale", "is one of native"),
    "unknown scale alone": ({"scale": "1-5"}, "scale", "is one of native"),
    "ageing": ({"priority_boost_per_minute": -1}, "priority_boost_per_minute", "0"),
    "ageing NaN": ({"priority_boost_per_minute": math.nan}, "priority_boost_per_minute", ""),
    "delay over a year": ({"delay": YEAR_SEC + 1}, "delay_sec", "31536000"),
    "delay below 0": ({"delay_sec": -1}, "delay_sec", "0"),
    "delay infinite": ({"delay_sec": math.inf}, "delay_sec", ""),
    "delay twice": ({"delay": 1, "delay_sec": 1}, "delay", "another word"),
    "delay and at": ({"delay": 1, "at": "2026-02-08T09:00:00Z"}, "at", "delay_sec"),
    "at over a year": ({"at": SYSTEM.now() + timedelta(days=366)}, "at", "more than a year"),
    "at without a zone": ({"at": "2026-02-08T09:00:00"}, "at", "no time zone"),
    "at in words": ({"at": "tomorrow"}, "at", "ISO 8601"),
    "deadline as a number": ({"deadline": 5}, "deadline", "is an instant"),
    "no attempts": ({"max_attempts": 0}, "max_attempts", "1"),
    "1,001 attempts": ({"max_attempts": 1001}, "max_attempts", "1000"),
    "timeout of nothing": ({"timeout": 0}, "timeout_sec", "0"),
    "retry policy": ({"retry": {"strategy": "wild"}}, "retry.strategy", "exponential"),
    "unknown retry field": ({"retry": {"x": 1}}, "retry.x", "is not a known field"),
    "if_exists": ({"if_exists": "fail"}, "if_exists", "keep"),
    "negative cost": ({"max_cost_usd": -0.5}, "max_cost_usd", "0"),
    "waits for itself": ({"external_id": "me", "depends_on": ["me"]}, "depends_on", "itself"),
    "not a parent id": ({"parent_id": "x"}, "parent_id", ""),
    "unknown validator": ({"validation": ["regex", "x"]}, "validation", "names 'x'"),
    "pattern": (
        {"validation": "regex", "validation_schema": "("},
        "validation_schema",
        "not a pattern",
    ),
    "schema": (
        {"validation": "json-schema", "validation_schema": {"type": "nonsense"}},
        "validation_schema",
        "is no JSON Schema",
    ),
    "schema from elsewhere": (
        {"validation": "json-schema", "validation_schema": {"$ref": "http://127.0.0.1:1/"}},
        "validation_schema",
        "is not fetched",
    ),
    "schema with NaN": ({"validation_schema": [math.nan]}, "validation_schema[0]", "NaN"),
}

CALLS: dict[str, Callable[[Queue, dict[str, Any]], Awaitable[object]]] = {
    "enqueue": lambda queue, fields: queue.enqueue(**fields),
    "many calls": lambda queue, fields: queue.enqueue_many([GOOD, queue.call(**fields), GOOD]),
    "many dicts": lambda queue, fields: queue.enqueue_many([GOOD, fields, GOOD]),
    "document": lambda queue, fields: queue.enqueue_document(fields),
}


@pytest.mark.parametrize("entry", CALLS)
@pytest.mark.parametrize("bad", OPTIONS)
async def test_a_bad_field_is_refused_and_leaves_nothing(
    alone: Harness, bad: str, entry: str
) -> None:
    options, field, rule = OPTIONS[bad]

    with pytest.raises(InvalidTask) as caught:
        await CALLS[entry](alone.queue, {"type": "code", "payload": {}, **options})

    assert caught.value.field == field
    assert rule in caught.value.rule
    assert await alone.dump() == {}


@pytest.mark.parametrize("options", [{}, {"tags": ["a"]}])
async def test_the_setting_of_the_queue_limits_the_payload(
    small: Harness, options: dict[str, Any]
) -> None:
    bare = await small.queue.enqueue("code", "x" * 1022)
    with_options = await small.queue.enqueue("code", "x" * 1022, tags=["a"])

    with pytest.raises(InvalidTask, match="1024 are allowed"):
        await small.queue.enqueue("code", "x" * 1023, **options)

    assert (await small.task(bare.id)).payload == (await small.task(with_options.id)).payload


async def test_a_task_cannot_depend_on_a_task_that_does_not_exist(alone: Harness) -> None:
    missing = new_task_id()

    with pytest.raises(InvalidTask) as caught:
        await alone.queue.enqueue("code", parent_id="x" * 26)
    assert caught.value.field == "parent_id"
    for parent in (missing, str(missing.uuid), "never-seen"):
        with pytest.raises(InvalidGraph) as graph:
            await alone.queue.enqueue("code", depends_on=[parent])
        assert graph.value.path[-1] in (missing, "never-seen")

    assert await alone.dump() == {}
