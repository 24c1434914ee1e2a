"""Checks of documents: invalid texts, wrong forms, fields that the queue sets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import Queue
from rqueue.errors import ConfigError, InvalidTask
from tests.harness import Harness

A = {"type": "code", "maxRetries": 3}
B = {"type": "code"}
C = {"task_type": "code"}
# The path of a payload of the maximum depth, with what surrounds it in the forms.
DEEP = "document.payload" + "[0]" * 71

TEXTS: dict[str, tuple[str | bytes, str, str]] = {
    "NaN": ('{"type":"code","payload":NaN}', "document", "contains NaN"),
    "Infinity": ('{"type":"code","payload":[-Infinity]}', "document", "contains -Infinity"),
    "1e400": ('{"type":"code","payload":1e400}', "document.payload", "NaN or infinite"),
    "1e400 in YAML": ("type: code\npayload: [1.0e+400]", "payload[0]", "NaN or infinite"),
    "NaN in YAML": ("type: code\npayload: .nan", "payload", "NaN or infinite"),
    "5,000 digits": ('{"payload":' + "9" * 5000 + "}", "document", "beyond 64 bits"),
    "300,000 digits": ('{"payload":' + "9" * 300_000 + "}", "document", "beyond 64 bits"),
    "5,000 digits in YAML": ("payload: " + "9" * 5000, "document", ""),
    "250 deep": ('{"payload":' + "[" * 250 + "]" * 250 + "}", DEEP, "too deeply"),
    "900 deep": ('{"payload":' + "[" * 900 + "]" * 900 + "}", DEEP, "too deeply"),
    "100,000 deep": ('{"p":' + "[" * 100_000 + "]" * 100_000 + "}", "document", "too deeply"),
    "250 deep in YAML": ("payload: " + "[" * 250 + "]" * 250, "document", "too deeply"),
    "65 deep": (
        '{"type":"code","payload":' + "[" * 65 + "]" * 65 + "}",
        "payload" + "[0]" * 64,
        "too deeply",
    ),
    "lone surrogate": (r'{"type":"code","payload":"\ud800"}', "document.payload", "surrogate"),
    "raw surrogate": ('{"type":"code","payload":"\ud800"}', "document", "is not UTF-8"),
    "NUL": (r'{"type":"code","payload":"\u0000"}', "document.payload", "NUL"),
    "raw NUL": ('{"type":"code","payload":"\0"}', "document", "is not JSON"),
    "BOM": (b'\xef\xbb\xbf{"type":"code"}', "document", "byte order mark"),
    "BOM in text": ('\ufeff{"type":"code"}', "document", "byte order mark"),
    "BOM before YAML": (b"\xef\xbb\xbftype: code", "document", "byte order mark"),
    "UTF-16": ('{"type":"code"}'.encode("utf-16"), "document", "is not UTF-8"),
    "Latin-1": ('{"type":"ä"}'.encode("latin-1"), "document", "is not UTF-8"),
    "a key twice": ('{"type":"code","type":"b"}', "document", "same key twice"),
    "a key twice within": ('{"payload":{"a":1,"a":2}}', "document", "same key twice"),
    "a key twice in YAML": ("type: code\ntype: b", "document", "same key twice"),
    "YAML aliases": ("type: code\npayload: [&a 1, *a]", "document", "aliases"),
    "a YAML object": ("type: !!python/object:os.system {}", "document", "neither JSON nor YAML"),
    "too large": ('{"payload":"' + "x" * 1_048_576 + '"}', "document", "more than 1048576 bytes"),
    "300 megabytes": (b'"' + b"x" * 300_000_000, "document", "more than 1048576 bytes"),
    "nothing": ("", "document", "not a mapping"),
    "a word": ("code", "document", "not a mapping"),
    "a list": ("[1]", "document", "not a mapping"),
    "keys that are no text": ("1: 2", "document", "not a mapping"),
    "half a JSON": ('{"type":', "document", "is not JSON"),
}


@pytest.mark.parametrize("bad", TEXTS)
async def test_an_invalid_document_is_refused(alone: Harness, bad: str) -> None:
    text, field, rule = TEXTS[bad]

    with pytest.raises(InvalidTask) as caught:
        await alone.queue.enqueue_document(text)

    assert caught.value.field == field
    assert rule in caught.value.rule
    assert await alone.dump() == {}


FORMS: dict[str, tuple[Any, str, str]] = {
    "A that has run": ({**A, "retries": 1}, "retries", "set by the queue"),
    "A that is claimed": ({**A, "claimedBy": "w1"}, "claimedBy", "set by the queue"),
    "A that is done": ({**A, "status": "completed"}, "status", "set by the queue"),
    "A with a result": ({**A, "result": {"status": "ok"}}, "result.status", "set by the queue"),
    "A with B's field": ({**A, "max_attempts": 3}, "max_attempts", "not a field of this form"),
    "A with 0": ({**A, "priority": 0}, "priority", "scale 1-10"),
    "A with 11": ({**A, "priority": 11}, "priority", "scale 1-10"),
    "A with a bad delay": ({**A, "backoffSeconds": -1}, "backoffSeconds.initial_delay_sec", "0"),
    "A with a bad type": ({**A, "type": "a b"}, "type", "is a name"),
    "B that runs": ({"task": {**B, "status": "running"}}, "task.status", "set by the queue"),
    "B that is claimed": (
        {"task": {**B, "claim": {"agent_id": "w1"}}},
        "task.claim.agent_id",
        "set by the queue",
    ),
    "B that was tried": ({"task": {**B, "attempts": 1}}, "task.attempts", "set by the queue"),
    "B that is blocked": (
        {"task": {**B, "blocked_by": ["x"]}},
        "task.blocked_by",
        "set by the queue",
    ),
    "B with tokens": ({"task": {**B, "tokens_used": {"input": 1}}}, "task.tokens_used.input", ""),
    "B with an unknown field": ({"task": {**B, "x": 1}}, "task.x", "not a field of this form"),
    "B with an unknown field beside": ({"task": B, "x": 1}, "x", "not a field of this form"),
    "B with an unknown limit": (
        {"task": {**B, "spec": {"constraints": {"x": 1}}}},
        "task.spec.constraints.x",
        "not a field of this form",
    ),
    "B that is a list": ({"task": [1]}, "task", "is a mapping"),
    "B with 101": ({"task": {**B, "priority": 101}}, "priority", "to 100"),
    "C that is leased": ({**C, "lease_owner": "w1"}, "lease_owner", "set by the queue"),
    "C that is done": ({**C, "status": "completed"}, "status", "set by the queue"),
    "C that was tried": ({**C, "attempts": 2}, "attempts", "set by the queue"),
    "C with an error": ({**C, "error_info": {"a": 1}}, "error_info", "set by the queue"),
    "C with 4": ({**C, "priority": 4}, "priority", "scale 0-3"),
    "C with an unknown field": ({**C, "type": "x"}, "type", "not a field of this form"),
    "no type": ({"payload": {}}, "type", "is required"),
    "keys that are no text": ({"type": "code", 1: 2}, "[1]", "keys"),
}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("bad", FORMS)
async def test_a_document_that_does_not_fit_its_form_is_refused(
    alone: Harness, bad: str, many: bool
) -> None:
    document, field, rule = FORMS[bad]

    queue = alone.queue
    many_calls = [{"type": "code"}, document]

    with pytest.raises(InvalidTask) as caught:
        await (queue.enqueue_many(many_calls) if many else queue.enqueue_document(document))

    assert caught.value.field == field
    assert rule in caught.value.rule
    assert await alone.dump() == {}


async def test_an_unknown_form_is_refused(alone: Harness) -> None:
    with pytest.raises(InvalidTask) as caught:
        await alone.queue.enqueue_document({"type": "code"}, form="D")  # type: ignore[arg-type]

    assert (caught.value.field, caught.value.rule) == ("form", "is one of native, A, B, C")


@pytest.mark.parametrize("call", [5, None, ("code", {}), [1]])
async def test_a_value_that_is_neither_call_nor_mapping_is_refused(
    alone: Harness, call: Any
) -> None:
    with pytest.raises(InvalidTask) as caught:
        await alone.queue.enqueue_many([{"type": "code"}, call])

    assert caught.value.field == "document"
    assert await alone.dump() == {}


async def test_a_payload_of_the_largest_size_is_accepted(alone: Harness) -> None:
    text = "x" * (256 * 1024 - 2)

    handle = await alone.queue.enqueue_document(json.dumps({"type": "code", "payload": text}))

    assert (await handle.task()).payload == text


@pytest.mark.parametrize("name", ["", "a b", "}{", "a}", "*", "a\n", "ä", "a" * 129, "a:b"])
def test_a_bad_queue_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Queue(name, url="redis://nowhere")

    assert caught.value.setting == "name"


@pytest.mark.parametrize("worker", ["", "a b", "a\n", "{w}", "*"])
async def test_a_bad_worker_name_is_refused(alone: Harness, worker: str) -> None:
    with pytest.raises(InvalidTask) as caught:
        await alone.queue.claim(worker=worker)

    assert caught.value.field == "worker"
    assert await alone.dump() == {}


@pytest.mark.parametrize("n", [0, -1, 501])
async def test_a_claim_of_an_invalid_number_of_tasks_is_refused(alone: Harness, n: int) -> None:
    with pytest.raises(InvalidTask) as caught:
        await alone.queue.claim(worker="w1", n=n)

    assert caught.value.field == "n"
    assert await alone.dump() == {}
