"""Poisoned rows: each is kept as bytes or in quarantine, and holds back no other (G17)."""

from __future__ import annotations

import json
import random
from hashlib import sha256
from typing import Any

import pytest

from rqueue import TaskId
from rqueue.errors import StoreUnavailable
from rqueue.task.ids import new_task_id
from tests.archive.library import Library

# No index of PostgreSQL holds so much that cannot be made shorter.
NOISE = b"".join(sha256(b"%d" % number).hexdigest().encode() for number in range(150))
HUGE = b'{"t":"code","p":1e200000}'
DEEP = b'{"t":"code","p":' + b"[" * 5000 + b"]" * 5000 + b"}"
# What no door lets in: a store may hold it all the same.
BAD = {
    "nan": b'{"t":"code","p":NaN}',
    "infinity": b'{"t":"code","p":-Infinity}',
    "beyond any number": HUGE,
    "deep": DEEP,
    "lone surrogate": b'{"t":"code","p":"\\ud800"}',
    "NUL": b'{"t":"code","p":"\\u0000"}',
    "bytes": b"\xff\xfe\0",
    "BOM": b'\xef\xbb\xbf{"t":"code"}',
    "empty": b"",
    "list": b"[1,2]",
    "odd type": b'{"t":{"a":1},"tags":"x","priority":"high","parent_id":7}',
    "long type": b'{"t":"' + b"\xc3\xa4" * 5000 + b'"}',
    "large": b'{"t":"code","p":"' + b"x" * 5_000_000 + b'"}',
    "number of 5,000 digits": b'{"t":"code","p":' + b"7" * 5_000 + b"}",
    "number of 300,000 digits": b'{"t":"code","p":' + b"7" * 300_000 + b"}",
    "priority of 400 digits": b'{"t":"code","priority":' + b"7" * 400 + b"}",
    "depth 250": b'{"t":"code","p":' + b"[" * 250 + b"]" * 250 + b"}",
    "depth 100,000": b'{"t":"code","p":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "UTF-16": '{"t":"code"}'.encode("utf-16"),
    "key twice": b'{"t":"code","t":"test","p":1}',
    "long tag": b'{"t":"code","tags":["' + random.Random(1).randbytes(4500).hex().encode() + b'"]}',
    "wide tag": b'{"t":"code","tags":["'
    + "".join(map(chr, range(0x10000, 0x10C00))).encode()
    + b'"]}',
    "broken tag": b'{"t":"code","tags":["\\ud800","\\u0000","\\n\\t"]}',
    "odd tags": b'{"t":"code","p":{},"tags":["a\\"}","{","\\\\",null,7]}',
}


async def plant(
    shelf: Library, definition: bytes, result: bytes = b"null", **changes: str | bytes
) -> TaskId:
    """A completed task with these bytes, as only a broken producer leaves them."""
    harness, task = shelf.harness, new_task_id()
    hash = {
        "state": "COMPLETED", "lane": "1", "token": "1:bits", "score": "1", "entry": "5-0",
        "holder": "1794962239613 1794962239616 w1", "finished": "1794962239618",
    }  # fmt: skip
    await harness.client.hset(harness.keys.task(task.ulid), mapping={**hash, **changes})
    await harness.client.set(harness.keys.definition(task.ulid), definition)
    await harness.client.set(harness.keys.result(task.ulid), result)
    await announce(shelf, task.ulid, b"1 COMPLETED")
    return task


async def announce(shelf: Library, task: str | bytes, value: bytes) -> None:
    keys = shelf.harness.keys
    await shelf.harness.client.xadd(keys.outbox(), {task: value})
    await shelf.harness.client.hincrby(keys.stats(), "outbox", 1)


async def emptied(shelf: Library) -> Any:
    done = await shelf.archiver.tick()
    assert await shelf.outbox() == 0
    return done


