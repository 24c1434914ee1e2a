"""Large results: when they become artifacts, and errors of the store."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rqueue import Context, Middleware, Queue, RetryPolicy, State
from rqueue.cli.archive.maintenance import restore
from rqueue.errors import ArtifactsUnavailable, InvalidTask, LeaseLost, ResultMissing
from rqueue.task.attempt.outcome import Completed, Reason
from rqueue.task.forms import FORMS
from tests.artifacts.handlers import LARGE, large
from tests.artifacts.s3 import S3Server
from tests.harness import Harness, opened
from tests.servers import Server
from tests.worker.running import ended, until, working

SOON = RetryPolicy.fixed(0.01)
UNREAD = """
import sys
from rqueue import Queue

Queue("shop", url="redis://nowhere").worker(types=[])
print("obstore" in sys.modules)
Queue("shop", url="redis://nowhere", artifacts_url="s3://bucket").worker(types=[])
print("obstore" in sys.modules)
"""


@pytest.fixture
async def harness(server: Server, tmp_path: Path) -> AsyncIterator[Harness]:
    """A queue with a directory that all workers share."""
    async with opened(server, artifacts_url=f"file://{tmp_path}/kept") as found:
        yield found


async def test_without_artifacts_a_large_result_is_refused(alone: Harness) -> None:
    alone.queue.task("large", max_attempts=1)(large)

    async with working(alone.queue):
        handle = await alone.queue.enqueue("large")
        task = await ended(alone.queue, handle.id, State.DEAD_LETTERED)

    assert task.failure_reason == Reason.INVALID_OUTPUT
    assert "262144 are allowed" in task.last_error


async def test_a_result_above_the_artifact_limit_is_refused(valkey: Server, tmp_path: Path) -> None:
    options: dict[str, Any] = {"artifacts_url": f"file://{tmp_path}/kept"}
    async with opened(valkey, **options, artifacts_max_result_bytes=300_000) as harness:
        lease = await harness.running()
        with pytest.raises(InvalidTask, match="300000 are allowed"):
            await lease.complete(LARGE)
        await lease.complete("x" * 290_000)

    assert len(os.listdir(tmp_path / "kept")) == 2


async def test_with_a_limit_of_zero_no_result_becomes_an_artifact(
    valkey: Server, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"artifacts_url": f"file://{tmp_path}/kept"}
    async with opened(valkey, **options, artifacts_max_result_bytes=0) as harness:
        lease = await harness.running()

        with pytest.raises(InvalidTask, match="262144 are allowed"):
            await lease.complete(LARGE)

    assert not (tmp_path / "kept").exists()


def test_without_a_url_only_an_embedded_queue_stores_large_results(tmp_path: Path) -> None:
    elsewhere = Queue("shop", url="redis://nowhere", data_dir=tmp_path)._internals.runtime.shelf
    chosen = Queue(
        "shop", url="redis://nowhere", artifacts_url="file:///srv"
    )._internals.runtime.shelf

    assert elsewhere.rules.max_result_bytes == 0
    assert chosen.rules.max_result_bytes == 64 << 20
    assert str(elsewhere.place) == f"Directory(path={tmp_path / 'artifacts'!r})"


async def test_a_large_result_of_a_manual_lease_is_stored_and_returned(harness: Harness) -> None:
    lease = await harness.running()

    await lease.complete({"text": LARGE})

    assert (await harness.queue.get(lease.id)).result == {"text": LARGE}
    (kept,) = await harness.queue.artifacts.list(lease.id)
    assert (kept.name, kept.media_type) == ("result", "application/json")


async def test_a_lost_lease_leaves_an_unreferenced_artifact(
    harness: Harness, tmp_path: Path
) -> None:
    lease = await harness.running()
    await harness.client.hset(harness.keys.task(lease.id.ulid), "token", "9:other")

    with pytest.raises(LeaseLost):
        await lease.complete(LARGE)

    assert await harness.client.get(harness.keys.result(lease.id.ulid)) is None
    assert len(os.listdir(tmp_path / "kept")) == 2


async def test_a_task_with_a_missing_or_damaged_result_is_shown_without_it(
    harness: Harness, tmp_path: Path
) -> None:
    lease = await harness.running()
    await lease.complete(LARGE)
    (kept,) = await harness.queue.artifacts.list(lease.id)
    file = tmp_path / "kept" / kept.id

    assert not (await harness.queue.get(lease.id)).result_missing
    for spoil in (lambda: file.write_bytes(b"y" * kept.size), file.unlink):
        spoil()
        task = await harness.queue.get(lease.id)
        assert (task.state, task.result, task.result_missing) == (State.COMPLETED, None, True)
        assert (task.result_artifact, task.damaged) == (kept, ("result",))
        for form in FORMS:
            assert await (await harness.queue.handle(lease.id)).view(form)


async def test_reading_a_missing_result_names_the_restore_command(
    harness: Harness, tmp_path: Path
) -> None:
    async with harness.queue.dag("one") as dag:
        node = dag.add({"type": "large"}, name="large")
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete(LARGE)
    (kept,) = await harness.queue.artifacts.list(lease.id)
    (tmp_path / "kept" / kept.id).unlink()

    with pytest.raises(ResultMissing) as error:
        await node.result(30)
    assert (error.value.task, error.value.artifact) == (lease.id, kept.reference)
    (words,) = re.findall("`rqueue archive restore (.+?)`", str(error.value))
    assert restore.make_context("restore", words.split()).params["task"] == lease.id
    with pytest.raises(ResultMissing):
        await dag.results()


async def test_an_unavailable_store_is_not_a_missing_result(
    harness: Harness, tmp_path: Path
) -> None:
    lease = await harness.running()
    await lease.complete(LARGE)
    (tmp_path / "kept").rename(tmp_path / "away")
    (tmp_path / "kept").write_text("in the way")

    with pytest.raises(ArtifactsUnavailable):
        await harness.queue.get(lease.id)


async def test_a_task_that_needs_a_missing_result_fails_permanently(
    harness: Harness, tmp_path: Path
) -> None:
    lease = await harness.running()
    await lease.complete(LARGE)
    (kept,) = await harness.queue.artifacts.list(lease.id)
    (tmp_path / "kept" / kept.id).unlink()

    down = await harness.queue.enqueue("down", context_refs=[f"task:{lease.id}:output"])
    assert await harness.queue.claim(worker="w1", types=["down"]) == []
    task = await harness.queue.get(down.id)
    assert task.state is State.DEAD_LETTERED
    assert kept.id in (task.last_error or "")


async def test_middleware_receives_the_result_itself(harness: Harness) -> None:
    seen: list[Any] = []

    class Listener(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Any) -> None:
            seen.append(outcome)

        async def after_settle(self, ctx: Context, outcome: Any, state: State | None) -> None:
            seen.append((outcome, state))

    harness.queue.use(Listener())
    harness.queue.task("large")(large)

    async with working(harness.queue):
        handle = await harness.queue.enqueue("large")
        await handle.result(timeout=30)
        await until(lambda: len(seen) == 2)

    assert seen == [Completed(LARGE), (Completed(LARGE), State.COMPLETED)]


async def test_small_results_do_not_use_the_artifact_store(
    harness: Harness, tmp_path: Path
) -> None:
    @harness.queue.task("small")
    async def small() -> str:
        return "x" * 1000

    async with working(harness.queue):
        handle = await harness.queue.enqueue("small")
        await handle.result(timeout=30)

    assert not (tmp_path / "kept").exists()


def test_the_package_for_buckets_is_imported_for_buckets_only() -> None:
    found = subprocess.run(
        [sys.executable, "-c", UNREAD], check=True, capture_output=True, text=True
    )

    assert found.stdout.split() == ["False", "True"]


async def test_an_unwritable_directory_fails_one_attempt(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("in the way")
    harness.queue.task("large", retry=SOON)(large)

    async with working(harness.queue):
        handle = await harness.queue.enqueue("large")
        failed = await ended(harness.queue, handle.id, State.RETRYING)
        (tmp_path / "kept").unlink()
        await harness.make_due(handle.id)
        await harness.promoter.tick()
        assert await handle.result(timeout=30) == LARGE

    assert "artifact store" in failed.last_error
    assert failed.attempts == 1


async def test_an_unavailable_bucket_at_settle_loses_no_result(
    valkey: Server, stoppable_bucket: S3Server
) -> None:
    settings: dict[str, Any] = {"artifacts_url": stoppable_bucket.url, "artifacts_timeout_sec": 1}
    async with opened(valkey, **settings) as harness:

        @harness.queue.task("large", retry=RetryPolicy.fixed(60))
        async def dies(ctx: Context) -> str:
            if ctx.attempt == 1:
                stoppable_bucket.stop()
            return LARGE

        async with working(harness.queue):
            handle = await harness.queue.enqueue("large")
            task = await ended(harness.queue, handle.id, State.RETRYING)

        assert task.failure_reason == Reason.ERROR
        assert "artifact store" in task.last_error
        assert await harness.client.get(harness.keys.result(handle.id.ulid)) is None


async def test_an_unavailable_bucket_in_a_handler_is_retried(
    valkey: Server, stoppable_bucket: S3Server
) -> None:
    raised: list[Exception] = []
    settings: dict[str, Any] = {"artifacts_url": stoppable_bucket.url, "artifacts_timeout_sec": 1}
    async with opened(valkey, **settings) as harness:

        @harness.queue.task("puts", retry=RetryPolicy.fixed(60))
        async def puts(ctx: Context) -> None:
            stoppable_bucket.stop()
            try:
                await ctx.artifacts.put(b"x" * 100)
            except ArtifactsUnavailable as error:
                raised.append(error)
                raise

        async with working(harness.queue):
            handle = await harness.queue.enqueue("puts")
            task = await ended(harness.queue, handle.id, State.RETRYING)

    assert len(raised) == 1
    assert task.failure_reason == Reason.ERROR
    assert task.attached == ()


async def test_large_results_and_artifacts_are_stored_in_a_bucket(
    valkey: Server, bucket: S3Server
) -> None:
    async with opened(valkey, artifacts_url=bucket.url) as harness:
        harness.queue.task("large")(large)

        @harness.queue.task("puts")
        async def puts(ctx: Context) -> str:
            return (await ctx.artifacts.put(b"abc")).reference

        async with working(harness.queue):
            big = await harness.queue.enqueue("large")
            assert await big.result(timeout=30) == LARGE
            small = await harness.queue.enqueue("puts")
            reference = str(await small.result(timeout=30))

        assert await harness.queue.artifacts.get(reference) == b"abc"
