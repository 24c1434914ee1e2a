"""The metrics: what is counted, and the Prometheus format."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rqueue import Context, Retry, State
from rqueue.core.claim import Grant, grant
from rqueue.core.leases import HeldLease, Settled
from rqueue.core.workers import Registration, drain
from rqueue.gauges import gather, gather_queues
from rqueue.metrics.catalogue import CATALOGUE, METRICS
from rqueue.metrics.exposition import exposition
from rqueue.metrics.figures import MOST_SERIES, OTHER, Figures, lasting, packed, unpacked
from rqueue.process.monitor import ServedQueue
from rqueue.worker.shared_slots import SharedSlots
from rqueue.worker.slots import Running
from rqueue.worker.stats import WorkerStats, raised
from rqueue.worker.worker import Worker
from tests.harness import NAME, Harness
from tests.lua.worker.registered import register_worker
from tests.worker.running import ended, until, working

PAGE = (Path(__file__).parent.parent.parent / "docs" / "metrics.md").read_text("utf-8")
TRACE = 'Traceback (most recent call last):\n  File "x.py", line 3, in f\n    boom()\n    ^^^^^^\n'
Samples = dict[tuple[str, tuple[str, ...]], float]


def samples(figures: Figures) -> Samples:
    """The values of a scrape, by name and labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(exposition(figures.cells).decode()):
        for sample in family.samples:
            found[sample.name, tuple(sample.labels.values())] = sample.value
    return found


def served_queues(harness: Harness, worker: Worker) -> list[ServedQueue]:
    return [ServedQueue("sales", harness.queue._internals.shard, worker)]


def test_the_page_lists_every_metric_with_its_labels() -> None:
    rows = {
        name: tuple(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \|", PAGE, re.MULTILINE)
    }

    assert rows == {metric.name: metric.labels for metric in METRICS}


def test_documented_names_and_labels_exist() -> None:
    promised = {
        "task_queue_depth": ("status", "priority_tier"),
        "task_queue_wait_seconds": (),
        "tasks_completed_total": ("type",),
        "tasks_failed_total": ("reason",),
        "tasks_dead_lettered_total": (),
        "task_cost_usd": ("type", "agent", "model"),
        "agent_utilization": ("agent_id",),
        "agent_heartbeat_misses_total": ("agent_id",),
        "agent_claim_success_rate": ("agent_id",),
    }

    assert {name: CATALOGUE[name].labels for name in promised} == promised


def test_a_scrape_without_counts_shows_zero() -> None:
    found = samples(Figures())

    assert found["tasks_dead_lettered_total", ()] == 0
    assert found["task_queue_wait_seconds_count", ()] == 0


def test_a_histogram_has_the_prometheus_format() -> None:
    figures = Figures()
    for value in (0.0005, 0.002, 0.002, 99):
        figures.observe("rqueue_script_seconds", "task/exchange", value=value)

    found = samples(figures)

    assert found["rqueue_script_seconds_bucket", ("0.0005", "task/exchange")] == 1
    assert found["rqueue_script_seconds_bucket", ("0.0025", "task/exchange")] == 3
    assert found["rqueue_script_seconds_bucket", ("+Inf", "task/exchange")] == 4
    assert found["rqueue_script_seconds_sum", ("task/exchange",)] == pytest.approx(99.0045)


def test_series_above_the_limit_are_counted_together() -> None:
    figures = Figures()
    for number in range(2 * MOST_SERIES):
        figures.count("tasks_completed_total", f"t{number}")

    found = figures.cells["tasks_completed_total"]

    assert len(found) == MOST_SERIES + 1
    assert found[OTHER,] == [float(MOST_SERIES)]


def test_figures_add_up_and_ratios_are_of_the_sums() -> None:
    figures = Figures()
    for busy in (2, 8):
        one = Figures()
        one.add_ratio("agent_utilization", "w", part=busy, whole=10)
        one.count("tasks_completed_total", "t", by=busy)
        figures.add(unpacked(packed(one.cells)))

    found = samples(figures)

    assert found["agent_utilization", ("w",)] == 0.5
    assert found["tasks_completed_total", ("t",)] == 10


def test_only_counters_of_an_ended_process_are_kept() -> None:
    figures = Figures()
    figures.count("tasks_completed_total", "t")
    figures.count("agent_heartbeat_misses_total", "w1")
    figures.put("rqueue_leases_held", "q", value=3)

    assert set(lasting(figures.cells)) == {"tasks_completed_total"}


def test_waits_are_measured_for_tasks_that_were_ready_from_the_start() -> None:
    stats = WorkerStats("w", "q")
    row = [b"01M7J64DSGF3S95GBFHQG3WX00", b"1:x"]
    plain = grant([*row, b"1000-0", b"{}"])
    delayed = grant([*row, b"1000", b"{}", b"0", b"0", b""])
    reclaimed = grant([*row, b"1000-0", b"{}", b"0", b"1", b""])

    stats.claimed([plain], 3000)
    stats.watch_waits()
    stats.claimed([plain, delayed, reclaimed], 3000)

    found = samples(stats.figures)
    assert found["task_queue_wait_seconds_count", ()] == 1
    assert found["task_queue_wait_seconds_sum", ()] == 2


def test_a_refused_completion_is_not_counted() -> None:
    stats = WorkerStats("w", "q")
    ids = ["01M7J64DSGF3S95GBFHQG3WX00", "01M7J64DSGF3S95GBFHQG3WX01"]
    stats.types = dict.fromkeys(ids, "t")

    stats.completed([Settled(id, "1:x", b"") for id in ids], ["OK", "LOST"])

    assert (stats.completed_by_type, stats.types) == ({"t": 1}, {})
    assert samples(stats.figures)["rqueue_fence_rejections_total", ("q",)] == 1


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (f"{TRACE}shop.Bad: text: more", "shop.Bad"),
        (f"{TRACE}KeyboardInterrupt", "KeyboardInterrupt"),
        (f"{TRACE}ValueError: a\nSecret: b", "ValueError"),
        (f"{TRACE}OSError: a\n\nDuring ...:\n\n{TRACE}ValueError: a\n hush\nhush", "ValueError"),
        ("out of paper", ""),
        ("", ""),
    ],
)
def test_the_log_contains_only_the_class_of_an_error(message: str, name: str) -> None:
    assert raised(message) == name


