"""complete: a task whose handler returned is COMPLETED."""

from __future__ import annotations

import pytest

from rqueue.core.leases import HeldLease, Settled, complete, start, validate
from rqueue.store.shard import ANSWER_LIMITS
from tests.harness import Harness
from tests.lua.rows import claim, everything, held, pttl, submitted

TTL = 86_400_000


def settled(lease: HeldLease, result: bytes = b"") -> Settled:
    return Settled(lease.task, lease.token, result)


@pytest.mark.parametrize("checked", [False, True], ids=["running", "validating"])
async def test_a_completed_task_leaves_the_stream_and_keeps_its_result(
    harness: Harness, checked: bool
) -> None:
    lease = await held(harness)
    if checked:
        await validate(harness.queue._internals.shard, [lease])
    before = await everything(harness)
    state = before[f"task:{lease.task}"]["state"]

    assert await complete(harness.queue._internals.shard, [settled(lease, b'{"a":1}')]) == ["OK"]

    found = await everything(harness)
    task = found[f"task:{lease.task}"]
    started = int(task["holder"].split(" ")[1])
    assert started <= int(task["finished"]) < started + 60_000
    before[f"task:{lease.task}"].update(state="COMPLETED", finished=task["finished"])
    before["stats"].update({f"1:{state}": "0", "1:COMPLETED": "1"})
    before["ready"] = ({}, {})
    before[f"result:{lease.task}"] = '{"a":1}'
    assert found == before
    for name in (f"task:{lease.task}", f"result:{lease.task}"):
        assert TTL - 60_000 < await pttl(harness, name) <= TTL


async def test_without_a_result_no_key_is_written(harness: Harness) -> None:
    lease = await held(harness)

    await complete(harness.queue._internals.shard, [settled(lease)])

    assert f"result:{lease.task}" not in await everything(harness)


async def test_a_definition_key_expires_with_the_task(harness: Harness) -> None:
    lease = await held(harness, definition="x" * 513)

    await complete(harness.queue._internals.shard, [settled(lease)])

    assert TTL - 60_000 < await pttl(harness, f"def:{lease.task}") <= TTL


