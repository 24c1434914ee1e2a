"""resume: what was held back with a DAG returns to its lanes, and those who wait are answered."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.dag.planted import Edges, planted, settled
from tests.lua.rows import everything, submitted
from tests.lua.task.keys_after import mail, parked

MANY: Edges = {str(at): [] for at in range(5)}


async def test_everything_is_as_it_was_before_the_pause(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": ["a"], "c": []})
    before = await plant.after()
    await plant.pause()

    assert await plant.resume() == ["OK", 0]

    assert await plant.after() == before


async def test_it_goes_in_bounded_steps(harness: Harness) -> None:
    plant = await planted(harness, MANY)
    await plant.pause()

    assert await plant.resume(limit=2) == ["OK", 1]
    assert await plant.steps() == {"unhold": "0"}
    assert len((await plant.after())["lane:1"]) == 2
    assert [await plant.resume(limit=2) for _ in range(2)] == [["OK", 1], ["OK", 0]]

    found = await plant.after()
    assert (len(found["lane:1"]), await plant.steps(), found["stats"]) == (5, {}, {"submitted": 5})


async def test_the_services_go_on_where_a_caller_died(harness: Harness) -> None:
    plant = await planted(harness, MANY)
    await plant.pause()
    await plant.resume(limit=1)

    await settled(harness)

    assert len((await plant.after())["lane:1"]) == 5


async def test_a_pause_that_was_begun_goes_no_further(harness: Harness) -> None:
    plant = await planted(harness, MANY)
    await plant.pause(limit=1)

    await plant.resume()

    assert await plant.steps() == {}
    assert await plant.pause(begin=0) == ["OK", 0]
    assert len((await plant.after())["lane:1"]) == 5


async def test_a_pause_stops_one_that_was_begun(harness: Harness) -> None:
    plant = await planted(harness, MANY)
    await plant.pause()
    await plant.resume(limit=2)

    assert await plant.pause() == ["OK", 0]

    assert await plant.steps() == {}
    assert len((await plant.after())["held:D"]) == 5
    assert await harness.queue.claim(worker="w1", n=9) == []


async def test_claims_that_wait_are_answered(harness: Harness) -> None:
    await submitted(harness)
    await harness.queue.claim(worker="w1")
    plant = await planted(harness, {"a": []})
    await plant.pause()
    waiter = await parked(harness)

    assert await plant.resume() == ["OK", 0]

    assert (await mail(harness, waiter))[0].startswith(f"tasks 1 {plant.ids['a'].ulid} ")


async def test_what_is_given_up_does_not_return(harness: Harness) -> None:
    plant = await planted(harness, MANY)
    await plant.pause()
    await plant.cancel("no need", limit=1)

    assert await plant.resume() == ["OK", 0]

    assert await harness.queue.claim(worker="w1", n=9) == []
    await settled(harness)
    assert await plant.facts() == ("cancelled", "0", "0", "5")


async def test_sent_again_it_changes_nothing(harness: Harness) -> None:
    plant = await planted(harness, MANY)
    await plant.pause()
    await plant.resume()
    before = await everything(harness)

    assert await plant.resume() == ["OK", 0]
    assert await everything(harness) == before
