"""pause: no task of a paused DAG can be claimed, and it does not block the tasks behind it."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue import Lease, State
from tests.harness import Harness
from tests.lua.dag.dags import DIAMOND, Edges, committed_dag, fan, run, running, settled, unsent_dag
from tests.lua.dag.test_spawn import row, spawn
from tests.lua.dag.test_submit import LANE, TASK
from tests.lua.rows import BASE, everything, submitted
from tests.lua.task.keyspace import all_keys, mailbox_lines, run_move, waiting_claim

MANY: Edges = {str(at): [] for at in range(5)}


async def test_ready_tasks_leave_their_lanes(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": ["a"]})

    assert await dag.pause() == ["OK", 0]

    found = await dag.after()
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


async def test_tasks_behind_a_paused_dag_are_claimed(harness: Harness) -> None:
    dag = await committed_dag(harness, MANY)
    other = await submitted(harness, base=BASE + 1)
    await dag.pause(limit=1)

    leases = await harness.queue.claim(worker="w1")

    assert [lease.id.ulid for lease in leases] == [other]
    found = await dag.after()
    assert "lane:1" not in found
    assert (len(found["held:D"]), found["stats"]["1:READY"]) == (5, 5)


async def test_a_pause_takes_bounded_steps(harness: Harness) -> None:
    dag = await committed_dag(harness, MANY)

    assert await dag.pause(limit=2) == ["OK", 1]
    assert await dag.steps() == {"hold": "2"}
    assert [await dag.pause(begin=0, limit=2) for _ in range(2)] == [["OK", 1], ["OK", 0]]

    assert (len((await dag.after())["held:D"]), await dag.steps()) == (5, {})


async def test_a_repeated_call_changes_nothing(harness: Harness) -> None:
    dag = await committed_dag(harness, MANY)
    await dag.pause()
    before = await everything(harness)

    assert await dag.pause() == ["OK", 0]
    assert await everything(harness) == before


async def test_running_tasks_continue_and_tasks_they_unblock_are_held(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": ["a"]})
    (lease,) = await running(harness)
    await dag.pause()

    await lease.complete()

    assert await dag.states() == {"a": "COMPLETED", "b": "READY"}
    found = await dag.after()
    assert (found["held:D"], "lane:1" in found, found["stats"]["1:READY"]) == (["b"], False, 1)
    assert await harness.queue.claim(worker="w1") == []
    await dag.resume()
    assert [one.id for one in await running(harness)] == [dag.ids["b"]]


@pytest.mark.parametrize("trigger", ["", "all_done"])
async def test_a_wide_fan_out_of_a_paused_dag_blocks_no_claim(
    harness: Harness, trigger: str
) -> None:
    edges = fan(600)
    more = {name: {"trigger": trigger} for name in edges if name != "a"} if trigger else {}
    dag = await committed_dag(harness, edges, more=more)
    (root,) = await running(harness)
    await dag.pause()
    waiter = await waiting_claim(harness)

    await root.complete()
    await harness.promoter.tick()

    assert await harness.client.exists(harness.keys.lane(1)) == 0
    assert await harness.client.scard(harness.keys.held(dag.ulid)) == 600
    assert await mailbox_lines(harness, waiter) == []
    other = await submitted(harness, base=BASE + 1)
    assert [line.split(" ")[2] for line in await mailbox_lines(harness, waiter)] == [other]


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
async def test_a_task_that_becomes_ready_in_a_paused_dag_enters_no_lane(
    harness: Harness, back: Any
) -> None:
    dag = await committed_dag(harness, {"a": []})
    (lease,) = await harness.queue.claim(worker="w1")
    await dag.pause()

    await back(harness, lease)

    found = await dag.after()
    assert [key for key in found if key.startswith("lane:")] == []
    assert len(found["held:D"]) == 1
    await dag.resume()
    assert len(await harness.queue.claim(worker="w1")) == 1


async def test_a_commit_that_continues_in_a_paused_dag_fills_no_lane(harness: Harness) -> None:
    dag = await unsent_dag(harness, MANY).written()
    await dag.commit(limit=1)
    await dag.pause()

    await dag.commit(total="")

    found = await dag.after()
    assert ("lane:1" in found, len(found["held:D"])) == (False, 5)


@pytest.mark.parametrize("field", ["paused", "closing"])
async def test_a_claim_finds_a_task_behind_a_thousand_that_are_not_held_yet(
    harness: Harness, field: str
) -> None:
    dag = await committed_dag(harness, {str(at): [] for at in range(1000)})
    other = await submitted(harness, base=BASE + 1)
    await harness.client.hset(harness.keys.dag(dag.ulid), field, 1)

    leases = await harness.queue.claim(worker="w1")

    assert [lease.id.ulid for lease in leases] == [other]
    assert await harness.client.scard(harness.keys.held(dag.ulid)) == 1000


async def test_a_held_task_can_be_cancelled_and_moved(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": []})
    await dag.pause()

    await harness.queue.set_priority(dag.ids["b"], 1)
    await harness.queue.cancel(dag.ids["a"])

    found = await dag.after()
    assert (found["held:D"], found["stats"]["1:READY"]) == (["b"], 1)
    assert "lane:1" not in found
    await dag.resume()
    assert (await harness.client.zscore(harness.keys.lane(1), dag.ids["b"].ulid)) == 1_000_000


async def test_an_ended_dag_is_refused(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []})
    await run(dag, a="done")
    before = await harness.dump()

    assert await dag.pause() == ["STATE", "completed"]
    assert await harness.dump() == before


async def test_the_step_of_a_dag_that_ended_meanwhile_is_removed(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": [], "b": []})
    first, second = await running(harness, 2)
    await dag.pause(limit=1)
    await first.complete()
    await second.complete()
    assert "hold" in await dag.steps()

    await settled(harness)

    assert await dag.steps() == {}


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_an_uncommitted_dag_is_gone(harness: Harness, verb: str) -> None:
    dag = await unsent_dag(harness, DIAMOND).written()
    before = await harness.dump()

    assert await getattr(dag, verb)() == ["GONE"]
    assert await harness.dump() == before


async def test_the_sweeper_repairs_nothing(harness: Harness) -> None:
    dag = await committed_dag(harness, MANY)
    await dag.pause()
    before = await harness.dump()

    rows = [(task.ulid,) for task in dag.ids.values()]
    assert await run_move(harness, "repair/mend", {"parents": 10}, rows) == ["OK", 0]
    swept = await run_move(harness, "repair/sweep", {"from": "-", "limit": 100})
    assert swept == ["OK", "", 0]
    assert await harness.dump() == before
    assert "orphans" not in await all_keys(harness)