@pytest.mark.parametrize("where", ["definition", "result"])
async def test_every_bad_input_is_kept_to_the_byte(shelves: Library, where: str) -> None:
    innocent = [await shelves.completed(n) for n in range(3)]
    planted = {}
    for name, data in BAD.items():
        bytes = {"definition": data} if where == "definition" else {"definition": b"{}"}
        planted[name] = await plant(shelves, **bytes, result=data if where == "result" else b"1")
    innocent += [await shelves.completed(n) for n in range(3)]

    done = await emptied(shelves)

    assert done.quarantined == 0
    kept: dict[Any, Any] = dict(shelves.ask(f"SELECT id, {where} FROM rqueue.task_lives"))
    for name, task in planted.items():
        assert (kept[task.uuid] or b"") == BAD[name], name
    assert {task.uuid for task in innocent} <= set(kept)


async def test_a_tag_that_no_index_holds_is_cut_and_its_row_is_whole(shelf: Library) -> None:
    task = await plant(shelf, BAD["long tag"])

    assert (await emptied(shelf)).quarantined == 0

    ((tags, spec),) = shelf.ask("SELECT tags, spec -> 'tags' ->> 0 FROM rqueue.task_lives")
    assert len(spec) == 9000
    assert tags == [spec[:256]]
    (found,) = [one async for one in shelf.harness.queue.archive.search(tag=tags[0])]
    assert found.id == task


@pytest.mark.parametrize(
    ("task", "value"),
    [
        (b"no id", b"1 COMPLETED"),
        (b"\xff\0", b"\xff"),
        (b"01M7P1CC32E7X8ED4M707VY400", b"1 COMPLETED"),
        (b"01M7P1CC32E7X8ED4M707VY400", b"1 DEAD_LETTERED {broken"),
        (b"01M7P1CC32E7X8ED4M707VY400", b'1 DEAD_LETTERED {"task":[],"def":1}'),
        (b"01M7P1CC32E7X8ED4M707VY400", b'1 DEAD_LETTERED {"task":' + b"[" * 200_000),
        (NOISE, b"1 COMPLETED"),
    ],
)
async def test_what_can_be_no_row_is_in_quarantine(
    shelves: Library, task: bytes, value: bytes
) -> None:
    await announce(shelves, task, value)
    innocent = await shelves.completed()

    done = await emptied(shelves)

    assert (done.tasks, done.quarantined) == (2, 1)
    ((line, kept, reason),) = shelves.ask("SELECT line, kept, reason FROM rqueue.quarantine")
    assert line == value
    assert json.loads(kept)["id"].encode(errors="surrogateescape") == task
    assert reason
    assert shelves.ask("SELECT id FROM rqueue.task_lives") == [(innocent.uuid,)]


async def test_keys_of_another_type_hold_back_nobody(shelf: Library) -> None:
    harness, odd = shelf.harness, new_task_id().ulid
    await harness.client.rpush(harness.keys.task(odd), "not a hash")
    await announce(shelf, odd, b"1 COMPLETED")
    await shelf.completed()

    done = await emptied(shelf)

    assert (done.tasks, done.quarantined, shelf.count()) == (2, 1, 1)


