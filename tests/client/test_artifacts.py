"""Artifacts of a queue: put by producers, referred to, listed, and swept when nobody needs them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rqueue import Artifact, State, TaskId
from rqueue.artifacts.shelf import FACTS, Shelf
from rqueue.client import artifactdesk
from rqueue.clock import SYSTEM
from rqueue.errors import ArtifactNotFound, InvalidTask
from rqueue.model.ids import new_artifact_id, new_task_id
from rqueue.model.shelf import Rules
from rqueue.store.artifacts import attach
from rqueue.store.leases import Held
from rqueue.testing.clock import ManualClock
from tests.house import House, opened
from tests.servers import Server

LARGE = "x" * 400_000


@pytest.fixture
async def house(server: Server, tmp_path: Path) -> AsyncIterator[House]:
    """A house with a directory, whose clock is forty days ahead of what was put."""
    async with opened(server, artifacts_url=f"file://{tmp_path}/kept") as found:
        found.queue.clock = ManualClock(SYSTEM.now() + timedelta(days=40))
        yield found


async def put(house: House, task: Any, **options: Any) -> Artifact:
    """What a task has put, noted or not."""
    return await house.queue.runtime.shelf.put(b"abc", task=task, **options)


async def there(house: House, *artifacts: Artifact) -> list[bool]:
    """Whether each of them can be had."""
    found = []
    for artifact in artifacts:
        try:
            found.append(await house.queue.artifacts.get(artifact.reference) == b"abc")
        except ArtifactNotFound:
            found.append(False)
    return found


async def test_a_producer_puts_and_reads_and_deletes(house: House, tmp_path: Path) -> None:
    artifacts = house.queue.artifacts

    found = await artifacts.put("text", name="a.txt")

    assert found.task is None
    assert await found.get() == b"text"
    assert (await found.save(tmp_path / "a.txt")).read_text() == "text"
    assert [piece async for piece in artifacts.open(found.reference)] == [b"text"]
    assert await (await artifacts.info(found.reference)).get() == b"text"
    await artifacts.delete(found.reference)
    with pytest.raises(ArtifactNotFound):
        await found.get()


async def test_the_same_without_an_event_loop(house: House) -> None:
    artifacts = house.queue.sync.artifacts

    found = artifacts.put("text")

    assert artifacts.get(found.reference) == b"text"


async def test_a_claim_by_hand_is_given_facts_and_references(house: House) -> None:
    found = await house.queue.artifacts.put("text", name="a.txt")
    looked = [found.reference, "artifact:logo"]
    refs: dict[str, Any] = {"inputs": {"file": found.reference}, "context_refs": looked}
    await house.queue.enqueue("down", {"n": 1}, **refs)

    (lease,) = await house.queue.claim(worker="w1", types=["down"])

    facts = found.model_dump(mode="json", exclude_none=True)
    assert lease.payload == {"n": 1, "file": facts}
    assert lease.task.references == {found.reference: found}


@pytest.mark.parametrize("field", ["inputs", "context_refs"])
async def test_one_that_is_not_there_fails_the_task_for_good(house: House, field: str) -> None:
    nobody = f"artifact:{new_artifact_id()}"
    given: Any = {"x": nobody} if field == "inputs" else [nobody]
    down = await house.queue.enqueue("down", **{field: given})

    assert await house.queue.claim(worker="w1", types=["down"]) == []

    task = await house.queue.get(down.id)
    assert task.state is State.DEAD_LETTERED
    assert f"{nobody} is not here" in (task.last_error or "")


async def test_what_lost_attempts_left_is_swept(house: House) -> None:
    gone, ended = new_task_id(), await house.running()
    await ended.complete()
    orphans = [await put(house, gone), await put(house, ended.id)]

    dry = await house.queue.artifacts.sweep(dry_run=True)
    assert (sorted(dry.found), dry.deleted) == (sorted(one.id for one in orphans), 0)
    assert await there(house, *orphans) == [True, True]
    swept = await house.queue.artifacts.sweep()

    assert (swept.deleted, swept.more) == (2, False)
    assert await there(house, *orphans) == [False, False]
    assert (await house.queue.artifacts.sweep()).found == []


async def test_nothing_that_something_names_is_swept(house: House) -> None:
    gone, running, done = new_task_id(), await house.running(), await house.running()
    kept = [await put(house, gone) for _ in range(4)]
    await house.queue.enqueue("a", {"deep": [{"file": kept[0].reference}]})
    await house.queue.enqueue("a", context_refs=[kept[1].reference])
    await house.queue.enqueue("a", inputs={"x": kept[2].reference})
    kept.append(await put(house, running.id))
    noted = await put(house, done.id)
    await attach(house.queue.shard, Held(done.id.ulid, done.token), noted)
    await done.complete({"see": kept[3].reference})

    assert (await house.queue.artifacts.sweep()).found == []

    assert await there(house, *kept, noted) == [True] * 6


async def test_a_sweep_gets_past_what_is_kept_and_says_when_there_is_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifactdesk, "MOST", 2)
    monkeypatch.setattr(artifactdesk, "PAGE", 1)
    lease = await house.running()
    kept = [await put(house, new_task_id()), *[await put(house, lease.id) for _ in range(3)]]
    await house.queue.enqueue("a", {"file": kept[0].reference})
    orphans = [await put(house, new_task_id()) for _ in range(3)]

    swept = [await house.queue.artifacts.sweep() for _ in range(3)]

    assert [(one.deleted, one.more) for one in swept] == [(2, True), (1, False), (0, False)]
    assert await there(house, *kept, *orphans) == [True] * 4 + [False] * 3


async def test_what_is_named_while_a_sweep_looks_around_is_kept(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await house.running()
    late = await put(house, lease.id)
    desk = house.queue.artifacts
    states = desk.states

    async def after_its_end(tasks: Sequence[TaskId]) -> dict[TaskId, State]:
        await lease.complete({"see": late.reference})
        return await states(tasks)

    monkeypatch.setattr(desk, "states", after_its_end)

    assert (await desk.sweep()).found == []

    assert await there(house, late) == [True]


async def test_a_large_result_is_kept_as_long_as_its_task(house: House) -> None:
    lease = await house.running()
    await lease.complete(LARGE)

    assert (await house.queue.artifacts.sweep()).found == []
    assert (await house.queue.get(lease.id)).result == LARGE

    (kept,) = await house.queue.artifacts.of(lease.id)
    await house.client.flushall()
    assert (await house.queue.artifacts.sweep()).found == [kept.id]


async def test_what_is_young_or_a_producers_or_another_queues_is_not_swept(house: House) -> None:
    shelf = house.queue.runtime.shelf
    other = await Shelf(shelf.place, Rules(), queue="rq/other").put(b"abc", task=new_task_id())
    own, mine = await shelf.put(b"abc"), await put(house, new_task_id())

    assert (await house.queue.artifacts.sweep(days=41)).found == []
    assert (await house.queue.artifacts.sweep(days=39)).found == [mine.id]

    assert await there(house, other, own, mine) == [True, True, False]


async def test_bytes_that_nobody_said_anything_of_are_swept_and_strange_files_are_not(
    house: House, tmp_path: Path
) -> None:
    half, begun, bad = [await put(house, new_task_id()) for _ in range(3)]
    folder = tmp_path / "kept"
    (folder / f"{half.id}{FACTS}").unlink()
    (folder / f"{begun.id}{FACTS}").rename(folder / f".part-{begun.id}{FACTS}.0000")
    (folder / f"{bad.id}{FACTS}").write_text("{")
    part = f".part-{new_artifact_id()}.0000"
    for name in ("README", "art_nothing", part):
        (folder / name).write_text("abc")

    swept = await house.queue.artifacts.sweep()

    assert len(swept.found) == 3
    assert {half.id, begun.id} < {*swept.found}
    left = {path.name for path in folder.iterdir()}
    assert left == {"README", "art_nothing", bad.id, f"{bad.id}{FACTS}"}


@pytest.mark.parametrize("days", [0, 0.5, -1, 10**6, float("nan")])
async def test_how_old_must_be_said_in_days(house: House, days: float) -> None:
    with pytest.raises(InvalidTask, match="days"):
        await house.queue.artifacts.sweep(days=days)
