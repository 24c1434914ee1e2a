"""Artifacts of a queue: put, references, lists and sweeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rqueue import Artifact, State, TaskId
from rqueue.artifacts import admin
from rqueue.artifacts.place import Rules
from rqueue.artifacts.shelf import FACTS, Shelf
from rqueue.clock import SYSTEM
from rqueue.core.leases import HeldLease
from rqueue.core.notes import attach
from rqueue.errors import ArtifactNotFound, InvalidTask
from rqueue.task.ids import new_artifact_id, new_task_id
from rqueue.testing.timeline import ManualClock
from tests.harness import Harness, opened
from tests.servers import Server

LARGE = "x" * 400_000


@pytest.fixture
async def harness(server: Server, tmp_path: Path) -> AsyncIterator[Harness]:
    """A queue with a directory, and a clock that is forty days ahead."""
    async with opened(server, artifacts_url=f"file://{tmp_path}/kept") as found:
        found.queue._internals.clock = ManualClock(SYSTEM.now() + timedelta(days=40))
        yield found


async def put(harness: Harness, task: Any, **options: Any) -> Artifact:
    """Puts an artifact as a task, without attaching it."""
    return await harness.queue._internals.runtime.shelf.put(b"abc", task=task, **options)


async def available(harness: Harness, *artifacts: Artifact) -> list[bool]:
    """Returns for each artifact whether it can be read."""
    found = []
    for artifact in artifacts:
        try:
            found.append(await harness.queue.artifacts.get(artifact.reference) == b"abc")
        except ArtifactNotFound:
            found.append(False)
    return found


async def test_a_producer_puts_reads_and_deletes_an_artifact(
    harness: Harness, tmp_path: Path
) -> None:
    artifacts = harness.queue.artifacts

    found = await artifacts.put("text", name="a.txt")

    assert found.task is None
    assert await found.get() == b"text"
    assert (await found.save(tmp_path / "a.txt")).read_text() == "text"
    assert [piece async for piece in artifacts.open(found.reference)] == [b"text"]
    assert await (await artifacts.info(found.reference)).get() == b"text"
    await artifacts.delete(found.reference)
    with pytest.raises(ArtifactNotFound):
        await found.get()


async def test_the_blocking_interface_puts_and_reads(harness: Harness) -> None:
    artifacts = harness.queue.sync.artifacts

    found = artifacts.put("text")

    assert artifacts.get(found.reference) == b"text"


async def test_a_claim_by_hand_contains_metadata_and_references(harness: Harness) -> None:
    found = await harness.queue.artifacts.put("text", name="a.txt")
    looked = [found.reference, "artifact:logo"]
    refs: dict[str, Any] = {"inputs": {"file": found.reference}, "context_refs": looked}
    await harness.queue.enqueue("down", {"n": 1}, **refs)

    (lease,) = await harness.queue.claim(worker="w1", types=["down"])

    facts = found.model_dump(mode="json", exclude_none=True)
    assert lease.payload == {"n": 1, "file": facts}
    assert lease.task.references == {found.reference: found}


@pytest.mark.parametrize("field", ["inputs", "context_refs"])
async def test_a_missing_artifact_fails_the_task_permanently(harness: Harness, field: str) -> None:
    missing = f"artifact:{new_artifact_id()}"
    given: Any = {"x": missing} if field == "inputs" else [missing]
    down = await harness.queue.enqueue("down", **{field: given})

    assert await harness.queue.claim(worker="w1", types=["down"]) == []

    task = await harness.queue.get(down.id)
    assert task.state is State.DEAD_LETTERED
    assert f"{missing} was not found" in (task.last_error or "")


async def test_artifacts_of_lost_attempts_are_swept(harness: Harness) -> None:
    gone, ended = new_task_id(), await harness.running()
    await ended.complete()
    orphans = [await put(harness, gone), await put(harness, ended.id)]

    dry = await harness.queue.artifacts.sweep(dry_run=True)
    assert (sorted(dry.found), dry.deleted) == (sorted(one.id for one in orphans), 0)
    assert await available(harness, *orphans) == [True, True]
    swept = await harness.queue.artifacts.sweep()

    assert (swept.deleted, swept.more) == (2, False)
    assert await available(harness, *orphans) == [False, False]
    assert (await harness.queue.artifacts.sweep()).found == []


async def test_referenced_artifacts_are_not_swept(harness: Harness) -> None:
    gone, running, done = new_task_id(), await harness.running(), await harness.running()
    kept = [await put(harness, gone) for _ in range(4)]
    await harness.queue.enqueue("a", {"deep": [{"file": kept[0].reference}]})
    await harness.queue.enqueue("a", context_refs=[kept[1].reference])
    await harness.queue.enqueue("a", inputs={"x": kept[2].reference})
    kept.append(await put(harness, running.id))
    noted = await put(harness, done.id)
    await attach(harness.queue._internals.shard, HeldLease(done.id.ulid, done.token), noted)
    await done.complete({"see": kept[3].reference})

    assert (await harness.queue.artifacts.sweep()).found == []

    assert await available(harness, *kept, noted) == [True] * 6


async def test_a_bounded_sweep_continues_in_the_next_call(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "MOST", 2)
    monkeypatch.setattr(admin, "PAGE", 1)
    lease = await harness.running()
    kept = [await put(harness, new_task_id()), *[await put(harness, lease.id) for _ in range(3)]]
    await harness.queue.enqueue("a", {"file": kept[0].reference})
    orphans = [await put(harness, new_task_id()) for _ in range(3)]

    swept = [await harness.queue.artifacts.sweep() for _ in range(3)]

    assert [(one.deleted, one.more) for one in swept] == [(2, True), (1, False), (0, False)]
    assert await available(harness, *kept, *orphans) == [True] * 4 + [False] * 3


async def test_an_artifact_that_is_referenced_during_a_sweep_stays(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await harness.running()
    late = await put(harness, lease.id)
    states = admin.Sweep.states

    async def after_its_end(sweep: admin.Sweep, tasks: Sequence[TaskId]) -> dict[TaskId, State]:
        await lease.complete({"see": late.reference})
        return await states(sweep, tasks)

    monkeypatch.setattr(admin.Sweep, "states", after_its_end)

    assert (await harness.queue.artifacts.sweep()).found == []

    assert await available(harness, late) == [True]


async def test_a_large_result_stays_as_long_as_its_task(harness: Harness) -> None:
    lease = await harness.running()
    await lease.complete(LARGE)

    assert (await harness.queue.artifacts.sweep()).found == []
    assert (await harness.queue.get(lease.id)).result == LARGE

    (kept,) = await harness.queue.artifacts.list(lease.id)
    await harness.client.flushall()
    assert (await harness.queue.artifacts.sweep()).found == [kept.id]


async def test_young_artifacts_and_those_of_producers_and_other_queues_are_not_swept(
    harness: Harness,
) -> None:
    shelf = harness.queue._internals.runtime.shelf
    other = await Shelf(shelf.place, Rules(), queue="rq/other").put(b"abc", task=new_task_id())
    own, mine = await shelf.put(b"abc"), await put(harness, new_task_id())

    assert (await harness.queue.artifacts.sweep(days=41)).found == []
    assert (await harness.queue.artifacts.sweep(days=39)).found == [mine.id]

    assert await available(harness, other, own, mine) == [True, True, False]


async def test_bytes_without_metadata_are_swept_and_foreign_files_are_not(
    harness: Harness, tmp_path: Path
) -> None:
    half, begun, bad = [await put(harness, new_task_id()) for _ in range(3)]
    folder = tmp_path / "kept"
    (folder / f"{half.id}{FACTS}").unlink()
    (folder / f"{begun.id}{FACTS}").rename(folder / f".part-{begun.id}{FACTS}.0000")
    (folder / f"{bad.id}{FACTS}").write_text("{")
    part = f".part-{new_artifact_id()}.0000"
    for name in ("README", "art_nothing", part):
        (folder / name).write_text("abc")

    swept = await harness.queue.artifacts.sweep()

    assert len(swept.found) == 3
    assert {half.id, begun.id} < {*swept.found}
    left = {path.name for path in folder.iterdir()}
    assert left == {"README", "art_nothing", bad.id, f"{bad.id}{FACTS}"}


@pytest.mark.parametrize("days", [0, 0.5, -1, 10**6, float("nan")])
async def test_an_invalid_number_of_days_is_refused(harness: Harness, days: float) -> None:
    with pytest.raises(InvalidTask, match="days"):
        await harness.queue.artifacts.sweep(days=days)
