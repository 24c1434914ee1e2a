"""watch: registers a mailbox that is notified when tasks end."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.leases import Settled, complete
from tests.harness import Harness
from tests.lua.rows import everything, held, pttl, submitted, words


async def watch(harness: Harness, *tasks: str, box: str = "box") -> list[str]:
    args: dict[str, Any] = {"box": box, "keep_ms": 60_000}
    reply = words(
        await harness.queue._internals.shard.run("task/watch", args, [(task,) for task in tasks])
    )
    assert reply[0] == "OK"
    found: list[str] = reply[1:]
    return found


async def test_a_live_task_stores_its_watcher_for_a_while(harness: Harness) -> None:
    task = await submitted(harness)
    before = await everything(harness)

    assert await watch(harness, task) == ["READY"]

    before[f"task:{task}"]["flags"] = "w"
    before[f"watchers:{task}"] = {"box"}
    assert await everything(harness) == before
    assert 0 < await pttl(harness, f"watchers:{task}") <= 60_000


async def test_a_repeated_call_changes_only_the_time(harness: Harness) -> None:
    task = await submitted(harness)
    await watch(harness, task)
    before = await harness.dump()
    await harness.client.pexpire(harness.keys.watchers(task), 5000)

    assert await watch(harness, task, task) == ["READY", "READY"]

    assert await harness.dump() == before
    assert await pttl(harness, f"watchers:{task}") > 5000


async def test_several_mailboxes_may_watch(harness: Harness) -> None:
    task = await submitted(harness, more={"tags": ["t"]})

    await watch(harness, task, box="a")
    await watch(harness, task, box="b")

    found = await everything(harness)
    assert found[f"watchers:{task}"] == {"a", "b"}
    assert found[f"task:{task}"]["flags"] == "mw"


@pytest.mark.parametrize("begun", [0, 1], ids=["CLAIMED", "RUNNING"])
async def test_a_leased_task_is_watched_too(harness: Harness, begun: int) -> None:
    lease = await held(harness, start=begun)

    assert await watch(harness, lease.task) == ["RUNNING" if begun else "CLAIMED"]

    assert (await everything(harness))[f"watchers:{lease.task}"] == {"box"}


async def test_a_waiting_task_is_watched_too(harness: Harness) -> None:
    task = await submitted(harness, options={"delay": 60_000})

    assert await watch(harness, task) == ["PENDING"]

    assert (await everything(harness))[f"watchers:{task}"] == {"box"}


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "DEAD_LETTERED"])
async def test_an_ended_task_replies_its_state_and_stores_no_watcher(
    harness: Harness, state: str
) -> None:
    lease = await held(harness)
    match state:
        case "COMPLETED":
            await complete(harness.queue._internals.shard, [Settled(*lease, b"")])
        case "CANCELLED":
            await harness.queue.cancel(f"task_{lease.task}")
        case _:
            await harness.client.hset(harness.keys.task(lease.task), "state", state)
    before = await harness.dump()

    assert await watch(harness, lease.task) == [state]

    assert await harness.dump() == before


async def test_an_unknown_task_is_gone_and_leaves_nothing(harness: Harness) -> None:
    assert await watch(harness, "NOBODY") == ["GONE"]

    assert await harness.dump() == {}


async def test_each_task_gets_its_own_word(harness: Harness) -> None:
    ready, lease = await submitted(harness), None
    lease = await submitted(harness, options={"delay": 60_000})

    assert await watch(harness, ready, "NOBODY", lease) == ["READY", "GONE", "PENDING"]
