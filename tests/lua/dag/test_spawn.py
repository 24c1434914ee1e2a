"""spawn: a running task adds tasks to its DAG, all or none, and may suspend until they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rqueue import Lease
from rqueue.core.submit import lanes_text
from rqueue.dags import store as dag_store
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from rqueue.task.ids import new_task_id
from rqueue.task.lane import Lane
from tests.harness import Harness
from tests.lua.dag.dags import committed_dag, running
from tests.lua.rows import BASE, DEFINITION, PLAIN, to_json
from tests.lua.task.keyspace import LANES, W1, all_keys, mailbox_lines, run_move, waiting_claim

Row = tuple[str, str, str, str, str]
FLAT_LANE = '{"rate":0.0,"type":"code"}'
TWO_LANES = {"lanes": LANES["lanes"] | {FLAT_LANE: "2", "next": "2"}}
CHILD = {
    "created": "*", "def0": "*", "flags": "P", "lane": "2", "rank": "0", "score": "*",
}  # fmt: skip
ALONE = {
    "created": "*", "edges": "0", "on_failure": "hold", "cancelled": "0", "dead": "0",
}  # fmt: skip


def row(key: str, *, more: Any = None, base: int = BASE, **options: Any) -> Row:
    """One task of a spawn."""
    special = f"{to_json(more)}\n{to_json(options)}"
    return key, new_task_id().ulid, f"1 {base} 0", DEFINITION, special


async def spawn(harness: Harness, lease: Lease, rows: Sequence[Row], **changes: Any) -> list[Any]:
    """The reply to a spawn of a task that runs."""
    args: dict[str, Argument] = {
        "parent": lease.id.ulid, "token": lease.token, "wait": "", "rule": "own_dag",
        "max_nodes": 10, "lanes": lanes_text((PLAIN,)), "max_lanes": 512, "steps": 100,
        **ANSWER_LIMITS,
         "gather": "", "part": "", "keep_ms": 60_000, "who": "",
    }  # fmt: skip
    assert not set(changes) - set(args)
    return await run_move(harness, "dag/spawn", args | changes, rows)


async def dag_fields(harness: Harness, dag: str) -> dict[str, str]:
    """A DAG's own hash, its times as `*`."""
    found = await harness.client.hgetall(harness.keys.dag(dag))
    times = {b"created", b"finished"}
    return {
        name.decode(): "*" if name in times else value.decode() for name, value in found.items()
    }


async def test_a_task_without_a_dag_becomes_a_dag_with_its_spawned_tasks(harness: Harness) -> None:
    lease = await harness.running()
    new = row("one")

    reply = await spawn(harness, lease, [new])

    found = await all_keys(harness, P=lease.id, c=new[1])
    dag = found.pop("dag:P")
    assert reply == ["OK", 0, "GOING", new[1], "READY"]
    assert dag == ALONE | {"created": dag["created"], "open": "2", "status": "running",
        "total": "2"}  # fmt: skip
    assert found.pop("dags") is not None
    assert found.pop("task:P")["flags"] == "Ps"
    assert found.pop("task:c") == CHILD | {"entry": "*", "state": "READY"}
    assert found == TWO_LANES | W1 | {
        "members:P": ["P", "c"],
        "spawned:P": {"one": "c"},
        "unfinished": {"rank P": "1"},
        "ready": (["P", "c"], {"P": "w1"}),
        "lane:2": ["c"],
        "stats": {"1:RUNNING": 1, "submitted": 2},
    }


async def test_a_suspended_task_leaves_its_worker_and_spends_no_attempt(harness: Harness) -> None:
    lease = await harness.running()
    new = row("one")

    reply = await spawn(harness, lease, [new], wait="success")

    found = await all_keys(harness, P=lease.id, c=new[1])
    assert reply == ["OK", 0, "SUSPENDED", new[1], "READY"]
    assert found["task:P"] == {
        "created": "*", "def0": "*", "flags": "Ps", "holder": "* * w1", "lane": "1",
        "score": "*", "settled": "suspend 1:*", "state": "PENDING", "suspended": "1",
        "token": "1:*", "owed": f"{lease.token} 0 w1",
    }  # fmt: skip
    assert found["task:c"]["flags"] == "Pd"
    assert (found["waits:P"], found["dependents:c"]) == (["c"], ["P"])
    assert (found["ready"], found["blocked"]) == ((["c"], {}), ["P"])
    assert found["stats"] == {"1:PENDING": 1, "submitted": 2}
    assert await lease_is_lost(harness, lease)


