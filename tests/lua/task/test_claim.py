"""claim: the best tasks a worker may serve, as leases."""

from __future__ import annotations

import pytest

from rqueue.model.lane import Lane, signature
from rqueue.store.claims import Grant
from rqueue.store.leases import Held, Settled, complete
from rqueue.store.queue import pause
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.rows import (
    DEFINITION,
    PLAIN,
    a_row,
    claim,
    everything,
    served_profile,
    submit,
    submitted,
)

MAIL = Lane("mail", 0.0)
PAIR = (PLAIN, MAIL)


@pytest.mark.parametrize("start", [0, 1], ids=["claimed", "running"])
async def test_a_claim_leases_the_task_and_writes_its_memo(house: House, start: int) -> None:
    task = await submitted(house)
    state = "RUNNING" if start else "CLAIMED"

    reply = await claim(house, start=start)

    found = await everything(house)
    (entry,) = found["ready"][0]
    now = f"{found['workers']['w1']:.0f}"
    created = int(entry.split("-")[0])
    body = DEFINITION.encode()
    assert reply == ["OK", "*", 0, Grant(task, "1:bits", 0, 0, created, b"", body)]
    assert found == {
        "ready": ({entry: {"task": task}}, {entry: "w1"}),
        "lanes": {signature(PLAIN): "1", "next": "1", "version": "*"},
        "stats": {"submitted": "1", f"1:{state}": "1"},
        "workers": {"w1": float(now)},
        "waiter:one": {
            "seq": "1", "bits": "bits", "consumer": "w1", "given": f"{task} 1:bits",
            "mailed": "", "n": "0", "profile": await served_profile(house), "box": "box",
            "handoff": "2000", "until": "0", "start": str(start), "begin": "",
        },
        f"task:{task}": {
            "state": state, "lane": "1", "entry": entry, "score": "50000000",
            "def0": DEFINITION, "token": "1:bits",
            "holder": f"{now} {now if start else 0} w1",
        },
    }  # fmt: skip


async def test_a_task_that_was_tried_comes_with_its_history(house: House) -> None:
    row = a_row(more={"tags": ["t"]}, ask={"delay": 60_000}, definition="x" * 200)
    await submit(house, [row])
    await house.queue.run_now(f"task_{row.task}")
    key = house.keys.task(row.task)
    await house.client.hset(key, mapping={"attempts": 2, "reclaims": 1, "token": "6:old"})
    created = int(await house.client.hget(key, "created"))

    reply = await claim(house)

    more, body = row.special.split("\n")[0].encode(), b"x" * 200
    assert reply[3:] == [Grant(row.task, "7:bits", 2, 1, created, more, body, waited=True)]


async def test_nothing_to_give_gives_nothing(house: House) -> None:
    assert await claim(house, version="0", lanes="[]") == ["OK", "0", 0]

    found = await everything(house)
    assert set(found) == {"waiter:one", "workers"}
    assert found["waiter:one"]["given"] == ""


async def test_slots_are_filled_over_several_lanes_and_no_further(house: House) -> None:
    rows = [a_row(lane=1 + at % 2, base=at) for at in range(7)]
    await submit(house, rows, lanes=PAIR)

    reply = await claim(house, 5)

    found = await everything(house)
    names = [row.task for row in rows]
    assert [row.task for row in reply[3:]] == names[:5]
    assert found["lane:1"] == {names[6]: 6.0}
    assert found["lane:2"] == {names[5]: 5.0}
    assert found["stats"] == {"submitted": "7", "1:CLAIMED": "3", "2:CLAIMED": "2"}
    assert len(found["ready"][1]) == 5


async def test_one_lane_far_ahead_fills_all_slots(house: House) -> None:
    near = [a_row(lane=1, base=at) for at in range(40)]
    far = [a_row(lane=2, base=1000 + at) for at in range(40)]
    await submit(house, near + far, lanes=PAIR)

    reply = await claim(house, 45)

    assert [row.task for row in reply[3:]] == [row.task for row in [*near, *far[:5]]]


async def test_only_the_lanes_that_are_named_are_served(house: House) -> None:
    rows = [a_row(lane=1), a_row(lane=2)]
    await submit(house, rows, lanes=PAIR)

    reply = await claim(house, 5, types=["mail"])

    assert [row.task for row in reply[3:]] == [rows[1].task]


