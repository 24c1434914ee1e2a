"""pause: nothing more of a paused DAG is handed out, and it hides nothing that stands behind it."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Lease, State
from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, Edges, a_plant, fan, planted, run, running, settled
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.dag.test_submit import LANE, TASK
from tests.lua.rows import BASE, everything, submitted
from tests.lua.task.keys_after import afterwards, ask, mail, parked

MANY: Edges = {str(at): [] for at in range(5)}


async def test_what_may_run_leaves_its_lane(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": ["a"]})

    assert await plant.pause() == ["OK", 0]

    found = await plant.after()
    assert found == LANE | {
        "dag:D": {
            "cancelled": "0", "created": "*", "dead": "0", "edges": "1", "on_failure": "hold",
            "open": "2", "paused": "1", "status": "pending", "total": "2",
        },
        "members:D": ["a", "b"], "dags": ["D"], "held:D": ["a"],
        "task:a": TASK | {"flags": "oD", "state": "READY", "entry": "*", "down": "b"},
        "task:b": TASK | {"flags": "uD", "state": "PENDING", "up0": "a", "sole": "1"},
        "ready": (["a"], {}),
        "stats": {"1:PENDING": 1, "1:READY": 1, "submitted": 2},
    }  # fmt: skip
    assert await harness.queue.claim(worker="w1") == []
    assert (await harness.queue.counts())[State.READY] == 1


async def test_what_stands_behind_it_is_handed_out(harness: Harness) -> None:
    plant = await planted(harness, MANY)
    other = await submitted(harness, base=BASE + 1)
    await plant.pause(limit=1)

    leases = await harness.queue.claim(worker="w1")

    assert [lease.id.ulid for lease in leases] == [other]
    found = await plant.after()
    assert "lane:1" not in found
    assert (len(found["held:D"]), found["stats"]["1:READY"]) == (5, 5)


async def test_it_goes_in_bounded_steps(harness: Harness) -> None:
    plant = await planted(harness, MANY)

    assert await plant.pause(limit=2) == ["OK", 1]
    assert await plant.steps() == {"hold": "2"}
    assert [await plant.pause(begin=0, limit=2) for _ in range(2)] == [["OK", 1], ["OK", 0]]

    assert (len((await plant.after())["held:D"]), await plant.steps()) == (5, {})


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    plant = await planted(harness, MANY)
    await plant.pause()
    before = await everything(harness)

    assert await plant.pause() == ["OK", 0]
    assert await everything(harness) == before


async def test_what_runs_runs_on_and_what_it_frees_is_held_back(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": ["a"]})
    (lease,) = await running(harness)
    await plant.pause()

    await lease.complete()

    assert await plant.states() == {"a": "COMPLETED", "b": "READY"}
    found = await plant.after()
    assert (found["held:D"], "lane:1" in found, found["stats"]["1:READY"]) == (["b"], False, 1)
    assert await harness.queue.claim(worker="w1") == []
    await plant.resume()
    assert [one.id for one in await running(harness)] == [plant.ids["b"]]


@pytest.mark.parametrize("trigger", ["", "all_done"])
async def test_a_wide_fan_out_of_a_paused_dag_is_never_in_the_way(
    harness: Harness, trigger: str
) -> None:
    edges = fan(600)
    more = {name: {"trigger": trigger} for name in edges if name != "a"} if trigger else {}
    plant = await planted(harness, edges, more=more)
    (root,) = await running(harness)
    await plant.pause()
    waiter = await parked(harness)

    await root.complete()
    await harness.promoter.tick()

    assert await harness.client.exists(harness.keys.lane(1)) == 0
    assert await harness.client.scard(harness.keys.held(plant.dag)) == 600
    assert await mail(harness, waiter) == []
    other = await submitted(harness, base=BASE + 1)
    assert [line.split(" ")[2] for line in await mail(harness, waiter)] == [other]


async def recalled(harness: Harness, lease: Lease) -> None:
    await harness.client.zadd(harness.keys.deliveries(), {f"{lease.id.ulid}:1": 1})
    await harness.promoter.tick()


async def reaped(harness: Harness, lease: Lease) -> None:
    await harness.age(lease, 3600)
    await harness.reaper.tick()


async def retried(harness: Harness, lease: Lease) -> None:
    await lease.start()
    await lease.fail()
    await harness.make_due(lease.id)
    await harness.promoter.tick()


async def revived(harness: Harness, lease: Lease) -> None:
    await lease.start()
    await lease.fail(permanent=True)
    await harness.queue.dead.retry(lease.id)


async def spawned(harness: Harness, lease: Lease) -> None:
    await lease.start()
    await spawn(harness, lease, [row("new")])


async def released(harness: Harness, lease: Lease) -> None:
    await lease.release()


@pytest.mark.parametrize("back", [released, recalled, reaped, retried, revived, spawned])
async def test_what_becomes_ready_of_a_paused_dag_enters_no_lane(
    harness: Harness, back: Any
) -> None:
    plant = await planted(harness, {"a": []})
    (lease,) = await harness.queue.claim(worker="w1")
    await plant.pause()

    await back(harness, lease)

    found = await plant.after()
    assert [key for key in found if key.startswith("lane:")] == []
    assert len(found["held:D"]) == 1
    await plant.resume()
    assert len(await harness.queue.claim(worker="w1")) == 1


async def test_a_commit_that_goes_on_in_a_paused_dag_fills_no_lane(harness: Harness) -> None:
    plant = await a_plant(harness, MANY).written()
    await plant.commit(limit=1)
    await plant.pause()

    await plant.commit(total="")

    found = await plant.after()
    assert ("lane:1" in found, len(found["held:D"])) == (False, 5)


@pytest.mark.parametrize("field", ["paused", "closing"])
async def test_a_claim_of_one_looks_behind_a_thousand_that_are_not_held_back_yet(
    harness: Harness, field: str
) -> None:
    plant = await planted(harness, {str(at): [] for at in range(1000)})
    other = await submitted(harness, base=BASE + 1)
    await harness.client.hset(harness.keys.dag(plant.dag), field, 1)

    leases = await harness.queue.claim(worker="w1")

    assert [lease.id.ulid for lease in leases] == [other]
    assert await harness.client.scard(harness.keys.held(plant.dag)) == 1000


async def test_one_that_is_held_back_can_be_cancelled_and_moved(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": []})
    await plant.pause()

    await harness.queue.set_priority(plant.ids["b"], 1)
    await harness.queue.cancel(plant.ids["a"])

    found = await plant.after()
    assert (found["held:D"], found["stats"]["1:READY"]) == (["b"], 1)
    assert "lane:1" not in found
    await plant.resume()
    assert (await harness.client.zscore(harness.keys.lane(1), plant.ids["b"].ulid)) == 1_000_000


async def test_one_that_has_ended_says_so(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    await run(plant, a="done")
    before = await harness.dump()

    assert await plant.pause() == ["STATE", "completed"]
    assert await harness.dump() == before


async def test_a_step_of_one_that_has_ended_meanwhile_does_not_stay(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": []})
    first, second = await running(harness, 2)
    await plant.pause(limit=1)
    await first.complete()
    await second.complete()
    assert "hold" in await plant.steps()

    await settled(harness)

    assert await plant.steps() == {}


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_what_nobody_sees_is_gone(harness: Harness, verb: str) -> None:
    plant = await a_plant(harness, DIAMOND).written()
    before = await harness.dump()

    assert await getattr(plant, verb)() == ["GONE"]
    assert await harness.dump() == before


async def test_the_sweep_finds_nothing_wrong(harness: Harness) -> None:
    plant = await planted(harness, MANY)
    await plant.pause()
    before = await harness.dump()

    rows = [(task.ulid,) for task in plant.ids.values()]
    assert await ask(harness, "repair/mend", {"parents": 10}, rows) == ["OK", 0]
    swept = await ask(harness, "repair/sweep", {"from": "-", "limit": 100})
    assert swept == ["OK", "", 0]
    assert await harness.dump() == before
    assert "orphans" not in await afterwards(harness)
