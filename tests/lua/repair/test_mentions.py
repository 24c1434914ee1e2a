"""mentions: every artifact id in the keys of the shard, a page at a time."""

from __future__ import annotations

from typing import Any

from rqueue.core.leases import HeldLease, Settled, complete
from rqueue.core.notes import attach, mentioned, note, step
from rqueue.task.artifact import artifact_of, placeholder_of
from rqueue.task.ids import ArtifactId, new_artifact_id
from rqueue.task.task import Note
from tests.harness import Harness
from tests.lua.rows import words


async def found(harness: Harness) -> set[ArtifactId]:
    return {id async for id in mentioned(harness.queue._internals.shard)}


async def test_an_empty_shard_has_no_mentions_and_nothing_is_changed(harness: Harness) -> None:
    await harness.queue.enqueue("code", {"text": "art_ and artifact:logo and art_0"})
    before = await harness.dump()

    assert await found(harness) == set()
    assert await harness.dump() == before


async def test_an_artifact_is_found_wherever_a_task_may_name_it(harness: Harness) -> None:
    ids = [new_artifact_id() for _ in range(8)]
    references = [f"artifact:{id}" for id in ids]
    await harness.queue.enqueue(
        "other", {"deep": [{"in": f"see {references[0]}xyz"}], "x": "y" * 300}
    )
    await harness.queue.enqueue("other", context_refs=[references[1]])
    await harness.queue.enqueue("other", inputs={"x": references[2]})
    lease = await harness.running()
    shard, hand = harness.queue._internals.shard, HeldLease(lease.id.ulid, lease.token)
    await step(shard, hand, "fetch", f'"{references[3]}"'.encode())
    await note(shard, hand, Note(checkpoint=references[4], progress=references[5]), seq=1)
    facts: dict[str, Any] = {"name": "a", "size": 1, "sha256": "a" * 64}
    await attach(shard, hand, artifact_of(id=ids[6], **facts))
    kept = placeholder_of(artifact_of(id=ids[7], **facts))
    await complete(shard, [Settled(lease.id.ulid, lease.token, kept)])

    assert await found(harness) == set(ids)


async def test_pages_follow_each_other_to_the_end(harness: Harness) -> None:
    ids = [new_artifact_id() for _ in range(30)]
    for id in ids:
        await harness.queue.enqueue("code", {"file": f"artifact:{id}"})
    cursor, seen, pages = "0", set(), 0

    while pages == 0 or cursor != "0":
        args: dict[str, Any] = {"cursor": cursor, "limit": 5}
        word, cursor, *names = words(
            await harness.queue._internals.shard.run("repair/mentions", args)
        )
        assert word == "OK"
        seen |= set(names)
        pages += 1

    assert seen == set(ids)
    assert pages > 1