async def test_sent_again_it_is_a_pure_read_of_what_is_still_held(house: House) -> None:
    rows = [a_row(), a_row(more={"tags": ["t"]}), a_row(definition="x" * 600)]
    await submit(house, rows)
    first = await claim(house, 3, start=1)
    await submitted(house)
    before = await house.dump()

    again = await claim(house, 3, start=1, bits="other")

    assert again == first
    assert await house.dump() == before
    await complete(house.queue.shard, [Settled(rows[1].task, "1:bits", b"")])
    assert await claim(house, 3, start=1) == [*first[:3], first[3], first[5]]


async def test_sent_again_it_does_not_give_what_another_holds_now(house: House) -> None:
    task = await submitted(house)
    await claim(house)
    await house.queue.shard.run("task/release", {**FREED, "tries": 0}, [Held(task, "1:bits")])
    await claim(house, waiter="two", consumer="w2", bits="second")
    before = await house.dump()

    assert await claim(house) == ["OK", "*", 0]

    assert await house.dump() == before


async def test_a_late_copy_of_an_older_claim_is_stale(house: House) -> None:
    await submit(house, [a_row() for _ in range(3)])
    await claim(house, seq=1)
    await claim(house, seq=2)
    before = await house.dump()

    assert await claim(house, seq=1, park_ms=5000) == ["STALE"]

    assert await house.dump() == before


async def test_a_claim_that_knows_other_lanes_is_told_all_of_them(house: House) -> None:
    await submit(house, [a_row(lane=1), a_row(lane=2)], lanes=PAIR)
    before = await house.dump()

    reply = await claim(house, version="1", lanes="[]")

    fields = dict(zip(reply[2::2], reply[3::2], strict=True))
    assert reply[:2] == ["LANES", fields["version"]]
    assert fields | {"version": "*"} == (await everything(house))["lanes"]
    assert await house.dump() == before


async def test_two_conversations_of_one_worker_do_not_disturb_each_other(house: House) -> None:
    rows = [a_row() for _ in range(4)]
    await submit(house, rows)

    one = await claim(house, 2, waiter="one", bits="a")
    two = await claim(house, 2, waiter="two", bits="b")

    found = await everything(house)
    assert [row.task for row in one[3:] + two[3:]] == [row.task for row in rows]
    assert set(found["ready"][1].values()) == {"w1"}
    assert await claim(house, 2, waiter="one", bits="c") == one
    assert await claim(house, 2, waiter="two", bits="c") == two


@pytest.mark.parametrize("gate", ["queue", "type=code", "lane=1"])
async def test_what_is_paused_is_not_given(house: House, gate: str) -> None:
    rows = [a_row(lane=1), a_row(lane=2)]
    await submit(house, rows, lanes=PAIR)
    await pause(house.queue.shard, gate)

    reply = await claim(house, 2)

    found = await everything(house)
    expected = [] if gate == "queue" else [rows[1].task]
    assert [row.task for row in reply[3:]] == expected
    assert found["paused"] == {gate}
    assert found["lane:1"] == {rows[0].task: 50_000_000.0}


@pytest.mark.parametrize("lost", ["entry", "hash"])
async def test_a_task_without_its_entry_is_an_orphan_and_the_others_are_given(
    house: House, lost: str
) -> None:
    rows = [a_row() for _ in range(3)]
    await submit(house, rows)
    key = house.keys.task(rows[1].task)
    entry = await house.client.hget(key, "entry")
    if lost == "entry":
        await house.client.xdel(house.keys.ready(), entry)
    else:
        await house.client.delete(key)

    reply = await claim(house, 3)

    found = await everything(house)
    assert [row.task for row in reply[3:]] == [rows[0].task, rows[2].task]
    assert found["orphans"] == {rows[1].task}
    assert "lane:1" not in found
    assert len(found["ready"][1]) == 2
    assert {n: v for n, v in found["stats"].items() if v != "0"} == {
        "submitted": "3",
        "1:CLAIMED": "2",
    }


async def test_a_missing_group_is_made_again_and_nothing_is_lost(house: House) -> None:
    rows = [a_row() for _ in range(3)]
    await submit(house, rows)
    first = await claim(house, 1, seq=1)
    await house.client.xgroup_destroy(house.keys.ready(), "workers")

    second = await claim(house, 2, seq=2)

    found = await everything(house)
    assert [row.task for row in first[3:] + second[3:]] == [row.task for row in rows]
    assert len(found["ready"][0]) == 3
    assert len(found["ready"][1]) == 2
    assert found["stats"]["1:CLAIMED"] == "3"
