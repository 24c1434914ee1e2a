"""submit: new tasks answer the claims that wait for them."""

from __future__ import annotations

import json

import pytest

from rqueue.store.lanes import read_lanes
from rqueue.task.lane import Lane
from tests.harness import Harness
from tests.lua.rows import (
    PLAIN,
    a_row,
    claim,
    everything,
    served_profile,
    submit,
    submitted,
)

PARK = 5000


async def lane_made(harness: Harness, lane: Lane = PLAIN) -> None:
    """Creates an empty lane."""
    task = a_row()
    await submit(harness, [task], lanes=[lane])
    await harness.queue.cancel(f"task_{task.task}")
    for key in ("stats", "events", f"task:{task.task}"):
        await harness.client.delete(harness.keys.root + key)


async def waiting_claim(harness: Harness, name: str, n: int = 1, since: int = 0) -> None:
    """A claim of `name` waits for `n` tasks, since an instant if one is given."""
    reply = await claim(harness, n, waiter=name, consumer=name, box=name, wait_ms=PARK, bits=name)
    assert reply == ["OK", "*", PARK]
    if since:
        await harness.client.zadd(
            harness.keys.waiting(await served_profile(harness)), {name: since}
        )


async def test_a_waiting_claim_is_answered_in_its_mailbox(harness: Harness) -> None:
    await lane_made(harness)
    await waiting_claim(harness, "w1", n=2)
    profile = await served_profile(harness)
    before = await everything(harness)
    row = a_row()

    reply = await submit(harness, [row])

    found = await everything(harness)
    (entry,) = found["ready"][0]
    claimed = int(found[f"task:{row.task}"]["holder"].split(" ")[0])
    assert reply == ["OK", 0]
    assert before["waiter:w1"]["until"] == f"{before['workers']['w1'] + PARK:.0f}"
    assert found == {
        "ready": ({entry: {"task": row.task}}, {entry: "w1"}),
        "lanes": before["lanes"],
        "stats": {"submitted": "1", "1:CLAIMED": "1"},
        "mail:w1": [f"tasks 1 {row.task} 1:w1"],
        "handoffs": {f"{row.task}:1": claimed + 2000.0},
        "waiter:w1": {**before["waiter:w1"], "mailed": f"{row.task} 1:w1", "until": "0"},
        "workers": before["workers"],
        f"profile:{profile}": json.dumps([[1, 0, "code", False]], separators=(",", ":")),
        "profiles:new": {profile},
        "profiles:1": {profile},
        f"task:{row.task}": {
            "state": "CLAIMED",
            "lane": "1",
            "entry": entry,
            "score": "50000000",
            "def0": '{"type":"code"}',
            "token": "1:w1",
            "holder": f"{claimed} 0 w1",
        },
    }


async def test_the_longest_waiting_claim_is_answered_first_and_completely(
    harness: Harness,
) -> None:
    await lane_made(harness)
    await waiting_claim(harness, "late", n=2, since=3000)
    await waiting_claim(harness, "early", n=2, since=1000)
    await waiting_claim(harness, "middle", n=2, since=2000)
    rows = [a_row() for _ in range(3)]

    await submit(harness, rows)

    found = await everything(harness)
    names = [row.task for row in rows]
    assert found["mail:early"] == [f"tasks 1 {names[0]} 1:early {names[1]} 1:early"]
    assert found["mail:middle"] == [f"tasks 1 {names[2]} 1:middle"]
    assert "mail:late" not in found
    assert list(found[f"waiting:{await served_profile(harness)}"]) == ["late"]