async def lease_is_lost(harness: Harness, lease: Lease) -> bool:
    """Whether no settle of the lease is taken any more."""
    before = await harness.dump()
    complete = {"archive": 0, "ttl": 1000, "limit": 10, "tries": 10, "events": 10}
    held = (lease.id.ulid, lease.token)
    reply = [
        await run_move(harness, "task/complete", complete, [(*held, "1")]),
        await run_move(harness, "task/release", {**ANSWER_LIMITS, "tries": 10}, [held]),
    ]
    return reply == [["OK", 0, "LOST"]] * 2 and await harness.dump() == before


async def test_a_suspended_task_is_ready_when_the_last_spawned_task_has_ended(
    harness: Harness,
) -> None:
    lease = await harness.running()
    rows = [row("one"), row("two")]
    await spawn(harness, lease, rows, wait="success")

    one, two = await running(harness, 2)
    await one.complete("x")
    waits = (await harness.task(lease.id)).state
    await two.complete("y")

    (again,) = await running(harness)
    assert (waits, again.id) == ("PENDING", lease.id)
    assert (again.task.attempts, again.task.epoch) == (0, 2)
    found = await all_keys(harness, P=lease.id)
    assert "suspended" not in found["task:P"]
    assert not {"waits:P", "blocked"} & set(found)
    # It finds its spawned tasks, and none is left to wait for.
    reply = await spawn(harness, again, [row("one"), row("two")], wait="success")
    assert reply == ["OK", 0, "GOING", rows[0][1], "COMPLETED", rows[1][1], "COMPLETED"]
    await again.complete("z")
    assert (await dag_fields(harness, lease.id.ulid))["status"] == "completed"


async def test_known_keys_are_not_spawned_again(harness: Harness) -> None:
    lease = await harness.running()
    first = row("one")
    await spawn(harness, lease, [first])
    second = row("two")

    reply = await spawn(harness, lease, [row("one"), second])

    assert reply == ["OK", 0, "GOING", first[1], "READY", second[1], "READY"]
    assert (await dag_fields(harness, lease.id.ulid))["total"] == "3"


@pytest.mark.parametrize("wait", ["", "success"])
async def test_a_repeated_key_of_one_call_means_one_task(harness: Harness, wait: str) -> None:
    lease = await harness.running()
    first, second = row("one"), row("one", more={"ext": "own"})

    reply = await spawn(harness, lease, [first, second], wait=wait)

    assert reply[3:] == [first[1], "READY"] * 2
    assert (await dag_fields(harness, lease.id.ulid))["total"] == "2"
    found = await all_keys(harness, P=lease.id, c=first[1])
    assert (found["spawned:P"], found["members:P"]) == ({"one": "c"}, ["P", "c"])
    assert not {f"task:{second[1]}", "ext:own"} & set(found)
    assert found["stats"]["submitted"] == 2


@pytest.mark.parametrize("wait", ["", "success", "done"])
async def test_a_repeated_call_gets_the_same_reply_and_changes_nothing(
    harness: Harness, wait: str
) -> None:
    lease = await harness.running()
    rows = [row("one"), row("two", more={"tags": ["t"]}, delay=3_600_000)]
    first = await spawn(harness, lease, rows, wait=wait)
    before = await harness.dump()

    second = await spawn(harness, lease, rows, wait=wait)

    assert second == first
    assert first[2] == ("SUSPENDED" if wait in ("success", "done") else "GOING")
    assert await harness.dump() == before


