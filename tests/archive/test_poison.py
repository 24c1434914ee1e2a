"""Bad data: it is stored as bytes or quarantined, and does not block other tasks (G17)."""

from __future__ import annotations

import json
import random
from hashlib import sha256
from typing import Any

import pytest

from rqueue import TaskId
from rqueue.errors import StoreUnavailable
from rqueue.task.ids import new_task_id
from tests.archive.archiver_harness import ArchiverHarness

# Too long for an index of PostgreSQL, and not compressible.
NOISE = b"".join(sha256(b"%d" % number).hexdigest().encode() for number in range(150))
HUGE = b'{"t":"code","p":1e200000}'
DEEP = b'{"t":"code","p":' + b"[" * 5000 + b"]" * 5000 + b"}"
# No producer accepts these, but Redis may contain them.
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


async def write_row(
    pg_env: ArchiverHarness, definition: bytes, result: bytes = b"null", **changes: str | bytes
) -> TaskId:
    """Writes a completed task with these bytes, as a broken producer would."""
    harness, task = pg_env.harness, new_task_id()
    hash = {
        "state": "COMPLETED", "lane": "1", "token": "1:bits", "score": "1", "entry": "5-0",
        "holder": "1794962239613 1794962239616 w1", "finished": "1794962239618",
    }  # fmt: skip
    await harness.client.hset(harness.keys.task(task.ulid), mapping={**hash, **changes})
    await harness.client.set(harness.keys.definition(task.ulid), definition)
    await harness.client.set(harness.keys.result(task.ulid), result)
    await announce(pg_env, task.ulid, b"1 COMPLETED")
    return task


async def announce(pg_env: ArchiverHarness, task: str | bytes, value: bytes) -> None:
    keys = pg_env.harness.keys
    await pg_env.harness.client.xadd(keys.outbox(), {task: value})
    await pg_env.harness.client.hincrby(keys.stats(), "outbox", 1)


async def emptied(pg_env: ArchiverHarness) -> Any:
    done = await pg_env.archiver.tick()
    assert await pg_env.outbox() == 0
    return done


@pytest.mark.parametrize("where", ["definition", "result"])
async def test_every_bad_input_is_stored_unchanged(env: ArchiverHarness, where: str) -> None:
    innocent = [await env.completed(n) for n in range(3)]
    written = {}
    for name, data in BAD.items():
        bytes = {"definition": data} if where == "definition" else {"definition": b"{}"}
        written[name] = await write_row(env, **bytes, result=data if where == "result" else b"1")
    innocent += [await env.completed(n) for n in range(3)]

    done = await emptied(env)

    assert done.quarantined == 0
    kept: dict[Any, Any] = dict(env.query(f"SELECT id, {where} FROM rqueue.task_lives"))
    for name, task in written.items():
        assert (kept[task.uuid] or b"") == BAD[name], name
    assert {task.uuid for task in innocent} <= set(kept)


async def test_a_tag_too_long_for_the_index_is_cut(
    pg_env: ArchiverHarness,
) -> None:
    task = await write_row(pg_env, BAD["long tag"])

    assert (await emptied(pg_env)).quarantined == 0

    ((tags, spec),) = pg_env.query("SELECT tags, spec -> 'tags' ->> 0 FROM rqueue.task_lives")
    assert len(spec) == 9000
    assert tags == [spec[:256]]
    (found,) = [one async for one in pg_env.harness.queue.archive.search(tag=tags[0])]
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
async def test_unstorable_items_are_quarantined(
    env: ArchiverHarness, task: bytes, value: bytes
) -> None:
    await announce(env, task, value)
    innocent = await env.completed()

    done = await emptied(env)

    assert (done.tasks, done.quarantined) == (2, 1)
    ((line, kept, reason),) = env.query("SELECT line, kept, reason FROM rqueue.quarantine")
    assert line == value
    assert json.loads(kept)["id"].encode(errors="surrogateescape") == task
    assert reason
    assert env.query("SELECT id FROM rqueue.task_lives") == [(innocent.uuid,)]


async def test_keys_of_a_wrong_type_do_not_block_others(pg_env: ArchiverHarness) -> None:
    harness, odd = pg_env.harness, new_task_id().ulid
    await harness.client.rpush(harness.keys.task(odd), "not a hash")
    await announce(pg_env, odd, b"1 COMPLETED")
    await pg_env.completed()

    done = await emptied(pg_env)

    assert (done.tasks, done.quarantined, pg_env.count()) == (2, 1, 1)


