"""spawn in parts: a wait is planned in several calls, and the last one suspends the task."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Lease
from rqueue.core import spawn as spawn_moves
from rqueue.core.spawn import SpawnDraft
from rqueue.task.ids import new_task_ids
from tests.harness import Harness
from tests.lua.dag.dags import running
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.task.keyspace import all_keys


async def part(harness: Harness, lease: Lease, part: str, *rows: Any, **changes: Any) -> list[Any]:
    """The reply to one part of a wait."""
    options = {"wait": "success", "gather": "g", "part": part, **changes}
    return await spawn(harness, lease, rows, **options)


async def gathered(harness: Harness, lease: Lease) -> set[str]:
    """The planned wait of a task."""
    found = await harness.client.smembers(harness.keys.gather(lease.id.ulid))
    return {one.decode().removesuffix(f" {lease.token}") for one in found}


async def test_a_task_runs_until_the_last_part_and_then_waits_for_all(harness: Harness) -> None:
    lease = await harness.running()
    one, two = row("one"), row("two")

    first = await part(harness, lease, "first", one)
    after = await part(harness, lease, "next", two)
    noted, state = await gathered(harness, lease), (await harness.task(lease.id)).state
    last = await part(harness, lease, "last")

    assert (first, after) == (
        ["OK", 0, "GOING", one[1], "READY"], ["OK", 0, "GOING", two[1], "READY"],
    )  # fmt: skip
    assert (noted, state) == ({"@g", one[1], two[1]}, "RUNNING")
    assert last == ["OK", 0, "SUSPENDED"]
    found = await all_keys(harness, P=lease.id, a=one[1], b=two[1])
    assert (sorted(found["waits:P"]), "gather:P" in found) == (["a", "b"], False)
    assert found["task:P"]["state"] == "PENDING"
    assert await harness.client.ttl(harness.keys.waits(lease.id.ulid)) == -1


@pytest.mark.parametrize("wait", ["success", "done"])
@pytest.mark.parametrize("end", ["completed", "cancelled"])
async def test_tasks_that_end_between_the_parts_are_not_waited_for(
    harness: Harness, wait: str, end: str
) -> None:
    lease = await harness.running()
    rows = [row("one"), row("two"), row("three")]
    await part(harness, lease, "first", *rows, wait=wait)

    if end == "completed":
        for child in await running(harness, 3):
            await child.complete()
    else:
        for new in rows:
            await harness.queue.cancel(new[1])
    await harness.promoter.tick()
    reply = await part(harness, lease, "last", wait=wait)

    assert reply == ["OK", 0, "GOING"]
    assert await part(harness, lease, "last", wait=wait) == reply
    assert (await harness.task(lease.id)).state == "RUNNING"
    assert await gathered(harness, lease) == {"@g"}


async def test_tasks_that_complete_in_one_call_are_all_removed(harness: Harness) -> None:
    lease = await harness.running()
    await part(harness, lease, "first", row("one"), row("two"), row("three"))
    held = [(child.id.ulid, child.token, "1") for child in await running(harness, 2)]
    how = {"archive": 0, "ttl": 1000, "limit": 10, "tries": 10, "events": 10}
    await harness.queue._internals.shard.run("task/complete", how, held)

    assert len(await gathered(harness, lease)) == 2
    assert (await part(harness, lease, "last"))[2] == "SUSPENDED"
    await (await running(harness))[0].complete()
    (again,) = await running(harness)
    assert again.id == lease.id


async def test_a_task_that_dies_between_the_parts_meets_a_wait_for_any_end(
    harness: Harness,
) -> None:
    lease = await harness.running()
    await part(harness, lease, "first", row("one"), wait="done")
    await (await running(harness))[0].fail("error", "no", permanent=True)
    await harness.promoter.tick()

    assert (await part(harness, lease, "last", wait="done"))[2] == "GOING"


@pytest.mark.parametrize("last", [False, True])
async def test_a_repeated_part_changes_nothing(harness: Harness, last: bool) -> None:
    lease = await harness.running()
    new = row("one")
    calls: list[tuple[str, list[Any]]] = [("first", [new]), ("next", [new])]
    for name, rows in calls + [("last", [])] * last:
        reply = await part(harness, lease, name, *rows)
    before = await harness.dump()

    assert await part(harness, lease, name, *rows) == reply
    assert await harness.dump() == before


@pytest.mark.parametrize("name", ["next", "last"])
async def test_a_wait_that_was_never_begun_or_has_expired_is_lost(
    harness: Harness, name: str
) -> None:
    lease = await harness.running()
    await part(harness, lease, "first", row("one"), gather="other")
    before = await harness.dump()

    assert await part(harness, lease, name) == ["LOST"]
    assert await harness.dump() == before
    ttl = await harness.client.pttl(harness.keys.gather(lease.id.ulid))
    assert 0 < ttl <= 60_000


async def test_an_abandoned_wait_leaves_nothing_to_the_next(harness: Harness) -> None:
    lease = await harness.running()
    one, two = row("one"), row("two")
    await part(harness, lease, "first", one, gather="other")
    await part(harness, lease, "first", two)
    await part(harness, lease, "last")

    found = await all_keys(harness, P=lease.id, a=one[1], b=two[1])
    assert (found["waits:P"], found["dependents:b"]) == (["b"], ["P"])
    assert "dependents:a" not in found


async def test_an_abandoned_wait_is_deleted_by_a_plain_one(harness: Harness) -> None:
    lease, new = await harness.running(), row("one")
    await part(harness, lease, "first", new, wait="done")

    await spawn(harness, lease, [new], wait="success")

    found = await all_keys(harness, P=lease.id, a=new[1])
    assert (found["dependents:a"], found["waits:P"]) == (["P"], ["a"])
    assert not {"heirs:a", "gather:P"} & set(found)
    await (await running(harness))[0].fail("error", "no", permanent=True)
    await harness.promoter.tick()
    assert (await harness.task(lease.id)).state == "PENDING"


async def test_a_cycle_through_a_planned_wait_is_found(harness: Harness) -> None:
    lease = await harness.running()
    await part(harness, lease, "first", row("child"))
    (child,) = await running(harness)
    after = row("after", outside=[lease.id.ulid])

    assert await spawn(harness, child, [after], wait="success") == ["CYCLE", "after"]


async def child_about_to_wait(harness: Harness) -> tuple[Lease, Lease, Any]:
    """A parent and its child, both running; the child is about to wait for one that waits for the
    parent, which is no cycle yet.
    """
    lease, known = await harness.running(), row("child")
    await spawn(harness, lease, [known])
    (child,) = await running(harness)
    after = row("after", outside=[lease.id.ulid])
    assert (await part(harness, child, "first", after))[2] == "GOING"
    return lease, child, known


@pytest.mark.parametrize("wait", ["success", "done"])
async def test_a_running_child_with_a_planned_wait_is_checked(harness: Harness, wait: str) -> None:
    lease, child, known = await child_about_to_wait(harness)
    before = await harness.dump()

    assert await spawn(harness, lease, [known], wait=wait) == ["CYCLE", "child"]
    assert await part(harness, lease, "first", known, wait=wait) == ["CYCLE", "child"]
    assert await harness.dump() == before
    assert (await part(harness, child, "last"))[2] == "SUSPENDED"
    await lease.complete()
    assert len(await running(harness, 2)) == 1


@pytest.mark.parametrize("again", [False, True])
async def test_a_wait_that_a_lost_attempt_planned_makes_no_cycle(
    harness: Harness, again: bool
) -> None:
    lease, child, known = await child_about_to_wait(harness)
    await child.release()
    if again:
        assert [one.id for one in await running(harness, 2)] == [child.id]

    assert (await spawn(harness, lease, [known], wait="success"))[2] == "SUSPENDED"


async def test_a_wait_that_a_dead_task_planned_makes_no_cycle(harness: Harness) -> None:
    lease, child, _ = await child_about_to_wait(harness)
    await child.fail("error", "no", permanent=True)
    behind = row("behind", outside=[child.id.ulid])

    assert (await spawn(harness, lease, [behind], wait="success"))[2] == "SUSPENDED"


async def test_many_are_waited_for_in_calls_of_bounded_size(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, sizes = await harness.running(), []
    run = harness.queue._internals.shard.run

    async def counted(name: str, args: Any = None, rows: Any = (), **more: Any) -> Any:
        sizes.append(len(rows))
        return await run(name, args, rows, **more)

    monkeypatch.setattr(harness.queue._internals.shard, "run", counted)
    draft = harness.queue._internals.drafter.draft({"type": "code"})
    many = [SpawnDraft(str(at), id, draft) for at, id in enumerate(new_task_ids(1250))]

    grown = await spawn_moves.spawn(
        harness.queue._internals.shard, lease.held, many, wait="success"
    )

    assert (grown.suspended, len(grown.tasks)) == (True, 1250)
    assert (max(sizes), sum(sizes)) == (spawn_moves.PAGE, 1250)
    assert await harness.client.scard(harness.keys.waits(lease.id.ulid)) == 1250
