"""complete: a task whose handler returned ends well."""

from __future__ import annotations

import pytest

from rqueue.store.leases import Held, Settled, complete, start, validate
from rqueue.store.shard import FREED
from tests.house import House
from tests.lua.rows import claim, everything, held, pttl, submitted

TTL = 86_400_000


def settled(lease: Held, result: bytes = b"") -> Settled:
    return Settled(lease.task, lease.token, result)


@pytest.mark.parametrize("checked", [False, True], ids=["running", "validating"])
async def test_a_completed_task_leaves_the_stream_and_keeps_its_result(
    house: House, checked: bool
) -> None:
    lease = await held(house)
    if checked:
        await validate(house.queue.shard, [lease])
    before = await everything(house)
    state = before[f"task:{lease.task}"]["state"]

    assert await complete(house.queue.shard, [settled(lease, b'{"a":1}')]) == ["OK"]

    found = await everything(house)
    task = found[f"task:{lease.task}"]
    started = int(task["holder"].split(" ")[1])
    assert started <= int(task["finished"]) < started + 60_000
    before[f"task:{lease.task}"].update(state="COMPLETED", finished=task["finished"])
    before["stats"].update({f"1:{state}": "0", "1:COMPLETED": "1"})
    before["ready"] = ({}, {})
    before[f"result:{lease.task}"] = '{"a":1}'
    assert found == before
    for name in (f"task:{lease.task}", f"result:{lease.task}"):
        assert TTL - 60_000 < await pttl(house, name) <= TTL


async def test_no_result_is_no_key(house: House) -> None:
    lease = await held(house)

    await complete(house.queue.shard, [settled(lease)])

    assert f"result:{lease.task}" not in await everything(house)


async def test_a_definition_of_its_own_expires_with_the_task(house: House) -> None:
    lease = await held(house, definition="x" * 513)

    await complete(house.queue.shard, [settled(lease)])

    assert TTL - 60_000 < await pttl(house, f"def:{lease.task}") <= TTL


async def test_with_an_archive_all_is_kept_until_the_outbox_is_read(archived_house: House) -> None:
    house = archived_house
    plain = await held(house, definition="x" * 513)
    tagged = await held(house, more={"tags": ["t"], "ext": "e", "life": 3})

    answer = await complete(house.queue.shard, [settled(plain, b"1"), settled(tagged, b"2")])

    found = await everything(house)
    assert answer == ["OK", "OK"]
    assert list(found["outbox"][0].values()) == [
        {plain.task: "1 COMPLETED", tagged.task: "3 COMPLETED"}
    ]
    assert found["stats"] == {
        "submitted": "2", "1:RUNNING": "0", "1:COMPLETED": "2", "outbox": "2",
    }  # fmt: skip
    assert list(found["tag:t"]) == [tagged.task]
    names = {f"{kind}:{lease.task}" for kind in ("task", "result") for lease in (plain, tagged)}
    for name in (*names, f"def:{plain.task}", "ext:e"):
        assert await pttl(house, name) == -1


async def test_without_an_archive_there_is_no_outbox(house: House) -> None:
    lease = await held(house, more={"tags": ["t"], "ext": "e"})

    await complete(house.queue.shard, [settled(lease, b"1")])

    found = await everything(house)
    assert not {"outbox", "tag:t"} & set(found)
    for name in (f"task:{lease.task}", f"result:{lease.task}", "ext:e"):
        assert TTL - 60_000 < await pttl(house, name) <= TTL


async def test_a_tasks_own_time_to_live_counts(house: House) -> None:
    lease = await held(house, more={"ttl": 500_000, "ext": "e"}, definition="x" * 513)

    await complete(house.queue.shard, [settled(lease, b"1")])

    for name in (*(f"{kind}:{lease.task}" for kind in ("task", "def", "result")), "ext:e"):
        assert 440_000 < await pttl(house, name) <= 500_000


async def test_an_own_id_that_another_task_took_over_is_left_alone(house: House) -> None:
    lease = await held(house, more={"ext": "e"})
    second = await submitted(house)
    await house.client.set(house.keys.external("e"), second)

    await complete(house.queue.shard, [settled(lease)])

    assert (await everything(house))["ext:e"] == second
    assert await pttl(house, "ext:e") == -1