async def test_a_repeated_bad_item_is_quarantined_once(pg_env: ArchiverHarness) -> None:
    await announce(pg_env, b"no id", b"1 COMPLETED")
    ((entry, _),) = await pg_env.harness.client.xrange(pg_env.harness.keys.outbox())
    await pg_env.archiver.tick()
    await pg_env.harness.client.xadd(
        pg_env.harness.keys.outbox(), {"no id": "1 COMPLETED"}, id=f"{int(entry[:13]) + 1}-0"
    )

    await emptied(pg_env)

    assert pg_env.count("quarantine") == 2


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
async def test_invalid_fields_do_not_block_others(
    pg_env: ArchiverHarness, changes: dict[str, str]
) -> None:
    # Of an unknown type, so that its lane is read too.
    odd = await write_row(pg_env, b"{}", b"1", **changes)
    innocent = await pg_env.completed()

    await emptied(pg_env)

    kept = {id for (id,) in pg_env.query("SELECT id FROM rqueue.task_lives")}
    aside = {task for (task,) in pg_env.query("SELECT task FROM rqueue.quarantine")}
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
async def test_an_invalid_dag_does_not_block_others(
    env: ArchiverHarness, name: str, value: str | bytes
) -> None:
    async with env.harness.queue.dag("odd") as odd:
        odd.add(env.harness.queue.call("code"))
    async with env.harness.queue.dag("good") as good:
        good.add(env.harness.queue.call("code"))
    for lease in await env.harness.queue.claim(worker="w1", n=2):
        await lease.start()
        await lease.complete()
    await env.harness.client.hset(env.harness.keys.dag(odd.id.ulid), name, value)

    done = await emptied(env)

    assert (done.tasks, done.quarantined) == (2, 0)
    assert env.query("SELECT title FROM rqueue.dags WHERE id = %s", good.id.uuid) == [("good",)]
    assert env.count("dags") == 2


async def test_a_refused_dag_is_stored_with_its_id_only(pg_env: ArchiverHarness) -> None:
    async with pg_env.harness.queue.dag("odd") as odd:
        odd.add(pg_env.harness.queue.call("code"))
    pg_env.query("ALTER TABLE rqueue.dags ADD CHECK (title <> 'odd')")
    (lease,) = await pg_env.harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()

    await emptied(pg_env)

    assert pg_env.query("SELECT id, title, status FROM rqueue.dags") == [
        (odd.id.uuid, None, "unknown")
    ]


async def test_a_dag_key_of_a_wrong_type_does_not_block_others(pg_env: ArchiverHarness) -> None:
    async with pg_env.harness.queue.dag("odd") as odd:
        odd.add(pg_env.harness.queue.call("code"))
    (lease,) = await pg_env.harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete()
    await pg_env.harness.client.delete(pg_env.harness.keys.dag(odd.id.ulid))
    await pg_env.harness.client.set(pg_env.harness.keys.dag(odd.id.ulid), "not a hash")
    innocent = await pg_env.completed()

    await emptied(pg_env)

    kept = {id for (id,) in pg_env.query("SELECT id FROM rqueue.task_lives")}
    assert kept == {lease.id.uuid, innocent.uuid}


async def test_an_invalid_review_does_not_block_others(pg_env: ArchiverHarness) -> None:
    keys, lease = pg_env.harness.keys, await pg_env.dead()
    odd = {"task": lease.id.ulid, "life": "1", "at": "5", "resolution": "retry"}
    await pg_env.harness.client.xadd(keys.reviews(), {**odd, "diff": "[" * 100_000})
    await pg_env.harness.queue.dead.decide(lease.id, "retry", by="human:ada")

    await emptied(pg_env)

    assert pg_env.query("SELECT reviewer FROM rqueue.dead_letter_reviews") == [("human:ada",)]


async def test_reviews_are_archived_even_if_a_row_fails(
    pg_env: ArchiverHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await pg_env.dead()
    await pg_env.harness.queue.dead.decide(lease.id, "cancel", by="human:ada")

    async def refuses(*_: object) -> None:
        raise StoreUnavailable("PostgreSQL")

    monkeypatch.setattr(pg_env.archiver.writer, "write", refuses)
    with pytest.raises(StoreUnavailable):
        await pg_env.archiver.tick()

    assert pg_env.count("dead_letter_reviews") == 1
