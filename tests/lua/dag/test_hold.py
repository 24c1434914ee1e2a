"""hold: nothing more of a paused DAG is handed out, and it hides nothing that stands behind it."""

from __future__ import annotations

import pytest

from rqueue import State
from tests.house import House
from tests.lua.dag.planted import DIAMOND, Edges, a_plant, planted, run, running, settled
from tests.lua.dag.test_submit import LANE, TASK
from tests.lua.rows import BASE, submitted
from tests.lua.task.afterwards import afterwards, ask

MANY: Edges = {str(at): [] for at in range(5)}


async def test_what_may_run_leaves_its_lane(house: House) -> None:
    plant = await planted(house, {"a": [], "b": ["a"]})

    assert await plant.hold() == ["OK", 0]

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
    assert await house.queue.claim(worker="w1") == []
    assert (await house.queue.counts())[State.READY] == 1


async def test_what_stands_behind_it_is_handed_out(house: House) -> None:
    plant = await planted(house, MANY)
    other = await submitted(house, base=BASE + 1)
    await plant.hold(limit=1)

    leases = await house.queue.claim(worker="w1")

    assert [lease.id.ulid for lease in leases] == [other]
    found = await plant.after()
    assert "lane:1" not in found
    assert (len(found["held:D"]), found["stats"]["1:READY"]) == (5, 5)


async def test_it_goes_in_bounded_steps(house: House) -> None:
    plant = await planted(house, MANY)

    assert await plant.hold(limit=2) == ["OK", 1]
    assert await plant.steps() == {"hold": "2"}
    assert [await plant.hold(begin=0, limit=2) for _ in range(2)] == [["OK", 1], ["OK", 0]]

    assert (len((await plant.after())["held:D"]), await plant.steps()) == (5, {})


async def test_sent_again_it_changes_nothing(house: House) -> None:
    plant = await planted(house, MANY)
    await plant.hold()
    before = await house.dump()

    assert await plant.hold() == ["OK", 0]
    assert await house.dump() == before


async def test_what_runs_runs_on_and_what_it_frees_is_held_back(house: House) -> None:
    plant = await planted(house, {"a": [], "b": ["a"]})
    (lease,) = await running(house)
    await plant.hold()

    await lease.complete()

    assert await plant.states() == {"a": "COMPLETED", "b": "READY"}
    assert await house.queue.claim(worker="w1") == []
    assert (await plant.after())["held:D"] == ["b"]


async def test_one_that_is_held_back_can_be_cancelled_and_moved(house: House) -> None:
    plant = await planted(house, {"a": [], "b": []})
    await plant.hold()

    await house.queue.set_priority(plant.ids["b"], 1)
    await house.queue.cancel(plant.ids["a"])

    found = await plant.after()
    assert (found["held:D"], found["stats"]["1:READY"]) == (["b"], 1)
    assert "lane:1" not in found
    await plant.unhold()
    assert (await house.client.zscore(house.keys.lane(1), plant.ids["b"].ulid)) == 1_000_000


async def test_one_that_has_ended_says_so(house: House) -> None:
    plant = await planted(house, {"a": []})
    await run(plant, a="done")
    before = await house.dump()

    assert await plant.hold() == ["STATE", "completed"]
    assert await house.dump() == before


async def test_a_step_of_one_that_has_ended_meanwhile_does_not_stay(house: House) -> None:
    plant = await planted(house, {"a": [], "b": []})
    first, second = await running(house, 2)
    await plant.hold(limit=1)
    await first.complete()
    await second.complete()
    assert "hold" in await plant.steps()

    await settled(house)

    assert await plant.steps() == {}


@pytest.mark.parametrize("verb", ["hold", "unhold"])
async def test_what_nobody_sees_is_gone(house: House, verb: str) -> None:
    plant = await a_plant(house, DIAMOND).written()
    before = await house.dump()

    assert await getattr(plant, verb)() == ["GONE"]
    assert await house.dump() == before


async def test_the_sweep_finds_nothing_wrong(house: House) -> None:
    plant = await planted(house, MANY)
    await plant.hold()
    before = await house.dump()

    rows = [(task.ulid,) for task in plant.ids.values()]
    assert await ask(house, "queue/mend", {"parents": 10}, rows) == ["OK", 0]
    swept = await ask(house, "queue/sweep", {"from": "-", "limit": 100})
    assert swept == ["OK", "", 0]
    assert await house.dump() == before
    assert "orphans" not in await afterwards(house)