async def test_outcomes_of_a_worker_are_counted(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    @harness.queue.task("good")
    async def good(ctx: Context) -> None:
        await ctx.spend(0.5)

    @harness.queue.task("bad", max_attempts=1)
    async def bad(word: str) -> None:
        raise TimeoutError(word)

    @harness.queue.task("again")
    async def again() -> None:
        raise Retry(after=3600)

    @harness.queue.task("once", ack="before")
    async def once() -> None: ...

    caplog.set_level(logging.INFO)
    async with working(harness.queue, concurrency=4) as worker:
        worker.executor.stats.watch_waits()
        await (await good.enqueue()).result(timeout=10)
        await (await once.enqueue()).result(timeout=10)
        await ended(harness.queue, (await bad.enqueue("hush")).id, State.DEAD_LETTERED)
        await ended(harness.queue, (await again.enqueue()).id, State.RETRYING)
        stats = worker.executor.stats
        await until(lambda: stats.figures.cells.get("tasks_failed_total", {}).keys()
                    == {("timeout",), ("error",)})  # fmt: skip
        found = samples(gather(served_queues(harness, worker)))

    assert found["tasks_completed_total", ("good",)] == 1
    assert found["tasks_completed_total", ("once",)] == 1
    assert found["tasks_failed_total", ("timeout",)] == 1
    assert found["tasks_dead_lettered_total", ()] == 1
    assert found["task_cost_usd", ("any", "unknown", "good")] == 0.5
    assert found["task_queue_wait_seconds_count", ()] == 4
    assert 0 < found["agent_claim_success_rate", ("w1",)] <= 1
    assert found["agent_heartbeat_misses_total", ("w1",)] == 0
    assert (stats.types, "hush" in caplog.text) == ({}, False)
    lines = {line.message: line for line in caplog.records if line.name == "rqueue.worker"}
    assert vars(lines["task dead"])["raised"] == "TimeoutError"
    assert vars(lines["task failed"])["type"] == "again"


async def test_the_ratios_of_queues_on_shared_slots_are_of_the_sums(
    harness: Harness,
) -> None:
    shared_slots = SharedSlots(10)
    workers = [
        harness.queue.worker(name="w1", types=["a"], shared_slots=shared_slots) for _ in range(2)
    ]
    for number in range(6):
        workers[0].slots.running[str(number)] = cast(Running, None)
    workers[0].executor.stats.claims_sent, workers[0].executor.stats.claims_filled = 100, 100
    workers[1].executor.stats.claims_sent, workers[1].executor.stats.claims_filled = 100, 0

    found = samples(
        gather(
            [
                ServedQueue(name, harness.queue._internals.shard, one)
                for name, one in zip("ab", workers, strict=True)
            ]
        )
    )

    assert found["agent_utilization", ("w1",)] == 0.6
    assert found["agent_claim_success_rate", ("w1",)] == 0.5


async def test_a_lost_lease_is_counted_and_logged_once(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    @harness.queue.task("held")
    async def held() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with working(harness.queue) as worker:
        handle = await held.enqueue()
        await begun.wait()
        await harness.queue.cancel(handle.id)
        await worker.beat.tick()
        await until(lambda: not worker.held)
        found = samples(gather(served_queues(harness, worker)))

    assert found["rqueue_leases_lost_total", ("sales",)] == 1
    (line,) = [line for line in caplog.records if line.message == "task lost"]
    assert vars(line)["task"] == handle.id
    assert (worker.executor.stats.types, found.get(("tasks_completed_total", ("held",)))) == (
        {},
        None,
    )


async def test_a_lease_that_has_ended_meanwhile_is_not_reported_as_lost(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    worker = harness.queue.worker()
    grant = Grant("01M7J64DSGF3S95GBFHQG3WX00", "1:x", 0, 0, 0, b"", b"")
    held = HeldLease(grant.task, grant.token)

    worker.lose(held, "lost")
    # Finished and being settled: the task completed while the answer was awaited.
    worker.held[held.task] = held.token
    worker.lose(held, "lost")
    assert (caplog.records, worker.held) == ([], {held.task: held.token})
    worker.slots.ready.append(grant)
    worker.lose(held, "lost")

    assert [line.message for line in caplog.records] == ["task lost"]
    assert (list(worker.slots.ready), worker.held) == ([], {})


async def test_a_reaped_lease_is_counted_as_a_crash(harness: Harness) -> None:
    lease = await harness.running("code", max_attempts=1)
    scheduler = harness.queue.scheduler()
    await harness.age(lease, 3600)
    stop = asyncio.Event()
    running = asyncio.create_task(scheduler.run(stop))
    await until(lambda: scheduler.figures["reaper"].work)
    found = samples(
        gather([ServedQueue("sales", harness.queue._internals.shard, scheduler=scheduler)])
    )
    stop.set()
    await running

    reaped = sum(scheduler.figures["reaper"].work.values())
    assert found["tasks_failed_total", ("crash",)] == reaped == 1
    assert found["rqueue_scheduler_leading", ("sales",)] == 1


async def test_the_depth_is_read_from_the_queue(harness: Harness) -> None:
    await harness.queue.enqueue("a", priority=1)
    await harness.queue.enqueue("a", priority=90)
    await harness.queue.enqueue("b", delay=60)
    await harness.running("c")

    found = samples(await gather_queues([ServedQueue("sales", harness.queue._internals.shard)]))

    assert found["task_queue_depth", ("critical", "READY")] == 1
    assert found["task_queue_depth", ("background", "READY")] == 1
    assert found["task_queue_depth", ("any", "PENDING")] == 1
    assert found["task_queue_depth", ("any", "RUNNING")] == 1
    assert found["rqueue_queue_depth", ("sales", "PENDING", "b")] == 1


async def test_unserved_tasks_and_workers_are_read_from_the_queue(
    harness: Harness,
) -> None:
    await register_worker(harness, "w1", "w1/a", Registration(types=("code",)))
    await register_worker(harness, "w2", "w2/a", Registration(types=("mail",)))
    await drain(harness.queue._internals.shard, "w2")
    for type in ("code", "mail", "mail"):
        await harness.queue.enqueue(type)
    await harness.queue.enqueue("code", required_capabilities=["gpu"])

    cells = (await gather_queues([ServedQueue(NAME, harness.queue._internals.shard)])).cells

    assert cells["rqueue_unserved_tasks"] == {(NAME, "code"): [1.0], (NAME, "mail"): [2.0]}
    assert cells["rqueue_workers"] == {
        (NAME, "active"): [1.0],
        (NAME, "draining"): [1.0],
        (NAME, "offline"): [0.0],
    }
