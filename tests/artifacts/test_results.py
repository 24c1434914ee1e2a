"""Large results: when they become artifacts, and what happens where they cannot."""

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
from tests.worker.working import ended, until, working

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
    """A house with a directory that all its workers see."""
    async with opened(server, artifacts_url=f"file://{tmp_path}/kept") as found:
        yield found


async def test_without_a_place_for_it_a_large_result_is_refused_as_ever(alone: Harness) -> None:
    alone.queue.task("large", max_attempts=1)(large)

    async with working(alone.queue):
        handle = await alone.queue.enqueue("large")
        task = await ended(alone.queue, handle.id, State.DEAD_LETTERED)

    assert task.failure_reason == Reason.INVALID_OUTPUT
    assert "262144 are allowed" in task.last_error


async def test_one_larger_than_may_become_an_artifact_is_refused(
    valkey: Server, tmp_path: Path
) -> None:
    there: dict[str, Any] = {"artifacts_url": f"file://{tmp_path}/kept"}
    async with opened(valkey, **there, artifacts_max_result_bytes=300_000) as harness:
        lease = await harness.running()
        with pytest.raises(InvalidTask, match="300000 are allowed"):
            await lease.complete(LARGE)
        await lease.complete("x" * 290_000)

    assert len(os.listdir(tmp_path / "kept")) == 2


async def test_none_becomes_one_where_it_is_switched_off(valkey: Server, tmp_path: Path) -> None:
    there: dict[str, Any] = {"artifacts_url": f"file://{tmp_path}/kept"}
    async with opened(valkey, **there, artifacts_max_result_bytes=0) as harness:
        lease = await harness.running()

        with pytest.raises(InvalidTask, match="262144 are allowed"):
            await lease.complete(LARGE)

    assert not (tmp_path / "kept").exists()


def test_only_the_machine_of_an_embedded_queue_keeps_them_by_itself(tmp_path: Path) -> None:
    elsewhere = Queue("shop", url="redis://nowhere", data_dir=tmp_path)._internals.runtime.shelf
    chosen = Queue(
        "shop", url="redis://nowhere", artifacts_url="file:///srv"
    )._internals.runtime.shelf

    assert elsewhere.rules.max_result_bytes == 0
    assert chosen.rules.max_result_bytes == 64 << 20
    assert str(elsewhere.place) == f"Directory(path={tmp_path / 'artifacts'!r})"


async def test_by_hand_too_a_large_result_is_kept_and_brought_back(harness: Harness) -> None:
    lease = await harness.running()

    await lease.complete({"text": LARGE})

    assert (await harness.queue.get(lease.id)).result == {"text": LARGE}
    (kept,) = await harness.queue.artifacts.list(lease.id)
    assert (kept.name, kept.media_type) == ("result", "application/json")


async def test_a_lost_lease_leaves_bytes_that_nothing_names(
    harness: Harness, tmp_path: Path
) -> None:
    lease = await harness.running()
    await harness.client.hset(harness.keys.task(lease.id.ulid), "token", "9:other")

    with pytest.raises(LeaseLost):
        await lease.complete(LARGE)

    assert await harness.client.get(harness.keys.result(lease.id.ulid)) is None
    assert len(os.listdir(tmp_path / "kept")) == 2


async def test_a_task_whose_result_is_gone_or_damaged_is_shown_without_it(
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


async def test_only_who_asks_for_a_result_that_is_gone_is_told_what_to_do(
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


async def test_a_store_that_is_away_is_not_taken_for_a_result_that_is_gone(
    harness: Harness, tmp_path: Path
) -> None:
    lease = await harness.running()
    await lease.complete(LARGE)
    (tmp_path / "kept").rename(tmp_path / "away")
    (tmp_path / "kept").write_text("in the way")

    with pytest.raises(ArtifactsUnavailable):
        await harness.queue.get(lease.id)


async def test_a_task_that_needs_a_result_that_is_gone_fails_for_good(
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


async def test_middleware_sees_the_result_itself(harness: Harness) -> None:
    seen: list[Any] = []

    class Ear(Middleware):
        async def after_attempt(self, ctx: Context, outcome: Any) -> None:
            seen.append(outcome)

        async def after_settle(self, ctx: Context, outcome: Any, state: State | None) -> None:
            seen.append((outcome, state))

    harness.queue.use(Ear())
    harness.queue.task("large")(large)

    async with working(harness.queue):
        handle = await harness.queue.enqueue("large")
        await handle.result(timeout=30)
        await until(lambda: len(seen) == 2)

    assert seen == [Completed(LARGE), (Completed(LARGE), State.COMPLETED)]


async def test_plain_results_touch_no_place(harness: Harness, tmp_path: Path) -> None:
    @harness.queue.task("small")
    async def small() -> str:
        return "x" * 1000

    async with working(harness.queue):
        handle = await harness.queue.enqueue("small")
        await handle.result(timeout=30)

    assert not (tmp_path / "kept").exists()


def test_the_package_for_buckets_is_read_by_who_has_one() -> None:
    found = subprocess.run(
        [sys.executable, "-c", UNREAD], check=True, capture_output=True, text=True
    )

    assert found.stdout.split() == ["False", "True"]


async def test_a_directory_in_the_way_fails_the_attempt_and_the_next_succeeds(
    harness: Harness, tmp_path: Path
) -> None:
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


async def test_a_bucket_that_is_gone_when_a_result_is_settled_loses_nothing(
    valkey: Server, mortal: S3Server
) -> None:
    settings: dict[str, Any] = {"artifacts_url": mortal.url, "artifacts_timeout_sec": 1}
    async with opened(valkey, **settings) as harness:

        @harness.queue.task("large", retry=RetryPolicy.fixed(60))
        async def dies(ctx: Context) -> str:
            if ctx.attempt == 1:
                mortal.stop()
            return LARGE

        async with working(harness.queue):
            handle = await harness.queue.enqueue("large")
            task = await ended(harness.queue, handle.id, State.RETRYING)

        assert task.failure_reason == Reason.ERROR
        assert "artifact store" in task.last_error
        assert await harness.client.get(harness.keys.result(handle.id.ulid)) is None


async def test_a_bucket_that_is_gone_while_a_handler_puts_is_typed_and_retried(
    valkey: Server, mortal: S3Server
) -> None:
    raised: list[Exception] = []
    settings: dict[str, Any] = {"artifacts_url": mortal.url, "artifacts_timeout_sec": 1}
    async with opened(valkey, **settings) as harness:

        @harness.queue.task("puts", retry=RetryPolicy.fixed(60))
        async def puts(ctx: Context) -> None:
            mortal.stop()
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


async def test_large_results_and_puts_live_in_a_bucket(valkey: Server, bucket: S3Server) -> None:
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
