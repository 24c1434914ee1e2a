"""embedding_jobs: claimed once at a time, ended by the token alone, given up in the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue.archive.maintenance.embeddings import MAX_ERROR, Embeddings
from rqueue.errors import InvalidTask, LeaseLost, StoreUnavailable
from rqueue.task.ids import TaskId
from tests.archive.kept import NOON, QUEUE, Kept
from tests.archive.kept import opened as open_archive
from tests.postgres import Database

RAN_OUT = "UPDATE rqueue.embedding_jobs SET claimed_until = now() - interval '1 second'"


def asked(kept: Kept, number: int = 1, queue: str = QUEUE) -> list[TaskId]:
    """Completed tasks that are to be embedded."""
    tasks = [kept.life(NOON, agent="coder", queue=queue) for _ in range(number)]
    for task in tasks:
        kept.database.psql(
            "INSERT INTO rqueue.embedding_jobs (task_id, life, queue) VALUES (%s, 1, %s)",
            task.uuid, queue,
        )  # fmt: skip
    return tasks


def row(kept: Kept) -> tuple[object, ...]:
    ((*found,),) = kept.database.psql(
        "SELECT status, attempts, embedding, error FROM rqueue.embedding_jobs"
    )
    return tuple(found)


@pytest.fixture
def embeddings(kept: Kept) -> Embeddings:
    return Embeddings(kept.archive, QUEUE, max_attempts=3)


async def test_a_stale_token_ends_nothing(kept: Kept, embeddings: Embeddings) -> None:
    asked(kept)
    (stale,) = await embeddings.claim(worker="w1")
    kept.database.psql(RAN_OUT)
    (held,) = await embeddings.claim(worker="w2")

    with pytest.raises(LeaseLost):
        await embeddings.done(stale, [1.0])
    with pytest.raises(LeaseLost):
        await embeddings.fail(stale, "too late")

    assert row(kept) == ("claimed", 2, None, None)
    await embeddings.done(held, [1.0, 2.0])
    assert row(kept) == ("done", 2, [1.0, 2.0], None)


async def test_done_said_twice_is_done_once(kept: Kept, embeddings: Embeddings) -> None:
    asked(kept)
    (claim,) = await embeddings.claim(worker="w1")
    await embeddings.done(claim, [0.5])

    await embeddings.done(claim, [0.5])

    assert row(kept) == ("done", 1, [0.5], None)
    with pytest.raises(LeaseLost):
        await embeddings.fail(claim, "after all")
    assert await embeddings.claim(worker="w1") == []


async def test_many_workers_at_once_share_what_there_is(kept: Kept, embeddings: Embeddings) -> None:
    tasks = asked(kept, 30)

    found = await asyncio.gather(*(embeddings.claim(worker=f"w{at}", n=7) for at in range(6)))

    claimed = [claim.task for claims in found for claim in claims]
    assert len(claimed) == len(set(claimed)) == 30
    assert set(claimed) == set(tasks)


async def test_a_claim_brings_what_is_to_be_embedded(kept: Kept, embeddings: Embeddings) -> None:
    (task,) = asked(kept)
    asked(kept, 1, queue="other")

    (claim,) = await embeddings.claim(worker="w1")

    assert (claim.task, claim.life, claim.type, claim.agent) == (task, 1, "code", "coder")
    assert (claim.payload, claim.output, claim.attempts) == ({"x": 1}, {"y": 2}, 1)


async def test_what_failed_waits_and_is_given_up_in_the_end(
    kept: Kept, embeddings: Embeddings
) -> None:
    asked(kept)
    for attempt in (1, 2, 3):
        (claim,) = await embeddings.claim(worker="w1")
        assert claim.attempts == attempt
        await embeddings.fail(claim, f"no answer {attempt}")
        assert await embeddings.claim(worker="w1") == []
        kept.database.psql(RAN_OUT + " WHERE claimed_until IS NOT NULL")

    assert row(kept) == ("failed", 3, None, "no answer 3")
    assert await embeddings.claim(worker="w1") == []
    assert await embeddings.counts() == {"failed": 1}


async def test_one_whose_workers_die_is_given_up_too(kept: Kept, embeddings: Embeddings) -> None:
    asked(kept)
    for _ in range(3):
        assert len(await embeddings.claim(worker="w1")) == 1
        kept.database.psql(RAN_OUT)

    assert await embeddings.claim(worker="w1") == []

    status, attempts, _, error = row(kept)
    assert (status, attempts, error) == (
        "failed",
        3,
        "each claim expired before the worker finished",
    )


@pytest.mark.parametrize("vector", [[], [float("nan")], [1.0, float("inf")]])
async def test_what_is_no_vector_is_refused_at_the_door(
    kept: Kept, embeddings: Embeddings, vector: list[float]
) -> None:
    asked(kept)
    (claim,) = await embeddings.claim(worker="w1")

    with pytest.raises(InvalidTask):
        await embeddings.done(claim, vector)

    assert row(kept)[0] == "claimed"


@pytest.mark.parametrize(
    "wrong",
    [{"n": 0}, {"n": 1001}, {"lease_sec": 0}, {"worker": "\ud800"}, {"worker": "a\0b"}],
)
async def test_a_claim_of_nothing_or_by_nobody_is_refused(
    embeddings: Embeddings, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await embeddings.claim(**{"worker": "w1", **wrong})

    assert refused.value.field in wrong


@pytest.mark.parametrize("seconds", [-1, 86_401, 1e30, float("inf"), float("nan")])
async def test_a_time_to_wait_that_makes_no_sense_is_refused(
    kept: Kept, embeddings: Embeddings, seconds: float
) -> None:
    asked(kept)
    (claim,) = await embeddings.claim(worker="w1")

    with pytest.raises(InvalidTask, match="retry_sec"):
        await embeddings.fail(claim, "no answer", retry_sec=seconds)

    assert row(kept)[0] == "claimed"


async def test_of_any_error_what_can_be_kept_is(kept: Kept, embeddings: Embeddings) -> None:
    asked(kept)
    (claim,) = await embeddings.claim(worker="w1")

    await embeddings.fail(claim, "bad \ud800, \0" + "x" * 5000, retry_sec=0)

    assert row(kept)[3] == "bad ?, \ufffd" + "x" * (MAX_ERROR - 8)


async def test_a_server_that_goes_away_loses_no_claim(own_pg: Database) -> None:
    async with open_archive(own_pg) as kept:
        kept.archive.timeout_sec = 2
        embeddings = Embeddings(kept.archive, QUEUE)
        asked(kept)
        (claim,) = await embeddings.claim(worker="w1")
        own_pg.stop()
        with pytest.raises(StoreUnavailable):
            await embeddings.done(claim, [1.0])
        own_pg.start()

        await embeddings.done(claim, [1.0])

        assert row(kept)[0] == "done"