async def test_with_an_archive_all_keys_are_kept_until_the_outbox_is_read(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    plain = await held(harness, definition="x" * 513)
    tagged = await held(harness, more={"tags": ["t"], "ext": "e", "life": 3})

    answer = await complete(
        harness.queue._internals.shard, [settled(plain, b"1"), settled(tagged, b"2")]
    )

    found = await everything(harness)
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
        assert await pttl(harness, name) == -1


async def test_without_an_archive_there_is_no_outbox(harness: Harness) -> None:
    lease = await held(harness, more={"tags": ["t"], "ext": "e"})

    await complete(harness.queue._internals.shard, [settled(lease, b"1")])

    found = await everything(harness)
    assert not {"outbox", "tag:t"} & set(found)
    for name in (f"task:{lease.task}", f"result:{lease.task}", "ext:e"):
        assert TTL - 60_000 < await pttl(harness, name) <= TTL


async def test_a_tasks_own_time_to_live_counts(harness: Harness) -> None:
    lease = await held(harness, more={"ttl": 500_000, "ext": "e"}, definition="x" * 513)

    await complete(harness.queue._internals.shard, [settled(lease, b"1")])

    for name in (*(f"{kind}:{lease.task}" for kind in ("task", "def", "result")), "ext:e"):
        assert 440_000 < await pttl(harness, name) <= 500_000


async def test_an_external_id_that_another_task_has_now_is_unchanged(harness: Harness) -> None:
    lease = await held(harness, more={"ext": "e"})
    second = await submitted(harness)
    await harness.client.set(harness.keys.external("e"), second)

    await complete(harness.queue._internals.shard, [settled(lease)])

    assert (await everything(harness))["ext:e"] == second
    assert await pttl(harness, "ext:e") == -1


@pytest.mark.parametrize("more", [None, {"tags": ["t"]}], ids=["plain", "special"])
async def test_a_repeated_call_is_ok_and_changes_nothing(
    archived_harness: Harness, more: dict[str, object] | None
) -> None:
    harness = archived_harness
    lease = await held(harness, more=more)
    await complete(harness.queue._internals.shard, [settled(lease, b"1")])
    before = await harness.dump()

    again = [settled(lease, b"1"), settled(lease, b"other")]
    assert await complete(harness.queue._internals.shard, again) == ["OK", "OK"]

    assert await harness.dump() == before


async def test_a_task_twice_in_one_call_completes_once(archived_harness: Harness) -> None:
    harness = archived_harness
    lease = await held(harness)

    assert await complete(harness.queue._internals.shard, [settled(lease, b"1")] * 2) == [
        "OK",
        "OK",
    ]

    found = await everything(harness)
    assert found["stats"]["1:COMPLETED"] == found["stats"]["outbox"] == "1"
    assert list(found["outbox"][0].values()) == [{lease.task: "1 COMPLETED"}]


async def test_a_claimed_task_must_start_first(harness: Harness) -> None:
    lease = await held(harness, start=0)
    before = await harness.dump()

    assert await complete(harness.queue._internals.shard, [settled(lease, b"1")]) == [
        "STATE:CLAIMED"
    ]

    assert await harness.dump() == before


async def test_a_stale_token_settles_nothing(harness: Harness) -> None:
    lease = await held(harness)
    await harness.queue._internals.shard.run("task/release", {**ANSWER_LIMITS, "tries": 0}, [lease])
    given_back = await harness.dump()
    assert await complete(harness.queue._internals.shard, [settled(lease, b"1")]) == ["LOST"]
    assert await harness.dump() == given_back
    await claim(harness, waiter="two", consumer="w2", start=1, bits="new")
    before = await harness.dump()

    others = [lease, HeldLease(lease.task, "2:bits"), HeldLease("NOBODY", "1:bits")]
    answer = await complete(harness.queue._internals.shard, [settled(one, b"1") for one in others])

    assert answer == ["LOST"] * 3
    assert await harness.dump() == before


async def test_the_token_of_an_earlier_lease_is_lost_after_the_end(harness: Harness) -> None:
    first = await held(harness)
    await harness.queue._internals.shard.run("task/release", {**ANSWER_LIMITS, "tries": 0}, [first])
    reply = await claim(harness, waiter="two", start=1, bits="new")
    await complete(harness.queue._internals.shard, [Settled(first.task, reply[3].token, b"1")])
    before = await harness.dump()

    assert await complete(harness.queue._internals.shard, [settled(first, b"2")]) == ["LOST"]

    assert await harness.dump() == before


async def test_a_cancelled_task_is_lost(harness: Harness) -> None:
    lease = await held(harness)
    await harness.queue.cancel(f"task_{lease.task}")
    before = await harness.dump()

    assert await complete(harness.queue._internals.shard, [settled(lease, b"1")]) == ["LOST"]

    assert await harness.dump() == before


async def test_each_task_gets_its_own_word_and_does_not_stop_the_others(harness: Harness) -> None:
    done, claimed, lost, other = [await held(harness, start=0) for _ in range(4)]
    await start(harness.queue._internals.shard, [done, lost, other])
    await harness.queue._internals.shard.run("task/release", {**ANSWER_LIMITS, "tries": 0}, [lost])

    answer = await complete(
        harness.queue._internals.shard, [settled(x) for x in (done, claimed, lost, other)]
    )

    found = await everything(harness)
    assert answer == ["OK", "STATE:CLAIMED", "LOST", "OK"]
    assert found["stats"] == {
        "submitted": "4", "1:CLAIMED": "1", "1:RUNNING": "0", "1:COMPLETED": "2",
    }  # fmt: skip
    assert len(found["ready"][0]) == 2
    assert len(found["ready"][1]) == 1


async def test_a_missing_group_does_not_prevent_the_completion(harness: Harness) -> None:
    lease = await held(harness)
    await harness.client.xgroup_destroy(harness.keys.ready(), "workers")

    assert await complete(harness.queue._internals.shard, [settled(lease)]) == ["OK"]

    assert (await everything(harness))["ready"] == ({}, {})
