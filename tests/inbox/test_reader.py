"""The inbox service: bad tasks are rejected one by one, good ones are submitted once."""

from __future__ import annotations

import asyncio
import json

import pytest

from rqueue import Queue, State
from rqueue.inbox import reader as service
from rqueue.inbox.reader import Inbox, InboxDone
from rqueue.inbox.store import KEPT_BYTES
from rqueue.runtime import assemble
from tests.harness import Harness
from tests.inbox_entries import add, an_inbox, held, left, payloads, refused, send

GOOD = {"type": "code"}


@pytest.fixture
def inbox(harness: Harness) -> Inbox:
    return an_inbox(harness)


async def test_an_empty_inbox_leaves_no_trace(harness: Harness, inbox: Inbox) -> None:
    assert await inbox.tick() == InboxDone()
    assert await harness.dump() == {}


TEXTS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "document: is neither a JSON object nor an array of them"),
    "half a JSON": (b'{"type":', "document: is not JSON"),
    "YAML": (b"type: code", "document: is neither a JSON object nor an array of them"),
    "a number": (b"5", "document: is neither a JSON object nor an array of them"),
    "a broken array": (b'[{"type":"code"},', "document: is neither a JSON object nor an array"),
    "not UTF-8": (b'{"type":"\xff"}', "document: is not UTF-8"),
    "a BOM": (b'\xef\xbb\xbf{"type":"code"}', "document: is neither a JSON object"),
    "NaN": (b'{"type":"code","payload":NaN}', "document: contains NaN"),
    "a key twice": (b'{"type":"a","type":"b"}', "document: has an object with the same key twice"),
    "no type": (b'{"payload":{}}', "type: is required"),
    "a type of no text": (b'{"type":5}', "type: should be a valid string"),
    "a type that is no name": (b'{"type":"a b"}', "type: is a name of letters"),
    "an unknown field": (b'{"type":"code","dealy":5}', "dealy: is not a known field"),
    "a text for a number": (b'{"type":"code","max_attempts":"3"}', "max_attempts: should be a"),
    "a priority off its scale": (b'{"task_type":"code","priority":4}', "priority: "),
    "one that has run": (b'{"task":{"type":"code","attempts":1}}', "task.attempts: is set by"),
    "a parent that is none": (
        b'{"type":"code","depends_on":["x"]}',
        "depends on a task that does not exist",
    ),
    "a large payload": (
        b'{"type":"code","payload":"' + b"x" * 262_143 + b'"}',
        "payload: has 262145 bytes of JSON; 262144 are allowed",
    ),
    "a large text": (b'{"a":"' + b"x" * 1_048_576 + b'"}', "document: has more than 1048576 bytes"),
    "a large array": (b"[" + b" " * 1_048_576 + b"]", "document: has more than 1048576 bytes"),
}


@pytest.mark.parametrize("bad", TEXTS)
async def test_only_the_bad_task_is_rejected(harness: Harness, inbox: Inbox, bad: str) -> None:
    text, reason = TEXTS[bad]
    good = json.dumps(GOOD).encode()
    entry = await add(harness, "task", good, "task", text, "task", good)
    await send(harness, GOOD)

    assert await inbox.tick() == InboxDone(taken=3, rejected=1)

    ((_, row),) = await harness.client.xrange(harness.keys.rejected())
    assert row[b"reason"].decode().startswith(reason)
    assert (row[b"entry"], row[b"at"], row[b"form"]) == (entry.encode(), b"1", b"")
    assert (row[b"task"], row[b"cut"]) == (text[:KEPT_BYTES], b"%d" % (len(text) > KEPT_BYTES))
    assert (await harness.queue.counts())[State.READY] == 3
    assert (await left(harness), await held(harness)) == (0, {})


