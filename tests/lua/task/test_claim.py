"""claim: the best tasks a worker may serve, as leases."""

from __future__ import annotations

import pytest

from rqueue.core.claim import Grant
from rqueue.core.counts import pause
from rqueue.core.leases import HeldLease, Settled, complete
from rqueue.store.shard import ANSWER_LIMITS
from rqueue.task.lane import Lane, signature
from tests.harness import Harness
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
async def test_a_claim_leases_the_task_and_writes_its_memo(harness: Harness, start: int) -> None:
    task = await submitted(harness)
    state = "RUNNING" if start else "CLAIMED"

    reply = await claim(harness, start=start)

    found = await everything(harness)
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
            "mailed": "", "n": "0", "profile": await served_profile(harness), "box": "box",
            "handoff": "2000", "until": "0", "start": str(start), "begin": "",
        },
        f"task:{task}": {
            "state": state, "lane": "1", "entry": entry, "score": "50000000",
            "def0": DEFINITION, "token": "1:bits",
            "holder": f"{now} {now if start else 0} w1",
        },
    }  # fmt: skip


async def test_a_retried_task_is_returned_with_its_history(harness: Harness) -> None:
    row = a_row(more={"tags": ["t"]}, options={"delay": 60_000}, definition="x" * 200)
    await submit(harness, [row])
    await harness.queue.run_now(f"task_{row.task}")
    key = harness.keys.task(row.task)
    await harness.client.hset(key, mapping={"attempts": 2, "reclaims": 1, "token": "6:old"})
    created = int(await harness.client.hget(key, "created"))

    reply = await claim(harness)

    more, body = row.special.split("\n")[0].encode(), b"x" * 200
    assert reply[3:] == [Grant(row.task, "7:bits", 2, 1, created, more, body, waited=True)]


async def test_an_empty_queue_returns_no_task(harness: Harness) -> None:
    assert await claim(harness, version="0", lanes="[]") == ["OK", "0", 0]

    found = await everything(harness)
    assert set(found) == {"waiter:one", "workers"}
    assert found["waiter:one"]["given"] == ""


async def test_slots_are_filled_over_several_lanes_and_no_further(harness: Harness) -> None:
    rows = [a_row(lane=1 + at % 2, base=at) for at in range(7)]
    await submit(harness, rows, lanes=PAIR)

    reply = await claim(harness, 5)

    found = await everything(harness)
    names = [row.task for row in rows]
    assert [row.task for row in reply[3:]] == names[:5]
    assert found["lane:1"] == {names[6]: 6.0}
    assert found["lane:2"] == {names[5]: 5.0}
    assert found["stats"] == {"submitted": "7", "1:CLAIMED": "3", "2:CLAIMED": "2"}
    assert len(found["ready"][1]) == 5


async def test_one_lane_of_higher_priority_fills_all_slots(harness: Harness) -> None:
    near = [a_row(lane=1, base=at) for at in range(40)]
    far = [a_row(lane=2, base=1000 + at) for at in range(40)]
    await submit(harness, near + far, lanes=PAIR)

    reply = await claim(harness, 45)

    assert [row.task for row in reply[3:]] == [row.task for row in [*near, *far[:5]]]


async def test_only_the_named_lanes_are_served(harness: Harness) -> None:
    rows = [a_row(lane=1), a_row(lane=2)]
    await submit(harness, rows, lanes=PAIR)

    reply = await claim(harness, 5, types=["mail"])

    assert [row.task for row in reply[3:]] == [rows[1].task]


async def test_a_repeated_claim_only_reads_what_is_still_held(harness: Harness) -> None:
    rows = [a_row(), a_row(more={"tags": ["t"]}), a_row(definition="x" * 600)]
    await submit(harness, rows)
    first = await claim(harness, 3, start=1)
    await submitted(harness)
    before = await harness.dump()

    again = await claim(harness, 3, start=1, bits="other")

    assert again == first
    assert await harness.dump() == before
    await complete(harness.queue._internals.shard, [Settled(rows[1].task, "1:bits", b"")])
    assert await claim(harness, 3, start=1) == [*first[:3], first[3], first[5]]


