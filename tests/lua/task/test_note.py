"""note: what a running task says of itself, kept while its lease is held."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.errors import LeaseLost
from rqueue.model.note import Note
from rqueue.store.leases import Held, Settled, complete
from rqueue.store.notes import note
from tests.house import House
from tests.lua.rows import everything, held, pttl


async def say(house: House, lease: Held, seq: int = 1, **said: Any) -> None:
    await note(house.queue.shard, lease, Note(**said), seq=seq)


async def test_a_note_is_kept_beside_the_task(house: House) -> None:
    lease = await held(house)
    before = await everything(house)

    await say(
        house, lease, progress={"done": 3}, checkpoint=[1], line="half", usd=0.25, tokens_in=7
    )

    found = await everything(house)
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


async def test_a_cost_is_kept_with_its_model_and_nothing_else_is(house: House) -> None:
    lease = await held(house)
    await say(house, lease, usd=0.5, model="big")
    await say(house, lease, seq=2, progress=1)
    before = await everything(house)

    assert before[f"notes:{lease.task}"]["model"] == "big"
    await say(house, lease, seq=2, usd=0.5, model="late")
    assert await everything(house) == before
    await say(house, lease, seq=3, tokens_in=1, model="small")
    assert (await everything(house))[f"notes:{lease.task}"]["model"] == "small"


async def test_what_is_said_shows_in_the_task(house: House) -> None:
    lease = await held(house)
    await say(house, lease, progress=50, checkpoint={"at": 7}, line="one", usd=0.5, tokens_out=3)
    await say(house, lease, seq=2, line="two", usd=0.25)

    task = await house.task(f"task_{lease.task}")

    assert (task.progress, task.checkpoint, task.logs) == (50, {"at": 7}, ("one", "two"))
    assert (task.cost_usd, task.tokens_used.output) == (0.75, 3)


async def test_a_note_sent_again_is_not_kept_twice(house: House) -> None:
    lease = await held(house)
    await say(house, lease, line="once", usd=1.0, extend_sec=5)
    before = await everything(house)

    await say(house, lease, line="once", usd=1.0, extend_sec=5)

    assert await everything(house) == before


async def test_a_note_without_the_lease_changes_nothing(house: House) -> None:
    lease = await held(house)
    before = await everything(house)

    with pytest.raises(LeaseLost):
        await say(house, Held(lease.task, "9:other"), progress=1)

    assert await everything(house) == before


async def test_the_notes_of_another_attempt_count_anew(house: House) -> None:
    lease = await held(house)
    await say(house, lease, seq=5, line="first attempt")
    await house.client.hset(house.keys.task(lease.task), "token", "2:next")

    await say(house, Held(lease.task, "2:next"), seq=1, line="second attempt")

    assert (await everything(house))[f"logs:{lease.task}"] == ["first attempt", "second attempt"]


async def test_only_the_last_hundred_lines_are_kept(house: House) -> None:
    lease = await held(house)
    for seq in range(1, 103):
        await say(house, lease, seq=seq, line=f"line {seq}")

    lines = (await everything(house))[f"logs:{lease.task}"]

    assert (len(lines), lines[0], lines[-1]) == (100, "line 3", "line 102")


async def test_an_extension_is_added_to_the_timeout(house: House) -> None:
    own, plain = await held(house, more={"timeout": 1000}), await held(house)

    await say(house, own, extend_sec=2)
    await say(house, plain, extend_sec=2)

    found = await everything(house)
    timeout = house.queue.shard.terms.timeout_ms
    assert found[f"task:{own.task}"]["more"] == '{"timeout":3000}'
    assert found[f"task:{plain.task}"]["more"] == f'{{"timeout":{timeout + 2000}}}'


async def test_notes_expire_with_their_task(house: House) -> None:
    lease = await held(house)
    await say(house, lease, progress=1, line="done")

    await complete(house.queue.shard, [Settled(lease.task, lease.token, b"")])

    assert await pttl(house, f"notes:{lease.task}") > 0
    assert await pttl(house, f"logs:{lease.task}") > 0