async def test_only_the_bad_item_of_an_array_is_rejected(harness: Harness, inbox: Inbox) -> None:
    await add(harness, "task", b'[{"type":"code"}, {"type":"\xff"}, [], {"type":"code"}]')

    assert await inbox.tick() == InboxDone(taken=2, rejected=2)

    assert await refused(harness) == [
        ("1", "document: is not UTF-8"),
        ("2", "document: is neither a JSON object nor an array of them"),
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("tsk", "{}"), "entry: has a field 'tsk'; it may have task and form, or dag"),
        (("task", '{"type":"code"}', "delay", "5"), "entry: has a field 'delay'; it may have"),
        (("form", "A"), "entry: contains no task"),
        (("task", "[]"), "entry: contains no task"),
        (("form", "D", "task", '{"type":"code"}'), "form: is one of native, A, B, C"),
        (("task", "[" + "0," * 1000 + "0]"), "entry: contains 1001 tasks; 1000 are allowed"),
    ],
)
async def test_a_malformed_entry_is_rejected_whole(
    harness: Harness, inbox: Inbox, words: tuple[str, ...], reason: str
) -> None:
    await add(harness, *words)
    await send(harness, GOOD)

    assert await inbox.tick() == InboxDone(taken=1, rejected=1)

    ((_, row),) = await harness.client.xrange(harness.keys.rejected())
    assert row[b"reason"].decode().startswith(reason)
    assert (row[b"at"], row[b"task"]) == (b"", " ".join(words).encode())


async def test_the_rules_of_the_queue_apply(harness: Harness) -> None:
    settings = harness.queue.settings.model_copy(update={"max_payload_bytes": 1024, "max_lanes": 1})
    queue = Queue("sales", runtime=assemble(settings, harness.queue._internals.runtime.connection))
    await send(harness, GOOD, {"type": "code", "payload": "x" * 1024}, {"type": "other"})

    assert await an_inbox(harness, queue=queue).tick() == InboxDone(taken=1, rejected=2)

    (_, large), (_, other) = await refused(harness)
    assert large == "payload: has 1026 bytes of JSON; 1024 are allowed"
    assert other.startswith("the queue already has 1 lanes; ")


async def test_a_backlog_is_processed_in_order_and_in_bounded_steps(
    harness: Harness, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST", 300)
    monkeypatch.setattr(service, "PORTION", 50)
    for n in range(0, 450, 3):
        await send(harness, [{"type": "code", "payload": n + at} for at in range(3)])

    first = await inbox.tick()
    assert 300 <= first.taken < 350
    assert await inbox.wait(5) is True
    assert await inbox.tick() == InboxDone(taken=450 - first.taken)

    assert await payloads(harness) == list(range(450))


async def test_many_refusals_are_processed_in_bounded_steps(
    harness: Harness, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST", 2500)
    for _ in range(4):
        await add(harness, "task", "[" + "0," * 999 + "0]")

    assert await inbox.tick() == InboxDone(rejected=3000)
    assert await inbox.tick() == InboxDone(rejected=1000)
    assert await inbox.wait(0.001) is False


async def test_equal_tasks_are_claimed_in_the_order_they_were_written(
    harness: Harness, inbox: Inbox
) -> None:
    await send(harness, *({"type": "code", "payload": n} for n in range(5)))
    await send(harness, [{"type": "code", "payload": n} for n in range(5, 20)])
    await inbox.tick()

    leases = await harness.queue.claim(worker="w1", n=20)

    assert [lease.task.payload for lease in leases] == list(range(20))


async def test_a_wait_is_ended_by_an_entry_and_loses_none(harness: Harness, inbox: Inbox) -> None:
    await send(harness, GOOD)
    await inbox.tick()
    assert await inbox.wait(0.001) is False
    waiting = asyncio.create_task(inbox.wait(5))
    dropped = asyncio.create_task(inbox.wait(5))
    await asyncio.sleep(0)
    dropped.cancel()

    await send(harness, GOOD)

    assert await waiting is True
    assert await inbox.tick() == InboxDone(taken=1)