async def test_a_repeated_call_after_another_claim_replies_suspended(
    harness: Harness,
) -> None:
    lease = await harness.running()
    rows = [row("one")]
    await spawn(harness, lease, rows, wait="success")
    await (await running(harness))[0].complete("x")
    await running(harness)
    before = await harness.dump()

    reply = await spawn(harness, lease, rows, wait="success")

    assert reply == ["OK", 0, "SUSPENDED", rows[0][1], "COMPLETED"]
    assert await harness.dump() == before


async def test_a_suspended_task_adds_nothing(harness: Harness) -> None:
    lease = await harness.running()
    await spawn(harness, lease, [row("one")], wait="success")
    before = await harness.dump()

    assert await spawn(harness, lease, [row("two")]) == ["LOST"]
    assert await spawn(harness, lease, [row("two")], wait="success") == ["LOST"]
    assert await harness.dump() == before


@pytest.mark.parametrize("state", ["stale", "claimed only", "completed", "gone"])
async def test_only_the_holder_of_a_running_task_may_spawn(harness: Harness, state: str) -> None:
    lease = await (harness.claimed() if state == "claimed only" else harness.running())
    if state == "stale":
        await lease.release()
        await harness.queue.claim(worker="w2")
    elif state == "completed":
        await lease.complete()
    elif state == "gone":
        await harness.client.delete(harness.keys.task(lease.id.ulid))
    before = await harness.dump()

    assert await spawn(harness, lease, [row("one")]) == ["LOST"]
    assert await harness.dump() == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rule": "none"}, ["RULE", "none"]),
        ({"rule": "same_agent", "lanes": lanes_text((Lane("code", 0.0, "x"),))},
         ["RULE", "same_agent"]),
        ({"max_nodes": 2}, ["FULL"]),
        ({"max_lanes": 1}, ["LANES"]),
    ],
)  # fmt: skip
async def test_a_refusal_writes_nothing(
    harness: Harness, changes: dict[str, Any], words: list[str]
) -> None:
    lease = await harness.running()
    before = await harness.dump()

    assert await spawn(harness, lease, [row("one"), row("two")], **changes) == words
    assert await harness.dump() == before


@pytest.mark.parametrize("wait", ["", "success"])
async def test_one_refused_task_refuses_all(harness: Harness, wait: str) -> None:
    lease = await harness.running()
    other = await harness.queue.enqueue("code", external_id="mine")
    gone = new_task_id().ulid
    named = row("two", more={"ext": await external(harness, other.id.ulid)})
    before = await harness.dump()

    lost = await spawn(harness, lease, [row("one"), row("two", outside=[gone])], wait=wait)
    exists = await spawn(harness, lease, [row("one"), named], wait=wait)

    assert lost == ["PARENT", "two", gone]
    assert exists == ["EXISTS", "two", other.id.ulid]
    assert await harness.dump() == before


async def test_two_tasks_with_the_same_external_id_refuse_all(harness: Harness) -> None:
    lease = await harness.running()
    rows = [row("one", more={"ext": "own"}), row("two", more={"ext": "own"})]
    before = await harness.dump()

    assert await spawn(harness, lease, rows) == ["EXISTS", "two", rows[0][1]]
    assert await harness.dump() == before


async def external(harness: Harness, task: str) -> str:
    """The hash under which a task's own id is kept."""
    (key,) = [
        key for key in await harness.client.keys("*ext:*")
        if await harness.client.get(key) == task.encode()
    ]  # fmt: skip
    return str(key.decode().rpartition(":")[2])


async def test_a_cycle_is_refused_and_so_is_a_search_that_takes_too_long(
    harness: Harness,
) -> None:
    dag = await committed_dag(harness, {"p": [], "a": ["p"], "b": ["a"], "other": []})
    (lease, *_) = [one for one in await running(harness, 2) if one.id == dag.ids["p"]]
    after_b = row("s", outside=[dag.ids["b"].ulid])
    before = await harness.dump()

    assert await spawn(harness, lease, [row("x"), after_b], wait="success") == ["CYCLE", "s"]
    part = {"gather": "g", "part": "first"}
    assert await spawn(harness, lease, [after_b], wait="success", **part) == ["CYCLE", "s"]
    assert await spawn(harness, lease, [row("x"), after_b], wait="done", steps=1) == ["FAR", "s"]
    assert await harness.dump() == before
    assert (await spawn(harness, lease, [after_b]))[2] == "GOING"


