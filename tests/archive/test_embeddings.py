"""embedding_jobs: claims, tokens, and failure after the last attempt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqueue.archive.maintenance.embeddings import MAX_ERROR, Embeddings
from rqueue.errors import InvalidTask, LeaseLost, StoreUnavailable
from rqueue.task.ids import TaskId
from tests.archive.tables import NOON, QUEUE, ArchiveTables
from tests.archive.tables import opened as open_archive
from tests.postgres import Database

RAN_OUT = "UPDATE rqueue.embedding_jobs SET claimed_until = now() - interval '1 second'"


def add_jobs(tables: ArchiveTables, number: int = 1, queue: str = QUEUE) -> list[TaskId]:
    """Writes completed tasks that are to be embedded."""
    tasks = [tables.life(NOON, agent="coder", queue=queue) for _ in range(number)]
    for task in tasks:
        tables.database.psql(
            "INSERT INTO rqueue.embedding_jobs (task_id, life, queue) VALUES (%s, 1, %s)",
            task.uuid, queue,
        )  # fmt: skip
    return tasks


def row(tables: ArchiveTables) -> tuple[object, ...]:
    ((*found,),) = tables.database.psql(
        "SELECT status, attempts, embedding, error FROM rqueue.embedding_jobs"
    )
    return tuple(found)


@pytest.fixture
def embeddings(tables: ArchiveTables) -> Embeddings:
    return Embeddings(tables.archive, QUEUE, max_attempts=3)


async def test_a_stale_token_settles_nothing(tables: ArchiveTables, embeddings: Embeddings) -> None:
    add_jobs(tables)
    (stale,) = await embeddings.claim(worker="w1")
    tables.database.psql(RAN_OUT)
    (held,) = await embeddings.claim(worker="w2")

    with pytest.raises(LeaseLost):
        await embeddings.done(stale, [1.0])
    with pytest.raises(LeaseLost):
        await embeddings.fail(stale, "too late")

    assert row(tables) == ("claimed", 2, None, None)
    await embeddings.done(held, [1.0, 2.0])
    assert row(tables) == ("done", 2, [1.0, 2.0], None)


async def test_a_repeated_done_has_no_effect(tables: ArchiveTables, embeddings: Embeddings) -> None:
    add_jobs(tables)
    (claim,) = await embeddings.claim(worker="w1")
    await embeddings.done(claim, [0.5])

    await embeddings.done(claim, [0.5])

    assert row(tables) == ("done", 1, [0.5], None)
    with pytest.raises(LeaseLost):
        await embeddings.fail(claim, "after all")
    assert await embeddings.claim(worker="w1") == []


async def test_concurrent_workers_claim_each_task_once(
    tables: ArchiveTables, embeddings: Embeddings
) -> None:
    tasks = add_jobs(tables, 30)

    found = await asyncio.gather(*(embeddings.claim(worker=f"w{at}", n=7) for at in range(6)))

    claimed = [claim.task for claims in found for claim in claims]
    assert len(claimed) == len(set(claimed)) == 30
    assert set(claimed) == set(tasks)


async def test_a_claim_contains_the_data_to_embed(
    tables: ArchiveTables, embeddings: Embeddings
) -> None:
    (task,) = add_jobs(tables)
    add_jobs(tables, 1, queue="other")

    (claim,) = await embeddings.claim(worker="w1")

    assert (claim.task, claim.life, claim.type, claim.agent) == (task, 1, "code", "coder")
    assert (claim.payload, claim.output, claim.attempts) == ({"x": 1}, {"y": 2}, 1)


async def test_a_failed_embedding_waits_and_fails_after_its_last_attempt(
    tables: ArchiveTables, embeddings: Embeddings
) -> None:
    add_jobs(tables)
    for attempt in (1, 2, 3):
        (claim,) = await embeddings.claim(worker="w1")
        assert claim.attempts == attempt
        await embeddings.fail(claim, f"no answer {attempt}")
        assert await embeddings.claim(worker="w1") == []
        tables.database.psql(RAN_OUT + " WHERE claimed_until IS NOT NULL")

    assert row(tables) == ("failed", 3, None, "no answer 3")
    assert await embeddings.claim(worker="w1") == []
    assert await embeddings.counts() == {"failed": 1}


async def test_an_embedding_whose_claims_all_expire_fails(
    tables: ArchiveTables, embeddings: Embeddings
) -> None:
    add_jobs(tables)
    for _ in range(3):
        assert len(await embeddings.claim(worker="w1")) == 1
        tables.database.psql(RAN_OUT)

    assert await embeddings.claim(worker="w1") == []

    status, attempts, _, error = row(tables)
    assert (status, attempts, error) == (
        "failed",
        3,
        "each claim expired before the worker finished",
    )


@pytest.mark.parametrize("vector", [[], [float("nan")], [1.0, float("inf")]])
async def test_an_invalid_vector_is_refused(
    tables: ArchiveTables, embeddings: Embeddings, vector: list[float]
) -> None:
    add_jobs(tables)
    (claim,) = await embeddings.claim(worker="w1")

    with pytest.raises(InvalidTask):
        await embeddings.done(claim, vector)

    assert row(tables)[0] == "claimed"


@pytest.mark.parametrize(
    "wrong",
    [{"n": 0}, {"n": 1001}, {"lease_sec": 0}, {"worker": "\ud800"}, {"worker": "a\0b"}],
)
async def test_an_invalid_number_or_worker_name_is_refused(
    embeddings: Embeddings, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await embeddings.claim(**{"worker": "w1", **wrong})

    assert refused.value.field in wrong


@pytest.mark.parametrize("seconds", [-1, 86_401, 1e30, float("inf"), float("nan")])
async def test_an_invalid_retry_delay_is_refused(
    tables: ArchiveTables, embeddings: Embeddings, seconds: float
) -> None:
    add_jobs(tables)
    (claim,) = await embeddings.claim(worker="w1")

    with pytest.raises(InvalidTask, match="retry_sec"):
        await embeddings.fail(claim, "no answer", retry_sec=seconds)

    assert row(tables)[0] == "claimed"


async def test_the_storable_part_of_an_error_is_stored(
    tables: ArchiveTables, embeddings: Embeddings
) -> None:
    add_jobs(tables)
    (claim,) = await embeddings.claim(worker="w1")

    await embeddings.fail(claim, "bad \ud800, \0" + "x" * 5000, retry_sec=0)

    assert row(tables)[3] == "bad ?, \ufffd" + "x" * (MAX_ERROR - 8)


async def test_a_killed_server_loses_no_claim(own_pg: Database) -> None:
    async with open_archive(own_pg) as tables:
        tables.archive.timeout_sec = 2
        embeddings = Embeddings(tables.archive, QUEUE)
        add_jobs(tables)
        (claim,) = await embeddings.claim(worker="w1")
        own_pg.stop()
        with pytest.raises(StoreUnavailable):
            await embeddings.done(claim, [1.0])
        own_pg.start()

        await embeddings.done(claim, [1.0])

        assert row(tables)[0] == "done"
