"""Deciding about the dead: each decision is carried out and kept, or neither."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from rqueue import State, TaskId
from rqueue.client.deciding import MOST_DIFF, fingerprint_of
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidTask, KeyTaken, TaskNotFound, WrongState
from rqueue.model.review import RESOLUTIONS, Review
from rqueue.store.resolving import Reviewed, escalate
from tests.house import House, opened
from tests.servers import Server


async def died(house: House, error: str = "no", **options: Any) -> TaskId:
    lease = await house.running(**options)
    await lease.fail("error", error, permanent=True)
    return lease.id


async def log(house: House, **span: Any) -> list[Review]:
    return [review async for review in house.queue.reviews(**span)]


SOON = SYSTEM.now() + timedelta(hours=1)
NEEDS: dict[str, dict[str, Any]] = {
    "modify_and_retry": {"payload": {"n": 2}},
    "wait": {"not_before": SOON},
}
BECOMES = {
    "retry": "READY", "modify_and_retry": "READY", "wait": "PENDING", "escalate": "DEAD_LETTERED",
    "cancel": "CANCELLED", "delete": "CANCELLED",
}  # fmt: skip


@pytest.mark.parametrize("resolution", RESOLUTIONS)
async def test_a_decision_is_carried_out_and_kept(house: House, resolution: Any) -> None:
    task = await died(house, "row 7 is bad")
    print_ = fingerprint_of(await house.task(task)).id

    found = await house.queue.resolve(
        task, resolution, cause="agent_bug", note="é", by="human:ada", **NEEDS.get(resolution, {})
    )

    assert found.state == BECOMES[resolution]
    assert found.resolution == (resolution if found.reviewed else None)
    (review,) = await log(house)
    assert (review.task, review.life, review.resolution) == (task, 1, resolution)
    assert (review.by, review.cause, review.note) == ("human:ada", "agent_bug", "é")
    assert (review.type, review.reason, review.error) == ("code", "error", "row 7 is bad")
    assert review.fingerprint == print_
    assert abs((review.at - SYSTEM.now()).total_seconds()) < 60
    listed = [one.id async for one in house.queue.dead_tasks()]
    assert listed == ([task] if resolution == "escalate" else [])


def trace(raised: str) -> str:
    """An error as a handler leaves it: what was raised comes last."""
    frames = "".join(
        f'  File "/app/{name}.py", line {len(name)}, in {name}\n    {name}_of(order, customer)\n'
        for name in ("charge", "order", "customer", "rows", "statement", "connection")
    )
    return f"Traceback (most recent call last):\n{frames}{raised}"


async def test_what_was_raised_is_kept_with_the_decision(house: House) -> None:
    task = await died(house, trace("ValueError: bad customer\nmore of it"))

    await house.queue.resolve(task, "retry")

    (review,) = await log(house)
    assert review.error == "ValueError: bad customer"


async def test_a_decision_about_one_failure_takes_no_other(house: House) -> None:
    bad = await died(house, trace("ValueError: bad customer"))
    away = await died(house, trace("ConnectionRefusedError: the database is away"))
    cluster = fingerprint_of(await house.task(bad)).id

    done = await house.queue.resolve_many("delete", cluster=cluster)

    assert done.done == [bad]
    assert (await house.task(away)).state == "DEAD_LETTERED"


async def test_a_fingerprint_of_an_earlier_version_means_nothing_and_stays_with_its_review(
    house: House,
) -> None:
    task = await died(house, "KeyError: 'user_42'")
    earlier = "d269ff9113a6"
    said = json.dumps({"resolution": "escalate", "fingerprint": earlier})
    found = await house.task(task)
    await escalate(house.queue.shard, [Reviewed(task.ulid, found.life, said)])

    done = await house.queue.resolve_many("delete", cluster=earlier)

    assert (done.tasks, done.done) == ([], [])
    assert (await house.task(task)).state == "DEAD_LETTERED"
    assert [review.fingerprint for review in await log(house)] == [earlier]


async def test_who_it_is_comes_from_the_settings(server: Server) -> None:
    async with opened(server, principal="human:bob") as house:
        first, second = await died(house), await died(house)

        await house.queue.resolve(first, "cancel")
        await house.queue.resolve(second, "cancel", by="service:desk")

        assert [review.by for review in await log(house)] == ["human:bob", "service:desk"]


async def test_plain_calls_are_kept_too(house: House) -> None:
    one, two, three, four = [await died(house) for _ in range(4)]

    await house.queue.revive(one)
    await house.queue.revive(two, payload={"n": 3})
    await house.queue.revive(three, delay=3600)
    await house.queue.discard(four, "hopeless")
    five = await died(house)
    await house.queue.purge()

    found = [(review.task, review.resolution, review.note) for review in await log(house)]
    assert found == [
        (one, "retry", ""), (two, "modify_and_retry", ""), (three, "wait", ""),
        (four, "cancel", "hopeless"), (five, "cancel", "purged"),
    ]  # fmt: skip


async def test_a_revived_task_resumes_its_dag_and_is_kept(house: House) -> None:
    async with house.queue.dag(on_failure="hold") as dag:
        first = dag.add({"type": "code", "payload": {}})
        dag.add({"type": "code", "payload": {}}, after=[first])
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", "no", permanent=True)
    assert (await house.queue.dag_desk.get(lease.id)).status == "failed"

    await house.queue.resolve(lease.id, "retry")

    assert (await house.queue.dag_desk.get(lease.id)).status == "running"
    for _ in range(2):
        (again,) = await house.queue.claim(worker="w1")
        await again.start()
        await again.complete()
    assert (await house.queue.dag_desk.get(lease.id)).status == "completed"
    assert [review.resolution for review in await log(house)] == ["retry"]


async def test_retry_dag_is_kept(house: House) -> None:
    async with house.queue.dag() as dag:
        dag.add({"type": "code", "payload": {}})
        dag.add({"type": "code", "payload": {}})
    (lease, _) = await house.queue.claim(worker="w1", n=2)
    await lease.fail("error", "no", permanent=True)

    await house.queue.retry_dag(lease.id)

    assert [review.task for review in await log(house)] == [lease.id]


async def test_a_changed_payload_is_told_as_a_difference(house: House) -> None:
    task = await died(house)

    await house.queue.resolve(task, "modify_and_retry", payload={"n": [1]}, not_before=SOON)

    (review,) = await log(house)
    assert review.diff == ({"op": "add", "path": "/n", "value": [1]},)
    assert review.not_before is not None
    assert abs((review.not_before - SOON).total_seconds()) < 0.01
    found = await house.task(task)
    assert (found.state, found.payload) == (State.PENDING, {"n": [1]})


async def test_a_large_change_is_kept_within_bounds(house: House) -> None:
    task = await died(house)

    await house.queue.resolve(task, "modify_and_retry", payload={"n": "x" * 200_000})

    (row,) = await house.client.xrange(house.keys.reviews())
    assert len(row[1][b"diff"]) <= MOST_DIFF
    assert (await log(house))[0].diff[0]["value"]["bytes"] > 200_000


@pytest.mark.parametrize(
    ("resolution", "said"),
    [
        ("revive", {}), ("", {}), ("wait", {}), ("wait", {"not_before": "2020-01-01T00:00:00Z"}),
        ("wait", {"not_before": "2999-01-01T00:00:00Z"}), ("wait", {"not_before": "soon"}),
        ("cancel", {"not_before": SOON}), ("modify_and_retry", {}), ("retry", {"payload": {}}),
        ("modify_and_retry", {"payload": {1, 2}}), ("modify_and_retry", {"payload": float("nan")}),
        ("modify_and_retry", {"payload": "x" * 300_000}), ("retry", {"cause": "a b"}),
        ("retry", {"cause": "\x1b"}), ("retry", {"note": "x" * 4097}), ("retry", {"note": "\0"}),
        ("retry", {"note": 7}), ("retry", {"by": "ada"}), ("escalate", {"note": "é" * 2049}),
    ],
)  # fmt: skip
async def test_what_is_no_decision_changes_nothing(
    house: House, resolution: Any, said: dict[str, Any]
) -> None:
    task = await died(house)
    before = await house.dump()

    with pytest.raises(InvalidTask):
        await house.queue.resolve(task, resolution, **said)
    if "payload" not in said and resolution != "modify_and_retry":
        with pytest.raises(InvalidTask):
            await house.queue.resolve_many(resolution, **said)

    assert await house.dump() == before


async def test_only_the_dead_are_decided_about(house: House) -> None:
    lease = await house.running()
    before = await house.dump()

    for resolution in ("retry", "escalate", "delete"):
        with pytest.raises(WrongState):
            await house.queue.resolve(lease.id, resolution)
        with pytest.raises(TaskNotFound):
            await house.queue.resolve("never seen", resolution)

    assert await house.dump() == before


async def test_one_that_cannot_live_again_is_told_and_not_reviewed(house: House) -> None:
    task = await died(house, idempotency_key="k")
    await house.queue.enqueue("code", {}, idempotency_key="k")

    with pytest.raises(KeyTaken):
        await house.queue.resolve(task, "retry")

    assert await log(house) == []


async def test_reviews_are_read_by_time(house: House) -> None:
    task = await died(house)
    for n in range(3):
        await house.queue.resolve(task, "escalate", note=str(n))
    first, second, third = await log(house)

    assert await log(house, since=second.at, until=third.at + timedelta(days=1)) != []
    assert await log(house, since="2020-01-01T00:00:00Z") == [first, second, third]
    assert await log(house, since="1960-01-01T00:00:00Z") == [first, second, third]
    assert await log(house, until="2020-01-01T00:00:00Z") == []
    assert await log(house, until="1960-01-01T00:00:00Z") == []
    assert await log(house, since=SYSTEM.now() + timedelta(hours=1)) == []
    with pytest.raises(InvalidTask):
        await log(house, since="yesterday")


async def test_with_an_archive_no_review_is_trimmed(server: Server) -> None:
    async with opened(server, archive="postgres", keep_reviews=1) as house:
        task = await died(house)
        for _ in range(150):
            await house.queue.resolve(task, "escalate")

        assert len(await log(house)) == 150


async def test_the_blocking_twin_decides_as_well(house: House) -> None:
    task = await died(house)

    found = await asyncio.to_thread(house.queue.sync.resolve, task, "retry")

    assert found.state == "READY"
    assert json.dumps([review.resolution for review in await log(house)]) == '["retry"]'
    await asyncio.to_thread(house.queue.sync.aclose)
