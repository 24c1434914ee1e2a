"""attach: an artifact is recorded with its task while the lease is held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqueue.core.leases import HeldLease, Settled, complete
from rqueue.core.notes import attach
from rqueue.errors import ArtifactRefused, LeaseLost
from rqueue.task.artifact import Artifact, artifact_of, line_of
from rqueue.task.ids import new_artifact_id
from tests.harness import Harness
from tests.lua.rows import everything, held, pttl


def an_artifact(name: str = "a.txt") -> Artifact:
    return artifact_of(id=new_artifact_id(), name=name, size=3, sha256="a" * 64)


async def test_an_artifact_is_recorded_with_the_task(harness: Harness) -> None:
    lease, one, two = await held(harness), an_artifact(), an_artifact("b c.txt")
    before = await everything(harness)

    await attach(harness.queue._internals.shard, lease, one)
    await attach(harness.queue._internals.shard, lease, two)

    found = await everything(harness)
    lines = f"{line_of(one).decode()}\n{line_of(two).decode()}\n"
    assert found.pop(f"notes:{lease.task}") == {"artifacts": lines}
    before[f"task:{lease.task}"]["flags"] = "n"
    assert found == before
    (task,) = await harness.queue._internals.runtime.reader.read([lease.task])
    assert task is not None
    assert task.attached == (one, two)


async def test_a_repeated_artifact_is_recorded_once(harness: Harness) -> None:
    lease, one = await held(harness), an_artifact()
    await attach(harness.queue._internals.shard, lease, one)
    before = await harness.dump()

    await attach(harness.queue._internals.shard, lease, one)

    assert await harness.dump() == before


async def test_a_stale_token_records_nothing(harness: Harness) -> None:
    lease = await held(harness)
    before = await harness.dump()

    for unknown in (HeldLease(lease.task, "9:other"), HeldLease("NOBODY", lease.token)):
        with pytest.raises(LeaseLost):
            await attach(harness.queue._internals.shard, unknown, an_artifact())

    assert await harness.dump() == before


async def test_an_artifact_above_the_limit_is_refused_and_known_ones_are_not(
    harness: Harness,
) -> None:
    shard = harness.queue._internals.shard
    shard.terms = replace(shard.terms, max_artifacts=2)
    lease, one = await held(harness), an_artifact()
    await attach(shard, lease, one)
    await attach(shard, lease, an_artifact())
    before = await harness.dump()

    with pytest.raises(ArtifactRefused, match="max_artifacts"):
        await attach(shard, lease, an_artifact())
    await attach(shard, lease, one)

    assert await harness.dump() == before


async def test_artifacts_are_kept_as_long_as_their_task(harness: Harness) -> None:
    lease = await held(harness)
    await attach(harness.queue._internals.shard, lease, an_artifact())

    await complete(harness.queue._internals.shard, [Settled(lease.task, lease.token, b"")])

    assert (
        0
        < await pttl(harness, f"notes:{lease.task}")
        <= harness.queue._internals.shard.terms.result_ttl_ms
    )


async def test_artifacts_of_a_failed_attempt_stay_with_the_task(harness: Harness) -> None:
    first, one = await harness.running(), an_artifact()
    await attach(harness.queue._internals.shard, HeldLease(first.id.ulid, first.token), one)
    await first.fail("error", "broken", permanent=True)
    await harness.queue.dead.retry(first.id)

    assert (await harness.queue.get(first.id)).attached == (one,)


async def test_unreadable_lines_are_left_out_and_reported(harness: Harness) -> None:
    lease = await held(harness)
    await attach(harness.queue._internals.shard, lease, an_artifact())
    await harness.client.hset(harness.keys.notes(lease.task), "artifacts", "{")

    (task,) = await harness.queue._internals.runtime.reader.read([lease.task])

    assert task is not None
    assert (task.attached, task.damaged) == ((), ("artifacts",))
