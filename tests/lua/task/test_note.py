"""note: progress, checkpoint, log and cost of a running task, stored while it is leased."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.leases import HeldLease, Settled, complete
from rqueue.core.notes import note
from rqueue.errors import LeaseLost
from rqueue.task.task import Note
from tests.harness import Harness
from tests.lua.rows import everything, held, pttl


async def report(harness: Harness, lease: HeldLease, seq: int = 1, **changes: Any) -> None:
    await note(harness.queue._internals.shard, lease, Note(**changes), seq=seq)


async def test_a_note_is_stored_with_the_task(harness: Harness) -> None:
    lease = await held(harness)
    before = await everything(harness)

    await report(
        harness, lease, progress={"done": 3}, checkpoint=[1], line="half", usd=0.25, tokens_in=7
    )

    found = await everything(harness)
    assert found.pop(f"notes:{lease.task}") == {
        "progress": '{"done":3}',
        "checkpoint": "[1]",
        "micro_usd": "250000",
        "tokens_in": "7",
        "noted": f"{lease.token} 1",
    }
    assert found.pop(f"logs:{lease.task}") == ["half"]
    day = found.pop("budget:day")
    assert (day.pop("spent"), set(day)) == ("250000", {"date"})
    before[f"task:{lease.task}"] |= {"flags": "n", "reserved": "-250000"}
    assert found == before


async def test_a_cost_is_stored_with_its_model_and_nothing_else(harness: Harness) -> None:
    lease = await held(harness)
    await report(harness, lease, usd=0.5, model="big")
    await report(harness, lease, seq=2, progress=1)
    before = await everything(harness)

    assert before[f"notes:{lease.task}"]["model"] == "big"
    await report(harness, lease, seq=2, usd=0.5, model="late")
    assert await everything(harness) == before
    await report(harness, lease, seq=3, tokens_in=1, model="small")
    assert (await everything(harness))[f"notes:{lease.task}"]["model"] == "small"


async def test_a_note_is_visible_in_the_task(harness: Harness) -> None:
    lease = await held(harness)
    await report(
        harness, lease, progress=50, checkpoint={"at": 7}, line="one", usd=0.5, tokens_out=3
    )
    await report(harness, lease, seq=2, line="two", usd=0.25)

    task = await harness.task(f"task_{lease.task}")

    assert (task.progress, task.checkpoint, task.logs) == (50, {"at": 7}, ("one", "two"))
    assert (task.cost_usd, task.tokens_used.output) == (0.75, 3)


async def test_a_repeated_note_is_stored_once(harness: Harness) -> None:
    lease = await held(harness)
    await report(harness, lease, line="once", usd=1.0, extend_sec=5)
    before = await everything(harness)

    await report(harness, lease, line="once", usd=1.0, extend_sec=5)

    assert await everything(harness) == before


async def test_a_note_without_the_lease_changes_nothing(harness: Harness) -> None:
    lease = await held(harness)
    before = await everything(harness)

    with pytest.raises(LeaseLost):
        await report(harness, HeldLease(lease.task, "9:other"), progress=1)

    assert await everything(harness) == before


async def test_notes_of_another_attempt_are_numbered_anew(harness: Harness) -> None:
    lease = await held(harness)
    await report(harness, lease, seq=5, line="first attempt")
    await harness.client.hset(harness.keys.task(lease.task), "token", "2:next")

    await report(harness, HeldLease(lease.task, "2:next"), seq=1, line="second attempt")

    assert (await everything(harness))[f"logs:{lease.task}"] == ["first attempt", "second attempt"]


async def test_only_the_last_hundred_lines_are_kept(harness: Harness) -> None:
    lease = await held(harness)
    for seq in range(1, 103):
        await report(harness, lease, seq=seq, line=f"line {seq}")

    lines = (await everything(harness))[f"logs:{lease.task}"]

    assert (len(lines), lines[0], lines[-1]) == (100, "line 3", "line 102")


async def test_an_extension_is_added_to_the_timeout(harness: Harness) -> None:
    own, plain = await held(harness, more={"timeout": 1000}), await held(harness)

    await report(harness, own, extend_sec=2)
    await report(harness, plain, extend_sec=2)

    found = await everything(harness)
    timeout = harness.queue._internals.shard.terms.timeout_ms
    assert found[f"task:{own.task}"]["more"] == '{"timeout":3000}'
    assert found[f"task:{plain.task}"]["more"] == f'{{"timeout":{timeout + 2000}}}'


async def test_notes_expire_with_their_task(harness: Harness) -> None:
    lease = await held(harness)
    await report(harness, lease, progress=1, line="done")

    await complete(harness.queue._internals.shard, [Settled(lease.task, lease.token, b"")])

    assert await pttl(harness, f"notes:{lease.task}") > 0
    assert await pttl(harness, f"logs:{lease.task}") > 0