async def test_a_repeated_claim_omits_tasks_that_another_holds_now(harness: Harness) -> None:
    task = await submitted(harness)
    await claim(harness)
    await harness.queue._internals.shard.run(
        "task/release", {**ANSWER_LIMITS, "tries": 0}, [HeldLease(task, "1:bits")]
    )
    await claim(harness, waiter="two", consumer="w2", bits="second")
    before = await harness.dump()

    assert await claim(harness) == ["OK", "*", 0]

    assert await harness.dump() == before


async def test_a_late_copy_of_an_older_claim_is_stale(harness: Harness) -> None:
    await submit(harness, [a_row() for _ in range(3)])
    await claim(harness, seq=1)
    await claim(harness, seq=2)
    before = await harness.dump()

    assert await claim(harness, seq=1, wait_ms=5000) == ["STALE"]

    assert await harness.dump() == before


async def test_a_claim_with_an_old_lane_version_gets_all_lanes(harness: Harness) -> None:
    await submit(harness, [a_row(lane=1), a_row(lane=2)], lanes=PAIR)
    before = await harness.dump()

    reply = await claim(harness, version="1", lanes="[]")

    fields = dict(zip(reply[2::2], reply[3::2], strict=True))
    assert reply[:2] == ["LANES", fields["version"]]
    assert fields | {"version": "*"} == (await everything(harness))["lanes"]
    assert await harness.dump() == before


async def test_two_sessions_of_one_worker_are_independent(harness: Harness) -> None:
    rows = [a_row() for _ in range(4)]
    await submit(harness, rows)

    one = await claim(harness, 2, waiter="one", bits="a")
    two = await claim(harness, 2, waiter="two", bits="b")

    found = await everything(harness)
    assert [row.task for row in one[3:] + two[3:]] == [row.task for row in rows]
    assert set(found["ready"][1].values()) == {"w1"}
    assert await claim(harness, 2, waiter="one", bits="c") == one
    assert await claim(harness, 2, waiter="two", bits="c") == two


@pytest.mark.parametrize("gate", ["queue", "type=code", "lane=1"])
async def test_a_paused_task_is_not_claimed(harness: Harness, gate: str) -> None:
    rows = [a_row(lane=1), a_row(lane=2)]
    await submit(harness, rows, lanes=PAIR)
    await pause(harness.queue._internals.shard, gate)

    reply = await claim(harness, 2)

    found = await everything(harness)
    expected = [] if gate == "queue" else [rows[1].task]
    assert [row.task for row in reply[3:]] == expected
    assert found["paused"] == {gate}
    assert found["lane:1"] == {rows[0].task: 50_000_000.0}


@pytest.mark.parametrize("lost", ["entry", "hash"])
async def test_a_task_without_its_entry_is_an_orphan_and_the_others_are_claimed(
    harness: Harness, lost: str
) -> None:
    rows = [a_row() for _ in range(3)]
    await submit(harness, rows)
    key = harness.keys.task(rows[1].task)
    entry = await harness.client.hget(key, "entry")
    if lost == "entry":
        await harness.client.xdel(harness.keys.ready(), entry)
    else:
        await harness.client.delete(key)

    reply = await claim(harness, 3)

    found = await everything(harness)
    assert [row.task for row in reply[3:]] == [rows[0].task, rows[2].task]
    assert found["orphans"] == {rows[1].task}
    assert "lane:1" not in found
    assert len(found["ready"][1]) == 2
    assert {n: v for n, v in found["stats"].items() if v != "0"} == {
        "submitted": "3",
        "1:CLAIMED": "2",
    }


async def test_a_missing_group_is_created_again_and_nothing_is_lost(harness: Harness) -> None:
    rows = [a_row() for _ in range(3)]
    await submit(harness, rows)
    first = await claim(harness, 1, seq=1)
    await harness.client.xgroup_destroy(harness.keys.ready(), "workers")

    second = await claim(harness, 2, seq=2)

    found = await everything(harness)
    assert [row.task for row in first[3:] + second[3:]] == [row.task for row in rows]
    assert len(found["ready"][0]) == 3
    assert len(found["ready"][1]) == 2
    assert found["stats"]["1:CLAIMED"] == "3"
