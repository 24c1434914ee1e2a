"""Wide DAGs: many dependents are resolved in bounded steps, and a crash between two loses none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from rqueue import State
from rqueue.core import spawn as spawn_moves
from rqueue.core import tasks
from rqueue.core.spawn import SpawnDraft
from rqueue.dags import store as dag_store
from rqueue.dags import submit as dag_submit
from rqueue.store import shard
from rqueue.task.ids import new_task_ids
from tests.harness import Harness
from tests.lua.dag.dags import StoredDag, committed_dag, fan, run, running, settled, unsent_dag
from tests.lua.task.keyspace import run_move

WIDE = 2000
# The longest time that one call may block the server.
MOST_MS = 20
CALL: dict[str, Any] = {"tries": 100, "events": 1000}


async def complete(dag: StoredDag, name: str, limit: int) -> list[Any]:
    """Completes a task, with so many dependents resolved in the same call."""
    leases = await running(dag.harness, 1)
    (lease,) = [one for one in leases if one.id == dag.ids[name]]
    args = {"archive": 0, "ttl": 60_000, "limit": limit, **CALL}
    return await run_move(dag.harness, "task/complete", args, [(lease.id.ulid, lease.token, "")])


@pytest.mark.parametrize("trigger", ["", "all_done"])
async def test_a_wide_fan_out_is_unblocked_in_steps_that_any_client_takes(
    harness: Harness, trigger: str
) -> None:
    edges = fan(WIDE)
    more = {name: {"trigger": trigger} for name in edges if name != "a"} if trigger else {}
    dag = await committed_dag(harness, edges, more=more)

    assert await complete(dag, "a", 300) == ["OK", 1, "OK"]

    unblocked = [await harness.client.zcard(harness.keys.lane(1))]
    while (await run_move(harness, "task/unblock", {"limit": 300, **CALL}))[1]:
        unblocked.append(await harness.client.zcard(harness.keys.lane(1)))
    assert unblocked[0] == 300
    assert all(0 < after - before <= 300 for before, after in pairwise(unblocked))
    assert unblocked[-1] + 300 >= WIDE
    keys, dependency = harness.keys, dag.ids["a"].ulid
    assert not await harness.client.exists(
        keys.unblocking(), keys.telling(), keys.dependents(dependency), keys.triggered(dependency),
        keys.blocked(),
    )  # fmt: skip
    assert await harness.client.xlen(keys.ready()) == WIDE
    counts = await harness.queue.counts()
    assert (counts[State.READY], counts[State.PENDING]) == (WIDE, 0)


async def test_the_end_of_a_wide_fan_in_unblocks_the_last_task_once(harness: Harness) -> None:
    dag = await committed_dag(harness, fan(1000, to_one=True))
    assert (
        len(await harness.client.lrange(harness.keys.parents(dag.ids["end"].ulid), 0, -1)) == 1000
    )
    leases = [*await running(harness, 500), *await running(harness, 500)]

    await asyncio.gather(*(lease.complete() for lease in leases[:-1]))
    assert (await dag.states())["end"] == "PENDING"
    await leases[-1].complete()

    assert (await dag.states())["end"] == "READY"
    await run(dag, end="done")
    assert await dag.facts() == ("completed", "0", "0", "0")
    keys = harness.keys
    assert not await harness.client.exists(keys.blocked(), keys.waits(dag.ids["end"].ulid))
    assert (await harness.queue.counts())[State.COMPLETED] == 1001


async def test_dependencies_skip_a_cancelled_task_that_waited_for_thousands(
    harness: Harness,
) -> None:
    dag = await committed_dag(harness, fan(1001, to_one=True))
    end, first = dag.ids["end"].ulid, dag.ids["0"].ulid

    await harness.queue.cancel(dag.ids["end"])

    assert not await harness.client.exists(harness.keys.waits(end), harness.keys.blocked())
    await run(dag, **{"0": "done", "1": "dead"})
    assert (await dag.states())["end"] == "CANCELLED"
    assert not await harness.client.exists(harness.keys.dependents(first))
    await dag.cancel("no need", limit=2000)
    await settled(harness)
    assert await dag.facts() == ("failed", "0", "1", "1000")
    await harness.queue.dead.discard(dag.ids["1"])
    await settled(harness)
    assert await dag.facts() == ("cancelled", "0", "0", "1001")
    left = [one for one in await harness.client.keys("*") if b"dependents:" in one]
    assert left == []


async def typical(harness: Harness, calls: Awaitable[Any]) -> float:
    """How long one call takes the server, in ms: the middle of those that take more than one. The
    longest says more of what else this machine does.
    """
    client = harness.client
    await client.config_set("slowlog-max-len", 1000)
    await client.config_set("slowlog-log-slower-than", 1000)
    await client.slowlog_reset()
    await calls
    log = [one for one in await client.slowlog_get(1000) if one["command"].startswith(b"EVAL")]
    return float(median([one["duration"] for one in log] or [0])) / 1000


async def drained(harness: Harness, move: str, args: dict[str, Any]) -> None:
    """Calls a move until the reply has no more."""
    while (await run_move(harness, move, args))[1]:
        pass


@pytest.mark.alone
@pytest.mark.parametrize("to_one", [False, True])
async def test_no_step_blocks_the_server_for_long(alone: Harness, to_one: bool) -> None:
    dag = unsent_dag(alone, fan(2500, to_one=to_one))
    here, dag_id = alone.queue._internals.shard, dag.draft.id

    found = {"submit": await typical(alone, dag.written())}
    found["commit"] = await typical(alone, dag_submit.commit(here, dag_id, total=2501))
    if not to_one:
        found["complete"] = await typical(alone, complete(dag, "a", shard.UNBLOCK_LIMIT))
        rest = drained(alone, "task/unblock", {"limit": shard.UNBLOCK_LIMIT, **CALL})
        found["unblock"] = await typical(alone, rest)
    found["cancel"] = await typical(alone, dag_store.cancel(here, dag_id, "no need"))
    found["cascade"] = await typical(alone, alone.promoter.tick())
    found["forget"] = await typical(alone, dag_store.forget(here, dag_id))

    assert max(found.values()) < MOST_MS, found


@pytest.mark.alone
async def test_a_cascade_takes_steps_that_do_not_block_the_server_for_long(alone: Harness) -> None:
    dag = await committed_dag(alone, fan(2500))
    here, left = alone.queue._internals.shard, [dag.ids["a"].ulid]
    ended = []

    async def cascade() -> None:
        more = tasks.CASCADING
        while more == tasks.CASCADING:
            reply = await tasks.cancel_page(here, left, "no need", "cascade")
            left.clear()
            more, number, *_ = map(int, reply[:2])
            ended.append(number)

    longest = await typical(alone, cascade())

    assert (sum(ended), longest < MOST_MS) == (2501, True)
    assert max(ended) <= shard.CANCEL_LIMIT


@pytest.mark.alone
async def test_a_wait_for_thousands_of_tasks_does_not_block_the_server_for_long(
    alone: Harness,
) -> None:
    lease, draft = await alone.running(), alone.queue._internals.drafter.draft({"type": "code"})
    many = [SpawnDraft(str(at), id, draft) for at, id in enumerate(new_task_ids(WIDE))]
    spawned = spawn_moves.spawn(alone.queue._internals.shard, lease.held, many, wait="success")

    longest = await typical(alone, spawned)

    assert longest < MOST_MS
    assert await alone.client.scard(alone.keys.waits(lease.id.ulid)) == WIDE


@pytest.mark.alone
async def test_a_task_with_the_most_dependencies_does_not_block_the_server_for_long(
    alone: Harness,
) -> None:
    queue = alone.queue
    most = queue.settings.max_depends_on
    above = [one.id for one in await queue.enqueue_many([queue.call("code")] * most)]
    plan = {"tasks": [{"type": "code", "after": [str(dependency) for dependency in above]}] * 3}

    found = {"enqueue": await typical(alone, queue.enqueue("code", depends_on=above))}
    found["submit"] = await typical(alone, queue.dags.submit(plan))

    assert max(found.values()) < MOST_MS, found