async def test_no_edges_are_followed_where_the_parent_has_no_dependents(
    harness: Harness,
) -> None:
    lease = await harness.running()
    chain = await committed_dag(harness, {"a": [], "b": ["a"], "c": ["b"]})
    far, own = row("far", outside=[chain.ids["c"].ulid]), row("own", outside=[lease.id.ulid])

    assert await spawn(harness, lease, [own], wait="success") == ["CYCLE", "own"]
    assert (await spawn(harness, lease, [far], wait="success", steps=1))[2] == "SUSPENDED"


async def test_a_cycle_through_an_existing_task_is_found(harness: Harness) -> None:
    dag = await committed_dag(harness, {"p": [], "a": ["p"]})
    (lease,) = await running(harness)
    after_a = row("s", outside=[dag.ids["a"].ulid])
    await spawn(harness, lease, [after_a])
    before = await harness.dump()

    assert await spawn(harness, lease, [after_a], wait="success") == ["CYCLE", "s"]
    assert await harness.dump() == before


async def test_a_cancelled_dag_accepts_no_new_task_and_returns_known_ones(
    harness: Harness,
) -> None:
    dag = await committed_dag(harness, {"p": [], "a": ["p"]})
    (lease,) = await running(harness)
    first = row("one")
    await spawn(harness, lease, [first])
    await harness.client.hset(harness.keys.dag(dag.ulid), "closing", "failed")
    before = await harness.dump()

    assert await spawn(harness, lease, [row("two")]) == ["CLOSED"]
    assert await spawn(harness, lease, [first]) == ["OK", 0, "GOING", first[1], "READY"]
    assert await harness.dump() == before


async def test_a_task_that_waits_for_a_time_or_for_others_is_pending(harness: Harness) -> None:
    lease = await harness.running()
    other = (await harness.queue.enqueue("code")).id.ulid
    late, after = row("late", delay=3_600_000), row("after", outside=[other])

    reply = await spawn(harness, lease, [late, after])

    found = await all_keys(harness, P=lease.id, l=late[1], a=after[1], o=other)
    assert reply == ["OK", 0, "GOING", late[1], "PENDING", after[1], "PENDING"]
    assert (found["waits:l"], found["waits:a"]) == (["@time"], ["o"])
    assert (found["delayed"], sorted(found["blocked"])) == (["l"], ["a", "l"])
    assert found["dependents:o"] == ["a"]
    assert found["stats"] == {"1:RUNNING": 1, "2:PENDING": 2, "submitted": 4}


async def test_a_waiting_claim_is_answered(harness: Harness) -> None:
    lease = await harness.running()
    waiter = await waiting_claim(harness)
    new = row("one")

    reply = await spawn(harness, lease, [new], lanes=lanes_text((Lane("code", 0.1),)))

    (line,) = await mailbox_lines(harness, waiter)
    assert reply[:4] == ["OK", 0, "GOING", new[1]]
    assert line.startswith(f"tasks 1 {new[1]} ")


@pytest.mark.parametrize(("wait", "resumed"), [("success", False), ("done", True)])
async def test_a_dead_task_meets_a_wait_for_any_end(
    harness: Harness, wait: str, resumed: bool
) -> None:
    lease = await harness.running()
    await spawn(harness, lease, [row("one")], wait=wait)

    await (await running(harness))[0].fail("error", "no", permanent=True)
    await harness.promoter.tick()

    state = (await harness.task(lease.id)).state
    dag = await dag_store.read(
        harness.queue._internals.shard, (await harness.task(lease.id)).dag_id
    )
    assert state == ("READY" if resumed else "PENDING")
    assert (dag.status, dag.dead, dag.open) == ("failed", 1, 1)