async def test_the_same_poison_twice_is_one_row_of_quarantine(shelf: Library) -> None:
    await announce(shelf, b"no id", b"1 COMPLETED")
    ((entry, _),) = await shelf.harness.client.xrange(shelf.harness.keys.outbox())
    await shelf.archiver.tick()
    await shelf.harness.client.xadd(
        shelf.harness.keys.outbox(), {"no id": "1 COMPLETED"}, id=f"{int(entry[:13]) + 1}-0"
    )

    await emptied(shelf)

    assert shelf.count("quarantine") == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": "7" * 400},
        {"priority": "7" * 5_000},
        {"lane": "--5"},
        {"lane": "7" * 5_000},
        {"token": "9" * 40},
        {"attempts": "9" * 40, "parks": "-1", "reclaims": "\u0663"},
        {"holder": f"{10**17} {10**17} w", "created": str(10**15)},
        {"flags": "f" * 300, "more": "[" * 9_000},
        {"more": '{"life":' + "1" * 400 + "}"},
        {"more": '{"life":true}'},
        {"more": '{"tags":7,"ttl":"soon","ext":{}}', "flags": "m"},
        {"more": '{"tags":[[],true]}', "flags": "m"},
        {"finished": str(2**63 - 1)},
    ],
)
async def test_odd_fields_hold_back_nobody(shelf: Library, changes: dict[str, str]) -> None:
    # Of an unknown type, so that its lane is asked as well.
    odd = await plant(shelf, b"{}", b"1", **changes)
    innocent = await shelf.completed()

    await emptied(shelf)

    kept = {id for (id,) in shelf.ask("SELECT id FROM rqueue.task_lives")}
    aside = {task for (task,) in shelf.ask("SELECT task FROM rqueue.quarantine")}
    assert innocent.uuid in kept
    assert odd.uuid in kept or odd.ulid in aside


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a\0b", "c"),
        ("total", "99999999999"),
        ("dead", "-1"),
        ("budget", "9" * 40),
        ("created", str(2**62)),
        ("title", "\0\ud800".encode(errors="surrogatepass")),
        ("status", b"\xff\0"),
        ("spent", "NaN"),
    ],
)
async def test_an_odd_dag_holds_back_nobody(
    shelves: Library, name: str, value: str | bytes
) -> None:
    async with shelves.harness.queue.dag("odd") as odd:
        odd.add(shelves.harness.queue.call("code"))
    async with shelves.harness.queue.dag("good") as good:
        good.add(shelves.harness.queue.call("code"))
    for lease in await shelves.harness.queue.claim(worker="w1", n=2):
        await lease.start()
        await lease.complete()
    await shelves.harness.client.hset(shelves.harness.keys.dag(odd.id.ulid), name, value)

    done = await emptied(shelves)

    assert (done.tasks, done.quarantined) == (2, 0)
    assert shelves.ask("SELECT title FROM rqueue.dags WHERE id = %s", good.id.uuid) == [("good",)]
    assert shelves.count("dags") == 2


async def test_a_dag_that_postgresql_refuses_is_known_by_its_id(shelf: Library) -> None:
    async with shelf.harness.queue.dag("odd") as odd:
        odd.add(shelf.harness.queue.call("code"))
    shelf.ask("ALTER TABLE rqueue.dags ADD CHECK (title <> 'odd')")
    (lease,) = await shelf.harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()

    await emptied(shelf)

    assert shelf.ask("SELECT id, title, status FROM rqueue.dags") == [
        (odd.id.uuid, None, "unknown")
    ]


async def test_a_dag_of_another_type_holds_back_nobody(shelf: Library) -> None:
    async with shelf.harness.queue.dag("odd") as odd:
        odd.add(shelf.harness.queue.call("code"))
    (lease,) = await shelf.harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()
    await shelf.harness.client.delete(shelf.harness.keys.dag(odd.id.ulid))
    await shelf.harness.client.set(shelf.harness.keys.dag(odd.id.ulid), "not a hash")
    innocent = await shelf.completed()

    await emptied(shelf)

    kept = {id for (id,) in shelf.ask("SELECT id FROM rqueue.task_lives")}
    assert kept == {lease.id.uuid, innocent.uuid}


async def test_an_odd_review_holds_back_no_other(shelf: Library) -> None:
    keys, lease = shelf.harness.keys, await shelf.dead()
    odd = {"task": lease.id.ulid, "life": "1", "at": "5", "resolution": "retry"}
    await shelf.harness.client.xadd(keys.reviews(), {**odd, "diff": "[" * 100_000})
    await shelf.harness.queue.dead.decide(lease.id, "retry", by="human:ada")

    await emptied(shelf)

    assert shelf.ask("SELECT reviewer FROM rqueue.dead_letter_reviews") == [("human:ada",)]


async def test_reviews_are_archived_though_a_row_is_not(
    shelf: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await shelf.dead()
    await shelf.harness.queue.dead.decide(lease.id, "cancel", by="human:ada")

    async def refuses(*_: object) -> None:
        raise StoreUnavailable("PostgreSQL")

    monkeypatch.setattr(shelf.archiver.writer, "write", refuses)
    with pytest.raises(StoreUnavailable):
        await shelf.archiver.tick()

    assert shelf.count("dead_letter_reviews") == 1
