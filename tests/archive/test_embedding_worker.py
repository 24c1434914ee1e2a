"""examples/embedding_worker.py, in its own process and called directly."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.archive.archived_harness import ArchivedHarness, archived_harness
from tests.harness import NAME
from tests.postgres import Database
from tests.servers import Server

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "embedding_worker.py"


@pytest.fixture
def example() -> Any:
    spec = importlib.util.spec_from_file_location("embedding_worker", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def archived(valkey: Server, postgres: Database) -> AsyncIterator[ArchivedHarness]:
    async with archived_harness(valkey, postgres, embedding_jobs=True) as found:
        yield found


def rows(archived: ArchivedHarness) -> list[tuple[Any, ...]]:
    return archived.tables.database.psql(
        "SELECT status, attempts, cardinality(embedding), error FROM rqueue.embedding_jobs"
    )


async def test_a_completed_task_is_embedded_by_a_process(
    archived: ArchivedHarness, valkey: Server, postgres: Database
) -> None:
    for at in range(40):
        await archived.ended(f"t{at % 3}")
    lease = await archived.harness.running()
    await lease.fail(permanent=True)
    await archived.archiver.tick()
    env = {**os.environ, "RQUEUE_REDIS_URL": valkey.url, "RQUEUE_POSTGRES_URL": postgres.url}

    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), NAME, "--once", env=env, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()

    assert (process.returncode, said.decode().strip()) == (0, "embedded 40")
    assert rows(archived) == [("done", 1, 64, None)] * 40


async def test_a_task_is_retried_after_the_model_raised(
    archived: ArchivedHarness, example: Any
) -> None:
    await archived.ended()
    await archived.archiver.tick()

    async def broken(texts: Sequence[str]) -> list[list[float]]:
        raise ValueError("no model")

    assert await example.work(archived.queue, broken, once=True) == 0
    assert rows(archived) == [("pending", 1, None, "ValueError: no model")]
    archived.tables.database.psql("UPDATE rqueue.embedding_jobs SET claimed_until = NULL")

    assert await example.work(archived.queue, example.hashed, once=True) == 1
    assert rows(archived) == [("done", 2, 64, None)]


async def test_equal_texts_have_equal_vectors(example: Any) -> None:
    first, second, third = await example.hashed(["a b", "a b", "c"])

    assert first == second != third
    assert sum(number * number for number in first) == pytest.approx(1)
