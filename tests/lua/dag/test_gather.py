"""spawn in parts: what is to be waited for is noted in several calls, and the last one waits."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Lease
from rqueue.model.ids import new_task_ids
from rqueue.store import spawning
from rqueue.store.spawning import Seedling
from tests.house import House
from tests.lua.dag.planted import running
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.task.afterwards import afterwards


async def part(house: House, lease: Lease, part: str, *rows: Any, **changes: Any) -> list[Any]:
    """The reply to one part of a wait."""
    asked = {"wait": "success", "gather": "g", "part": part, **changes}
    return await spawn(house, lease, rows, **asked)


async def gathered(house: House, lease: Lease) -> set[str]:
    """What is noted for the wait of a task."""
    found = await house.client.smembers(house.keys.gather(lease.id.ulid))
    return {one.decode().removesuffix(f" {lease.token}") for one in found}


async def test_it_runs_on_until_the_last_part_and_waits_for_all_then(house: House) -> None:
    lease = await house.running()
    one, two = row("one"), row("two")

    first = await part(house, lease, "first", one)
    after = await part(house, lease, "next", two)
    noted, state = await gathered(house, lease), (await house.task(lease.id)).state
    last = await part(house, lease, "last")

    assert (first, after) == (
        ["OK", 0, "GOING", one[1], "READY"], ["OK", 0, "GOING", two[1], "READY"],
    )  # fmt: skip
    assert (noted, state) == ({"@g", one[1], two[1]}, "RUNNING")
    assert last == ["OK", 0, "SUSPENDED"]
    found = await afterwards(house, P=lease.id, a=one[1], b=two[1])
    assert (sorted(found["waits:P"]), "gather:P" in found) == (["a", "b"], False)
    assert found["task:P"]["state"] == "PENDING"
    assert await house.client.ttl(house.keys.waits(lease.id.ulid)) == -1


@pytest.mark.parametrize("wait", ["success", "done"])
@pytest.mark.parametrize("end", ["completed", "cancelled"])
async def test_what_ends_between_the_parts_is_not_waited_for(
    house: House, wait: str, end: str
) -> None:
    lease = await house.running()
    rows = [row("one"), row("two"), row("three")]
    await part(house, lease, "first", *rows, wait=wait)

    if end == "completed":
        for child in await running(house, 3):
            await child.complete()
    else:
        for new in rows:
            await house.queue.cancel(new[1])
    await house.promoter.tick()
    said = await part(house, lease, "last", wait=wait)

    assert said == ["OK", 0, "GOING"]
    assert await part(house, lease, "last", wait=wait) == said
    assert (await house.task(lease.id)).state == "RUNNING"
    assert await gathered(house, lease) == {"@g"}


async def test_several_that_complete_in_one_call_are_all_taken_off(house: House) -> None:
    lease = await house.running()
    await part(house, lease, "first", row("one"), row("two"), row("three"))
    held = [(child.id.ulid, child.token, "1") for child in await running(house, 2)]
    how = {"archive": 0, "ttl": 1000, "limit": 10, "tries": 10, "events": 10}
    await house.queue.shard.run("task/complete", how, held)

    assert len(await gathered(house, lease)) == 2
    assert (await part(house, lease, "last"))[2] == "SUSPENDED"
    await (await running(house))[0].complete()
    (again,) = await running(house)
    assert again.id == lease.id


async def test_a_death_between_the_parts_is_an_end_for_one_that_waits_for_any(
    house: House,
) -> None:
    lease = await house.running()
    await part(house, lease, "first", row("one"), wait="done")
    await (await running(house))[0].fail("error", "no", permanent=True)
    await house.promoter.tick()

    assert (await part(house, lease, "last", wait="done"))[2] == "GOING"


@pytest.mark.parametrize("last", [False, True])
async def test_a_part_that_is_sent_again_changes_nothing(house: House, last: bool) -> None:
    lease = await house.running()
    new = row("one")
    calls: list[tuple[str, list[Any]]] = [("first", [new]), ("next", [new])]
    for name, rows in calls + [("last", [])] * last:
        said = await part(house, lease, name, *rows)
    before = await house.dump()

    assert await part(house, lease, name, *rows) == said
    assert await house.dump() == before


@pytest.mark.parametrize("name", ["next", "last"])
async def test_a_wait_that_was_never_begun_or_is_forgotten_is_lost(house: House, name: str) -> None:
    lease = await house.running()
    await part(house, lease, "first", row("one"), gather="other")
    before = await house.dump()

    assert await part(house, lease, name) == ["LOST"]
    assert await house.dump() == before
    ttl = await house.client.pttl(house.keys.gather(lease.id.ulid))
    assert 0 < ttl <= 60_000


async def test_a_wait_that_was_given_up_leaves_nothing_to_the_next(house: House) -> None:
    lease = await house.running()
    one, two = row("one"), row("two")
    await part(house, lease, "first", one, gather="other")
    await part(house, lease, "first", two)
    await part(house, lease, "last")

    found = await afterwards(house, P=lease.id, a=one[1], b=two[1])
    assert (found["waits:P"], found["dependents:b"]) == (["b"], ["P"])
    assert "dependents:a" not in found


async def test_a_wait_that_was_given_up_for_a_plain_one_is_forgotten(house: House) -> None:
    lease, new = await house.running(), row("one")
    await part(house, lease, "first", new, wait="done")

    await spawn(house, lease, [new], wait="success")

    found = await afterwards(house, P=lease.id, a=new[1])
    assert (found["dependents:a"], found["waits:P"]) == (["P"], ["a"])
    assert not {"heirs:a", "gather:P"} & set(found)
    await (await running(house))[0].fail("error", "no", permanent=True)
    await house.promoter.tick()
    assert (await house.task(lease.id)).state == "PENDING"


async def test_a_circle_through_what_is_only_noted_is_found(house: House) -> None:
    lease = await house.running()
    await part(house, lease, "first", row("child"))
    (child,) = await running(house)
    after = row("after", outside=[lease.id.ulid])

    assert await spawn(house, child, [after], wait="success") == ["CYCLE", "after"]


async def child_about_to_wait(house: House) -> tuple[Lease, Lease, Any]:
    """A parent and its child, both running; the child is about to wait for one that waits for the
    parent, which is no circle yet.
    """
    lease, known = await house.running(), row("child")
    await spawn(house, lease, [known])
    (child,) = await running(house)
    after = row("after", outside=[lease.id.ulid])
    assert (await part(house, child, "first", after))[2] == "GOING"
    return lease, child, known


@pytest.mark.parametrize("wait", ["success", "done"])
async def test_a_child_that_runs_and_is_about_to_wait_is_looked_at(house: House, wait: str) -> None:
    lease, child, known = await child_about_to_wait(house)
    before = await house.dump()

    assert await spawn(house, lease, [known], wait=wait) == ["CYCLE", "child"]
    assert await part(house, lease, "first", known, wait=wait) == ["CYCLE", "child"]
    assert await house.dump() == before
    assert (await part(house, child, "last"))[2] == "SUSPENDED"
    await lease.complete()
    assert len(await running(house, 2)) == 1


@pytest.mark.parametrize("again", [False, True])
async def test_what_a_lost_attempt_was_to_wait_for_makes_no_circle(
    house: House, again: bool
) -> None:
    lease, child, known = await child_about_to_wait(house)
    await child.release()
    if again:
        assert [one.id for one in await running(house, 2)] == [child.id]

    assert (await spawn(house, lease, [known], wait="success"))[2] == "SUSPENDED"


async def test_a_dead_task_leads_nowhere_by_what_it_was_to_wait_for(house: House) -> None:
    lease, child, _ = await child_about_to_wait(house)
    await child.fail("error", "no", permanent=True)
    behind = row("behind", outside=[child.id.ulid])

    assert (await spawn(house, lease, [behind], wait="success"))[2] == "SUSPENDED"


async def test_many_are_waited_for_in_calls_of_bounded_size(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, sizes = await house.running(), []
    run = house.queue.shard.run

    async def counted(name: str, args: Any = None, rows: Any = (), **more: Any) -> Any:
        sizes.append(len(rows))
        return await run(name, args, rows, **more)

    monkeypatch.setattr(house.queue.shard, "run", counted)
    draft = house.queue.drafter.draft({"type": "code"})
    many = [Seedling(str(at), id, draft) for at, id in enumerate(new_task_ids(1250))]

    grown = await spawning.spawn(house.queue.shard, lease.held, many, wait="success")

    assert (grown.suspended, len(grown.tasks)) == (True, 1250)
    assert (max(sizes), sum(sizes)) == (spawning.PAGE, 1250)
    assert await house.client.scard(house.keys.waits(lease.id.ulid)) == 1250
