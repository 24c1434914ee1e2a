"""Decisions on dead tasks: each is carried out and stored, or neither."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from rqueue import State, TaskId
from rqueue.clock import SYSTEM
from rqueue.dead.decide import MOST_DIFF, fingerprint_of
from rqueue.dead.reviews import RESOLUTIONS, Review
from rqueue.dead.store import Reviewed, escalate
from rqueue.errors import InvalidTask, KeyTaken, TaskNotFound, WrongState
from tests.harness import Harness, opened
from tests.servers import Server


async def died(harness: Harness, error: str = "no", **options: Any) -> TaskId:
    lease = await harness.running(**options)
    await lease.fail("error", error, permanent=True)
    return lease.id


async def log(harness: Harness, **span: Any) -> list[Review]:
    return [review async for review in harness.queue.dead.reviews(**span)]


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
async def test_a_decision_is_carried_out_and_stored(harness: Harness, resolution: Any) -> None:
    task = await died(harness, "row 7 is bad")
    print_ = fingerprint_of(await harness.task(task)).id

    found = await harness.queue.dead.decide(
        task, resolution, cause="agent_bug", note="é", by="human:ada", **NEEDS.get(resolution, {})
    )

    assert found.state == BECOMES[resolution]
    assert found.resolution == (resolution if found.reviewed else None)
    (review,) = await log(harness)
    assert (review.task, review.life, review.resolution) == (task, 1, resolution)
    assert (review.by, review.cause, review.note) == ("human:ada", "agent_bug", "é")
    assert (review.type, review.reason, review.error) == ("code", "error", "row 7 is bad")
    assert review.fingerprint == print_
    assert abs((review.at - SYSTEM.now()).total_seconds()) < 60
    listed = [one.id async for one in harness.queue.dead.list()]
    assert listed == ([task] if resolution == "escalate" else [])


def trace(raised: str) -> str:
    """Returns a traceback as a handler leaves it, with the exception in the last line."""
    frames = "".join(
        f'  File "/app/{name}.py", line {len(name)}, in {name}\n    {name}_of(order, customer)\n'
        for name in ("charge", "order", "customer", "rows", "statement", "connection")
    )
    return f"Traceback (most recent call last):\n{frames}{raised}"


async def test_the_exception_is_stored_with_the_decision(harness: Harness) -> None:
    task = await died(harness, trace("ValueError: bad customer\nmore of it"))

    await harness.queue.dead.decide(task, "retry")

    (review,) = await log(harness)
    assert review.error == "ValueError: bad customer"


async def test_a_decision_on_a_cluster_applies_to_no_other_failure(harness: Harness) -> None:
    bad = await died(harness, trace("ValueError: bad customer"))
    away = await died(harness, trace("ConnectionRefusedError: the database is away"))
    cluster = fingerprint_of(await harness.task(bad)).id

    done = await harness.queue.dead.decide_many("delete", cluster=cluster)

    assert done.done == [bad]
    assert (await harness.task(away)).state == "DEAD_LETTERED"


async def test_a_fingerprint_of_an_earlier_version_matches_nothing_and_stays_in_its_review(
    harness: Harness,
) -> None:
    task = await died(harness, "KeyError: 'user_42'")
    earlier = "d269ff9113a6"
    review = json.dumps({"resolution": "escalate", "fingerprint": earlier})
    found = await harness.task(task)
    await escalate(harness.queue._internals.shard, [Reviewed(task.ulid, found.life, review)])

    done = await harness.queue.dead.decide_many("delete", cluster=earlier)

    assert (done.tasks, done.done) == ([], [])
    assert (await harness.task(task)).state == "DEAD_LETTERED"
    assert [review.fingerprint for review in await log(harness)] == [earlier]


async def test_the_default_author_comes_from_the_settings(server: Server) -> None:
    async with opened(server, principal="human:bob") as harness:
        first, second = await died(harness), await died(harness)

        await harness.queue.dead.decide(first, "cancel")
        await harness.queue.dead.decide(second, "cancel", by="service:support")

        assert [review.by for review in await log(harness)] == ["human:bob", "service:support"]


async def test_retry_and_discard_store_reviews_too(harness: Harness) -> None:
    one, two, three, four = [await died(harness) for _ in range(4)]

    await harness.queue.dead.retry(one)
    await harness.queue.dead.edit(two, {"n": 3})
    await harness.queue.dead.retry(three, delay=3600)
    await harness.queue.dead.discard(four, "hopeless")
    five = await died(harness)
    await harness.queue.purge()

    found = [(review.task, review.resolution, review.note) for review in await log(harness)]
    assert found == [
        (one, "retry", ""), (two, "modify_and_retry", ""), (three, "wait", ""),
        (four, "cancel", "hopeless"), (five, "cancel", "purged"),
    ]  # fmt: skip


async def test_a_retried_task_resumes_its_dag_and_stores_a_review(harness: Harness) -> None:
    async with harness.queue.dag(on_failure="hold") as dag:
        first = dag.add({"type": "code", "payload": {}})
        dag.add({"type": "code", "payload": {}}, after=[first])
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", "no", permanent=True)
    assert (await harness.queue.dags.status(lease.id)).status == "failed"

    await harness.queue.dead.decide(lease.id, "retry")

    assert (await harness.queue.dags.status(lease.id)).status == "running"
    for _ in range(2):
        (again,) = await harness.queue.claim(worker="w1")
        await again.start()
        await again.complete()
    assert (await harness.queue.dags.status(lease.id)).status == "completed"
    assert [review.resolution for review in await log(harness)] == ["retry"]


async def test_retrying_a_dag_stores_reviews(harness: Harness) -> None:
    async with harness.queue.dag() as dag:
        dag.add({"type": "code", "payload": {}})
        dag.add({"type": "code", "payload": {}})
    (lease, _) = await harness.queue.claim(worker="w1", n=2)
    await lease.fail("error", "no", permanent=True)

    await harness.queue.dags.retry(lease.id)

    assert [review.task for review in await log(harness)] == [lease.id]


async def test_a_changed_payload_is_stored_as_a_difference(harness: Harness) -> None:
    task = await died(harness)

    await harness.queue.dead.decide(task, "modify_and_retry", payload={"n": [1]}, not_before=SOON)

    (review,) = await log(harness)
    assert review.diff == ({"op": "add", "path": "/n", "value": [1]},)
    assert review.not_before is not None
    assert abs((review.not_before - SOON).total_seconds()) < 0.01
    found = await harness.task(task)
    assert (found.state, found.payload) == (State.PENDING, {"n": [1]})


async def test_the_stored_size_of_a_change_is_limited(harness: Harness) -> None:
    task = await died(harness)

    await harness.queue.dead.decide(task, "modify_and_retry", payload={"n": "x" * 200_000})

    (row,) = await harness.client.xrange(harness.keys.reviews())
    assert len(row[1][b"diff"]) <= MOST_DIFF
    assert (await log(harness))[0].diff[0]["value"]["bytes"] > 200_000


@pytest.mark.parametrize(
    ("resolution", "options"),
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
async def test_an_invalid_decision_changes_nothing(
    harness: Harness, resolution: Any, options: dict[str, Any]
) -> None:
    task = await died(harness)
    before = await harness.dump()

    with pytest.raises(InvalidTask):
        await harness.queue.dead.decide(task, resolution, **options)
    if "payload" not in options and resolution != "modify_and_retry":
        with pytest.raises(InvalidTask):
            await harness.queue.dead.decide_many(resolution, **options)

    assert await harness.dump() == before


async def test_only_dead_tasks_can_be_decided_on(harness: Harness) -> None:
    lease = await harness.running()
    before = await harness.dump()

    for resolution in ("retry", "escalate", "delete"):
        with pytest.raises(WrongState):
            await harness.queue.dead.decide(lease.id, resolution)
        with pytest.raises(TaskNotFound):
            await harness.queue.dead.decide("never seen", resolution)

    assert await harness.dump() == before


async def test_a_task_that_cannot_be_retried_is_refused_without_a_review(harness: Harness) -> None:
    task = await died(harness, idempotency_key="k")
    await harness.queue.enqueue("code", {}, idempotency_key="k")

    with pytest.raises(KeyTaken):
        await harness.queue.dead.decide(task, "retry")

    assert await log(harness) == []


async def test_reviews_are_read_by_time(harness: Harness) -> None:
    task = await died(harness)
    for n in range(3):
        await harness.queue.dead.decide(task, "escalate", note=str(n))
    first, second, third = await log(harness)

    assert await log(harness, since=second.at, until=third.at + timedelta(days=1)) != []
    assert await log(harness, since="2020-01-01T00:00:00Z") == [first, second, third]
    assert await log(harness, since="1960-01-01T00:00:00Z") == [first, second, third]
    assert await log(harness, until="2020-01-01T00:00:00Z") == []
    assert await log(harness, until="1960-01-01T00:00:00Z") == []
    assert await log(harness, since=SYSTEM.now() + timedelta(hours=1)) == []
    with pytest.raises(InvalidTask):
        await log(harness, since="yesterday")


async def test_with_an_archive_no_review_is_trimmed(server: Server) -> None:
    async with opened(server, archive="postgres", keep_reviews=1) as harness:
        task = await died(harness)
        for _ in range(150):
            await harness.queue.dead.decide(task, "escalate")

        assert len(await log(harness)) == 150


async def test_the_blocking_call_decides_too(harness: Harness) -> None:
    task = await died(harness)

    found = await asyncio.to_thread(harness.queue.sync.dead.decide, task, "retry")

    assert found.state == "READY"
    assert json.dumps([review.resolution for review in await log(harness)]) == '["retry"]'
    await asyncio.to_thread(harness.queue.sync.aclose)
