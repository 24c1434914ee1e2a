"""attach: an artifact is noted with the task that put it, while its lease is held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqueue.errors import ArtifactRefused, LeaseLost
from rqueue.model.artifact import Artifact, described, written
from rqueue.model.ids import new_artifact_id
from rqueue.store.artifacts import attach
from rqueue.store.leases import Held, Settled, complete
from tests.house import House
from tests.lua.rows import everything, held, pttl


def an_artifact(name: str = "a.txt") -> Artifact:
    return described(id=new_artifact_id(), name=name, size=3, sha256="a" * 64)


async def test_an_artifact_is_noted_beside_the_task(house: House) -> None:
    lease, one, two = await held(house), an_artifact(), an_artifact("b c.txt")
    before = await everything(house)

    await attach(house.queue.shard, lease, one)
    await attach(house.queue.shard, lease, two)

    found = await everything(house)
    lines = f"{written(one).decode()}\n{written(two).decode()}\n"
    assert found.pop(f"notes:{lease.task}") == {"artifacts": lines}
    before[f"task:{lease.task}"]["flags"] = "n"
    assert found == before
    (task,) = await house.queue.runtime.reader.read([lease.task])
    assert task is not None
    assert task.attached == (one, two)


async def test_one_sent_again_is_noted_once(house: House) -> None:
    lease, one = await held(house), an_artifact()
    await attach(house.queue.shard, lease, one)
    before = await house.dump()

    await attach(house.queue.shard, lease, one)

    assert await house.dump() == before


async def test_a_stale_token_notes_nothing(house: House) -> None:
    lease = await held(house)
    before = await house.dump()

    for stranger in (Held(lease.task, "9:other"), Held("NOBODY", lease.token)):
        with pytest.raises(LeaseLost):
            await attach(house.queue.shard, stranger, an_artifact())

    assert await house.dump() == before


async def test_one_too_many_is_refused_and_those_that_are_noted_are_no_more(house: House) -> None:
    shard = house.queue.shard
    shard.terms = replace(shard.terms, max_artifacts=2)
    lease, one = await held(house), an_artifact()
    await attach(shard, lease, one)
    await attach(shard, lease, an_artifact())
    before = await house.dump()

    with pytest.raises(ArtifactRefused, match="max_artifacts"):
        await attach(shard, lease, an_artifact())
    await attach(shard, lease, one)

    assert await house.dump() == before


async def test_artifacts_are_known_as_long_as_their_task(house: House) -> None:
    lease = await held(house)
    await attach(house.queue.shard, lease, an_artifact())

    await complete(house.queue.shard, [Settled(lease.task, lease.token, b"")])

    assert 0 < await pttl(house, f"notes:{lease.task}") <= house.queue.shard.terms.result_ttl_ms


async def test_those_of_a_failed_attempt_stay_with_the_task(house: House) -> None:
    first, one = await house.running(), an_artifact()
    await attach(house.queue.shard, Held(first.id.ulid, first.token), one)
    await first.fail("error", "broken", permanent=True)
    await house.queue.revive(first.id)

    assert (await house.queue.get(first.id)).attached == (one,)


async def test_lines_that_cannot_be_read_are_left_out_and_named(house: House) -> None:
    lease = await held(house)
    await attach(house.queue.shard, lease, an_artifact())
    await house.client.hset(house.keys.notes(lease.task), "artifacts", "{")

    (task,) = await house.queue.runtime.reader.read([lease.task])

    assert task is not None
    assert (task.attached, task.damaged) == ((), ("artifacts",))