@pytest.mark.parametrize("first", ["one", "both"])
async def test_the_longest_waiting_claim_is_first_whatever_lanes_it_serves(
    harness: Harness, first: str
) -> None:
    await lane_made(harness)
    await lane_made(harness, Lane("mail", 0.0))
    for name, types in {"one": ["code"], "both": None}.items():
        await claim(harness, waiter=name, consumer=name, box=name, types=types, wait_ms=PARK)
        profile = (await harness.client.hget(harness.keys.waiter(name), "profile")).decode()
        since = 1000 if name == first else 2000
        await harness.client.zadd(harness.keys.waiting(profile), {name: since})

    await submitted(harness)

    found = await everything(harness)
    assert [name for name in ("one", "both") if f"mail:{name}" in found] == [first]


async def test_a_claim_whose_wait_is_over_is_not_answered(harness: Harness) -> None:
    await lane_made(harness)
    await waiting_claim(harness, "w1")
    await harness.client.hset(harness.keys.waiter("w1"), "until", 1)

    task = await submitted(harness)

    found = await everything(harness)
    assert found[f"task:{task}"]["state"] == "READY"
    assert "mail:w1" not in found
    assert f"waiting:{await served_profile(harness)}" not in found


async def test_a_paused_queue_answers_no_claim(harness: Harness) -> None:
    await lane_made(harness)
    await waiting_claim(harness, "w1")
    await harness.queue.pause()

    task = await submitted(harness)

    found = await everything(harness)
    assert found[f"task:{task}"]["state"] == "READY"
    assert "mail:w1" not in found
    assert list(found[f"waiting:{await served_profile(harness)}"]) == ["w1"]


async def test_more_waiting_claims_than_tries_are_left_to_the_next_call(harness: Harness) -> None:
    await lane_made(harness)
    for name in ("w1", "w2", "w3"):
        await waiting_claim(harness, name)

    reply = await submit(harness, [a_row() for _ in range(3)], tries=2)

    found = await everything(harness)
    assert reply == ["OK", 1]
    assert [name for name in found if name.startswith("mail:")] == ["mail:w1", "mail:w2"]


async def test_tries_without_an_answer_do_not_ask_for_another_call(harness: Harness) -> None:
    await lane_made(harness)
    for name in ("w1", "w2", "w3"):
        await waiting_claim(harness, name)
    await harness.queue.pause()

    assert await submit(harness, [a_row()], tries=2) == ["OK", 0]


async def test_the_caller_of_a_large_submit_continues_until_all_are_answered(
    harness: Harness,
) -> None:
    await lane_made(harness)
    names = [f"w{at}" for at in range(120)]
    for name in names:
        await waiting_claim(harness, name)

    await harness.queue.enqueue_many(
        [harness.queue.call("code", {}, priority_boost_per_minute=0.0) for _ in names]
    )

    found = await everything(harness)
    assert {name for name in names if f"mail:{name}" in found} == set(names)


async def test_a_new_lane_is_announced_to_all_waiting_claims(harness: Harness) -> None:
    await lane_made(harness)
    await waiting_claim(harness, "w1")
    await waiting_claim(harness, "w2")

    await submit(harness, [a_row()], lanes=[Lane("mail", 0.0)])

    found = await everything(harness)
    version = (await read_lanes(harness.queue._internals.shard)).version
    assert found["mail:w1"] == found["mail:w2"] == [f"lanes {version}"]
    assert list(found[f"waiting:{await profile_of_one(harness)}"]) == ["w1", "w2"]
    assert list(found["lane:2"])
    assert 0 < await harness.client.pttl(harness.keys.mail("w1")) <= 120_000


async def profile_of_one(harness: Harness) -> str:
    """The profile of the waiting claim before the second lane was created."""
    (found,) = await harness.client.smembers(harness.keys.profiles(1))
    name: str = found.decode()
    return name


async def test_a_pending_task_answers_no_claim(harness: Harness) -> None:
    await lane_made(harness)
    await waiting_claim(harness, "w1")

    await submitted(harness, options={"delay": 60_000})

    found = await everything(harness)
    assert "mail:w1" not in found
    assert list(found[f"waiting:{await served_profile(harness)}"]) == ["w1"]