@pytest.mark.parametrize("more", [None, {"tags": ["t"]}], ids=["plain", "special"])
async def test_sent_again_it_is_ok_and_changes_nothing(
    archived_house: House, more: dict[str, object] | None
) -> None:
    house = archived_house
    lease = await held(house, more=more)
    await complete(house.queue.shard, [settled(lease, b"1")])
    before = await house.dump()

    again = [settled(lease, b"1"), settled(lease, b"other")]
    assert await complete(house.queue.shard, again) == ["OK", "OK"]

    assert await house.dump() == before


async def test_twice_in_one_call_is_once(archived_house: House) -> None:
    house = archived_house
    lease = await held(house)

    assert await complete(house.queue.shard, [settled(lease, b"1")] * 2) == ["OK", "OK"]

    found = await everything(house)
    assert found["stats"]["1:COMPLETED"] == found["stats"]["outbox"] == "1"
    assert list(found["outbox"][0].values()) == [{lease.task: "1 COMPLETED"}]


async def test_a_claimed_task_must_start_first(house: House) -> None:
    lease = await held(house, start=0)
    before = await house.dump()

    assert await complete(house.queue.shard, [settled(lease, b"1")]) == ["STATE:CLAIMED"]

    assert await house.dump() == before


async def test_a_stale_token_settles_nothing(house: House) -> None:
    lease = await held(house)
    await house.queue.shard.run("task/release", {**FREED, "tries": 0}, [lease])
    given_back = await house.dump()
    assert await complete(house.queue.shard, [settled(lease, b"1")]) == ["LOST"]
    assert await house.dump() == given_back
    await claim(house, waiter="two", consumer="w2", start=1, bits="new")
    before = await house.dump()

    strangers = [lease, Held(lease.task, "2:bits"), Held("NOBODY", "1:bits")]
    answer = await complete(house.queue.shard, [settled(one, b"1") for one in strangers])

    assert answer == ["LOST"] * 3
    assert await house.dump() == before


async def test_the_token_of_an_earlier_lease_is_lost_after_the_end(house: House) -> None:
    first = await held(house)
    await house.queue.shard.run("task/release", {**FREED, "tries": 0}, [first])
    reply = await claim(house, waiter="two", start=1, bits="new")
    await complete(house.queue.shard, [Settled(first.task, reply[3].token, b"1")])
    before = await house.dump()

    assert await complete(house.queue.shard, [settled(first, b"2")]) == ["LOST"]

    assert await house.dump() == before


async def test_a_cancelled_task_is_lost(house: House) -> None:
    lease = await held(house)
    await house.queue.cancel(f"task_{lease.task}")
    before = await house.dump()

    assert await complete(house.queue.shard, [settled(lease, b"1")]) == ["LOST"]

    assert await house.dump() == before


async def test_each_gets_its_own_word_and_holds_back_no_other(house: House) -> None:
    done, claimed, lost, other = [await held(house, start=0) for _ in range(4)]
    await start(house.queue.shard, [done, lost, other])
    await house.queue.shard.run("task/release", {**FREED, "tries": 0}, [lost])

    answer = await complete(house.queue.shard, [settled(x) for x in (done, claimed, lost, other)])

    found = await everything(house)
    assert answer == ["OK", "STATE:CLAIMED", "LOST", "OK"]
    assert found["stats"] == {
        "submitted": "4", "1:CLAIMED": "1", "1:RUNNING": "0", "1:COMPLETED": "2",
    }  # fmt: skip
    assert len(found["ready"][0]) == 2
    assert len(found["ready"][1]) == 1


async def test_a_missing_group_does_not_hold_back_the_end(house: House) -> None:
    lease = await held(house)
    await house.client.xgroup_destroy(house.keys.ready(), "workers")

    assert await complete(house.queue.shard, [settled(lease)]) == ["OK"]

    assert (await everything(house))["ready"] == ({}, {})
