"""mentions: every artifact that something of the shard names, a page at a time."""

from __future__ import annotations

from typing import Any

from rqueue.model.artifact import described, stowed
from rqueue.model.ids import ArtifactId, new_artifact_id
from rqueue.model.note import Note
from rqueue.store.artifacts import attach, mentioned
from rqueue.store.leases import Held, Settled, complete
from rqueue.store.notes import note
from rqueue.store.steps import step
from tests.house import House
from tests.lua.rows import words


async def found(house: House) -> set[ArtifactId]:
    return {id async for id in mentioned(house.queue.shard)}


async def test_nothing_names_nothing_and_nothing_is_changed(house: House) -> None:
    await house.queue.enqueue("code", {"text": "art_ and artifact:logo and art_0"})
    before = await house.dump()

    assert await found(house) == set()
    assert await house.dump() == before


async def test_it_is_found_wherever_a_task_may_name_it(house: House) -> None:
    ids = [new_artifact_id() for _ in range(8)]
    references = [f"artifact:{id}" for id in ids]
    await house.queue.enqueue(
        "other", {"deep": [{"in": f"see {references[0]}xyz"}], "x": "y" * 300}
    )
    await house.queue.enqueue("other", context_refs=[references[1]])
    await house.queue.enqueue("other", inputs={"x": references[2]})
    lease = await house.running()
    shard, hand = house.queue.shard, Held(lease.id.ulid, lease.token)
    await step(shard, hand, "fetch", f'"{references[3]}"'.encode())
    await note(shard, hand, Note(checkpoint=references[4], progress=references[5]), seq=1)
    facts: dict[str, Any] = {"name": "a", "size": 1, "sha256": "a" * 64}
    await attach(shard, hand, described(id=ids[6], **facts))
    kept = stowed(described(id=ids[7], **facts))
    await complete(shard, [Settled(lease.id.ulid, lease.token, kept)])

    assert await found(house) == set(ids)


async def test_pages_follow_each_other_to_the_end(house: House) -> None:
    ids = [new_artifact_id() for _ in range(30)]
    for id in ids:
        await house.queue.enqueue("code", {"file": f"artifact:{id}"})
    cursor, seen, pages = "0", set(), 0

    while pages == 0 or cursor != "0":
        args: dict[str, Any] = {"cursor": cursor, "limit": 5}
        word, cursor, *names = words(await house.queue.shard.run("queue/mentions", args))
        assert word == "OK"
        seen |= set(names)
        pages += 1

    assert seen == set(ids)
    assert pages > 1
