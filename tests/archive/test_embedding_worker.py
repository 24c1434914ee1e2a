"""examples/embedding_worker.py: a real worker, in a process of its own and by hand."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.archive.archived_harness import ArchivedHarness, housed
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
async def home(valkey: Server, postgres: Database) -> AsyncIterator[ArchivedHarness]:
    async with housed(valkey, postgres, embedding_jobs=True) as found:
        yield found


def rows(home: ArchivedHarness) -> list[tuple[Any, ...]]:
    return home.kept.database.psql(
        "SELECT status, attempts, cardinality(embedding), error FROM rqueue.embedding_jobs"
    )


async def test_what_completes_is_embedded_by_a_process(
    home: ArchivedHarness, valkey: Server, postgres: Database
) -> None:
    for at in range(40):
        await home.ended(f"t{at % 3}")
    lease = await home.harness.running()
    await lease.fail(permanent=True)
    await home.archiver.tick()
    env = {**os.environ, "RQUEUE_REDIS_URL": valkey.url, "RQUEUE_POSTGRES_URL": postgres.url}

    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), NAME, "--once", env=env, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()

    assert (process.returncode, said.decode().strip()) == (0, "embedded 40")
    assert rows(home) == [("done", 1, 64, None)] * 40


async def test_a_model_that_raises_leaves_it_for_another_time(
    home: ArchivedHarness, example: Any
) -> None:
    await home.ended()
    await home.archiver.tick()

    async def broken(texts: Sequence[str]) -> list[list[float]]:
        raise ValueError("no model")

    assert await example.work(home.queue, broken, once=True) == 0
    assert rows(home) == [("pending", 1, None, "ValueError: no model")]
    home.kept.database.psql("UPDATE rqueue.embedding_jobs SET claimed_until = NULL")

    assert await example.work(home.queue, example.hashed, once=True) == 1
    assert rows(home) == [("done", 2, 64, None)]


async def test_equal_texts_have_equal_vectors(example: Any) -> None:
    first, second, third = await example.hashed(["a b", "a b", "c"])

    assert first == second != third
    assert sum(number * number for number in first) == pytest.approx(1)
