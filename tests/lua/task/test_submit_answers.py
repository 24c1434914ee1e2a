"""submit: work that comes answers the claims that wait for it."""

from __future__ import annotations

import json

import pytest

from rqueue.model.lane import Lane
from rqueue.store.lanes import read_lanes
from tests.house import House
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


async def lane_made(house: House, lane: Lane = PLAIN) -> None:
    """The lane is there and empty."""
    task = a_row()
    await submit(house, [task], lanes=[lane])
    await house.queue.cancel(f"task_{task.task}")
    for key in ("stats", "events", f"task:{task.task}"):
        await house.client.delete(house.keys.root + key)


async def parked(house: House, name: str, n: int = 1, since: int = 0) -> None:
    """A claim of `name` waits for `n` tasks, since an instant if one is given."""
    reply = await claim(house, n, waiter=name, consumer=name, box=name, park_ms=PARK, bits=name)
    assert reply == ["OK", "*", PARK]
    if since:
        await house.client.zadd(house.keys.waiting(await served_profile(house)), {name: since})


async def test_a_parked_claim_is_answered_by_mail(house: House) -> None:
    await lane_made(house)
    await parked(house, "w1", n=2)
    profile = await served_profile(house)
    before = await everything(house)
    row = a_row()

    reply = await submit(house, [row])

    found = await everything(house)
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


async def test_the_longest_waiting_is_answered_first_with_all_it_asked_for(house: House) -> None:
    await lane_made(house)
    await parked(house, "late", n=2, since=3000)
    await parked(house, "early", n=2, since=1000)
    await parked(house, "middle", n=2, since=2000)
    rows = [a_row() for _ in range(3)]

    await submit(house, rows)

    found = await everything(house)
    names = [row.task for row in rows]
    assert found["mail:early"] == [f"tasks 1 {names[0]} 1:early {names[1]} 1:early"]
    assert found["mail:middle"] == [f"tasks 1 {names[2]} 1:middle"]
    assert "mail:late" not in found
    assert list(found[f"waiting:{await served_profile(house)}"]) == ["late"]


@pytest.mark.parametrize("first", ["one", "both"])
async def test_the_longest_waiting_is_first_whatever_lanes_it_serves(
    house: House, first: str
) -> None:
    await lane_made(house)
    await lane_made(house, Lane("mail", 0.0))
    for name, types in {"one": ["code"], "both": None}.items():
        await claim(house, waiter=name, consumer=name, box=name, types=types, park_ms=PARK)
        profile = (await house.client.hget(house.keys.waiter(name), "profile")).decode()
        since = 1000 if name == first else 2000
        await house.client.zadd(house.keys.waiting(profile), {name: since})

    await submitted(house)

    found = await everything(house)
    assert [name for name in ("one", "both") if f"mail:{name}" in found] == [first]


async def test_a_claim_whose_wait_is_over_is_not_answered(house: House) -> None:
    await lane_made(house)
    await parked(house, "w1")
    await house.client.hset(house.keys.waiter("w1"), "until", 1)

    task = await submitted(house)

    found = await everything(house)
    assert found[f"task:{task}"]["state"] == "READY"
    assert "mail:w1" not in found
    assert f"waiting:{await served_profile(house)}" not in found


async def test_a_paused_queue_answers_nobody(house: House) -> None:
    await lane_made(house)
    await parked(house, "w1")
    await house.queue.pause()

    task = await submitted(house)

    found = await everything(house)
    assert found[f"task:{task}"]["state"] == "READY"
    assert "mail:w1" not in found
    assert list(found[f"waiting:{await served_profile(house)}"]) == ["w1"]


async def test_more_waiting_claims_than_tries_are_left_to_the_next_call(house: House) -> None:
    await lane_made(house)
    for name in ("w1", "w2", "w3"):
        await parked(house, name)

    reply = await submit(house, [a_row() for _ in range(3)], tries=2)

    found = await everything(house)
    assert reply == ["OK", 1]
    assert [name for name in found if name.startswith("mail:")] == ["mail:w1", "mail:w2"]


async def test_tries_that_gave_nothing_are_no_reason_to_go_on(house: House) -> None:
    await lane_made(house)
    for name in ("w1", "w2", "w3"):
        await parked(house, name)
    await house.queue.pause()

    assert await submit(house, [a_row()], tries=2) == ["OK", 0]


async def test_the_caller_of_a_large_submit_goes_on_until_all_are_answered(house: House) -> None:
    await lane_made(house)
    names = [f"w{at}" for at in range(120)]
    for name in names:
        await parked(house, name)

    await house.queue.enqueue_many(
        [house.queue.call("code", {}, priority_boost_per_minute=0.0) for _ in names]
    )

    found = await everything(house)
    assert {name for name in names if f"mail:{name}" in found} == set(names)


async def test_a_new_lane_is_mailed_to_all_who_wait(house: House) -> None:
    await lane_made(house)
    await parked(house, "w1")
    await parked(house, "w2")

    await submit(house, [a_row()], lanes=[Lane("mail", 0.0)])

    found = await everything(house)
    version = (await read_lanes(house.queue.shard)).version
    assert found["mail:w1"] == found["mail:w2"] == [f"lanes {version}"]
    assert list(found[f"waiting:{await profile_of_one(house)}"]) == ["w1", "w2"]
    assert list(found["lane:2"])
    assert 0 < await house.client.pttl(house.keys.mail("w1")) <= 120_000


async def profile_of_one(house: House) -> str:
    """The profile that was parked under before the second lane was made."""
    (found,) = await house.client.smembers(house.keys.profiles(1))
    name: str = found.decode()
    return name


async def test_a_waiting_task_answers_nobody(house: House) -> None:
    await lane_made(house)
    await parked(house, "w1")

    await submitted(house, ask={"delay": 60_000})

    found = await everything(house)
    assert "mail:w1" not in found
    assert list(found[f"waiting:{await served_profile(house)}"]) == ["w1"]
