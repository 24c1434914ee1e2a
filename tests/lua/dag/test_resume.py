"""resume: held tasks of a paused DAG return to their lanes, and waiting claims are answered."""

from __future__ import annotations

from tests.harness import Harness
from tests.lua.dag.dags import Edges, committed_dag, settled
from tests.lua.rows import everything, submitted
from tests.lua.task.keyspace import mailbox_lines, waiting_claim

MANY: Edges = {str(at): [] for at in range(5)}


async def test_a_resume_restores_the_state_before_the_pause(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": ["a"], "c": []})
    before = await dag.after()
    await dag.pause()

    assert await dag.resume() == ["OK", 0]

    assert await dag.after() == before


async def test_a_resume_takes_bounded_steps(harness: Harness) -> None:
    dag = await committed_dag(harness, MANY)
    await dag.pause()

    assert await dag.resume(limit=2) == ["OK", 1]
    assert await dag.steps() == {"unhold": "0"}
    assert len((await dag.after())["lane:1"]) == 2
    assert [await dag.resume(limit=2) for _ in range(2)] == [["OK", 1], ["OK", 0]]

    found = await dag.after()
    assert (len(found["lane:1"]), await dag.steps(), found["stats"]) == (5, {}, {"submitted": 5})


async def test_the_services_continue_after_a_caller_died(harness: Harness) -> None:
    dag = await committed_dag(harness, MANY)
    await dag.pause()
    await dag.resume(limit=1)

    await settled(harness)

    assert len((await dag.after())["lane:1"]) == 5


async def test_a_resume_stops_an_unfinished_pause(harness: Harness) -> None:
    dag = await committed_dag(harness, MANY)
    await dag.pause(limit=1)

    await dag.resume()

    assert await dag.steps() == {}
    assert await dag.pause(begin=0) == ["OK", 0]
    assert len((await dag.after())["lane:1"]) == 5


async def test_a_pause_stops_an_unfinished_resume(harness: Harness) -> None:
    dag = await committed_dag(harness, MANY)
    await dag.pause()
    await dag.resume(limit=2)

    assert await dag.pause() == ["OK", 0]

    assert await dag.steps() == {}
    assert len((await dag.after())["held:D"]) == 5
    assert await harness.queue.claim(worker="w1", n=9) == []


async def test_waiting_claims_are_answered(harness: Harness) -> None:
    await submitted(harness)
    await harness.queue.claim(worker="w1")
    dag = await committed_dag(harness, {"a": []})
    await dag.pause()
    waiter = await waiting_claim(harness)

    assert await dag.resume() == ["OK", 0]

    assert (await mailbox_lines(harness, waiter))[0].startswith(f"tasks 1 {dag.ids['a'].ulid} ")


async def test_tasks_of_a_cancelled_dag_do_not_return(harness: Harness) -> None:
    dag = await committed_dag(harness, MANY)
    await dag.pause()
    await dag.cancel("no need", limit=1)

    assert await dag.resume() == ["OK", 0]

    assert await harness.queue.claim(worker="w1", n=9) == []
    await settled(harness)
    assert await dag.facts() == ("cancelled", "0", "0", "5")


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    dag = await committed_dag(harness, MANY)
    await dag.pause()
    await dag.resume()
    before = await everything(harness)

    assert await dag.resume() == ["OK", 0]
    assert await everything(harness) == before
