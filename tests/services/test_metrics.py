"""What is counted, and how Prometheus reads it."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rqueue import Context, Retry, State
from rqueue.metrics.catalogue import CATALOGUE, METRICS
from rqueue.metrics.exposition import exposition
from rqueue.metrics.figures import MOST_SERIES, OTHER, Figures, lasting, packed, unpacked
from rqueue.model.worker import Registration
from rqueue.services.gathering import Watched, gather, gather_queues
from rqueue.services.ledger import Ledger, raised
from rqueue.services.seats import Seats
from rqueue.services.slots import Running
from rqueue.services.worker import Worker
from rqueue.store.claims import Grant, grant
from rqueue.store.fleet import drain
from rqueue.store.leases import Held, Settled
from tests.house import NAME, House
from tests.lua.worker.crew import enrol
from tests.services.working import ended, until, working

PAGE = (Path(__file__).parent.parent.parent / "docs" / "metrics.md").read_text("utf-8")
TRACE = 'Traceback (most recent call last):\n  File "x.py", line 3, in f\n    boom()\n    ^^^^^^\n'
Samples = dict[tuple[str, tuple[str, ...]], float]


def samples(figures: Figures) -> Samples:
    """What a scrape says: by name and values of labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(exposition(figures.cells).decode()):
        for sample in family.samples:
            found[sample.name, tuple(sample.labels.values())] = sample.value
    return found


def watched(house: House, worker: Worker) -> list[Watched]:
    return [Watched("house", house.queue.shard, worker)]


def test_the_page_lists_every_metric_with_its_labels() -> None:
    rows = {
        name: tuple(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \|", PAGE, re.MULTILINE)
    }

    assert rows == {metric.name: metric.labels for metric in METRICS}


def test_the_names_and_labels_that_were_promised() -> None:
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


def test_a_scrape_of_nothing_says_zero() -> None:
    found = samples(Figures())

    assert found["tasks_dead_lettered_total", ()] == 0
    assert found["task_queue_wait_seconds_count", ()] == 0


def test_a_histogram_reads_as_prometheus_wants_it() -> None:
    figures = Figures()
    for value in (0.0005, 0.002, 0.002, 99):
        figures.observe("rqueue_script_seconds", "task/turn", value=value)

    found = samples(figures)

    assert found["rqueue_script_seconds_bucket", ("0.0005", "task/turn")] == 1
    assert found["rqueue_script_seconds_bucket", ("0.0025", "task/turn")] == 3
    assert found["rqueue_script_seconds_bucket", ("+Inf", "task/turn")] == 4
    assert found["rqueue_script_seconds_sum", ("task/turn",)] == pytest.approx(99.0045)


def test_labels_that_never_end_are_counted_together() -> None:
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
        one.share("agent_utilization", "w", part=busy, whole=10)
        one.count("tasks_completed_total", "t", by=busy)
        figures.add(unpacked(packed(one.cells)))

    found = samples(figures)

    assert found["agent_utilization", ("w",)] == 0.5
    assert found["tasks_completed_total", ("t",)] == 10


def test_of_a_process_that_is_gone_only_its_deeds_remain() -> None:
    figures = Figures()
    figures.count("tasks_completed_total", "t")
    figures.count("agent_heartbeat_misses_total", "w1")
    figures.put("rqueue_leases_held", "q", value=3)

    assert set(lasting(figures.cells)) == {"tasks_completed_total"}


def test_waits_are_those_of_tasks_that_were_ready_from_the_start() -> None:
    ledger = Ledger("w", "q")
    row = [b"01M7J64DSGF3S95GBFHQG3WX00", b"1:x"]
    plain = grant([*row, b"1000-0", b"{}"])
    delayed = grant([*row, b"1000", b"{}", b"0", b"0", b""])
    reclaimed = grant([*row, b"1000-0", b"{}", b"0", b"1", b""])

    ledger.claimed([plain], 3000)
    ledger.watch_waits()
    ledger.claimed([plain, delayed, reclaimed], 3000)

    found = samples(ledger.figures)
    assert found["task_queue_wait_seconds_count", ()] == 1
    assert found["task_queue_wait_seconds_sum", ()] == 2


def test_a_completion_that_was_refused_is_not_one() -> None:
    ledger = Ledger("w", "q")
    ids = ["01M7J64DSGF3S95GBFHQG3WX00", "01M7J64DSGF3S95GBFHQG3WX01"]
    ledger.types = dict.fromkeys(ids, "t")

    ledger.completed([Settled(id, "1:x", b"") for id in ids], ["OK", "LOST"])

    assert (ledger.completed_by_type, ledger.types) == ({"t": 1}, {})
    assert samples(ledger.figures)["rqueue_fence_rejections_total", ("q",)] == 1


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
def test_of_an_error_the_log_says_its_class_at_most(message: str, name: str) -> None:
    assert raised(message) == name


async def test_a_workers_deeds_are_counted(house: House, caplog: pytest.LogCaptureFixture) -> None:
    @house.queue.task("good")
    async def good(ctx: Context) -> None:
        await ctx.spend(0.5)

    @house.queue.task("bad", max_attempts=1)
    async def bad(word: str) -> None:
        raise TimeoutError(word)

    @house.queue.task("again")
    async def again() -> None:
        raise Retry(after=3600)

    @house.queue.task("once", ack="before")
    async def once() -> None: ...

    caplog.set_level(logging.INFO)
    async with working(house.queue, concurrency=4) as worker:
        worker.desk.ledger.watch_waits()
        await (await good.enqueue()).result(timeout=10)
        await (await once.enqueue()).result(timeout=10)
        await ended(house.queue, (await bad.enqueue("hush")).id, State.DEAD_LETTERED)
        await ended(house.queue, (await again.enqueue()).id, State.RETRYING)
        ledger = worker.desk.ledger
        await until(lambda: ledger.figures.cells.get("tasks_failed_total", {}).keys()
                    == {("timeout",), ("error",)})  # fmt: skip
        found = samples(gather(watched(house, worker)))

    assert found["tasks_completed_total", ("good",)] == 1
    assert found["tasks_completed_total", ("once",)] == 1
    assert found["tasks_failed_total", ("timeout",)] == 1
    assert found["tasks_dead_lettered_total", ()] == 1
    assert found["task_cost_usd", ("any", "unknown", "good")] == 0.5
    assert found["task_queue_wait_seconds_count", ()] == 4
    assert 0 < found["agent_claim_success_rate", ("w1",)] <= 1
    assert found["agent_heartbeat_misses_total", ("w1",)] == 0
    assert (ledger.types, "hush" in caplog.text) == ({}, False)
    lines = {line.message: line for line in caplog.records if line.name == "rqueue.worker"}
    assert vars(lines["task dead"])["raised"] == "TimeoutError"
    assert vars(lines["task failed"])["type"] == "again"


async def test_of_several_queues_on_the_same_seats_the_ratios_are_of_the_sums(house: House) -> None:
    seats = Seats(10)
    workers = [house.queue.worker(name="w1", types=["a"], seats=seats) for _ in range(2)]
    for number in range(6):
        workers[0].slots.running[str(number)] = cast(Running, None)
    workers[0].desk.ledger.asked, workers[0].desk.ledger.given = 100, 100
    workers[1].desk.ledger.asked, workers[1].desk.ledger.given = 100, 0

    found = samples(
        gather(
            [Watched(name, house.queue.shard, one) for name, one in zip("ab", workers, strict=True)]
        )
    )

    assert found["agent_utilization", ("w1",)] == 0.6
    assert found["agent_claim_success_rate", ("w1",)] == 0.5


async def test_a_lease_that_was_lost_is_counted_and_told_once(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    @house.queue.task("held")
    async def held() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with working(house.queue) as worker:
        handle = await held.enqueue()
        await begun.wait()
        await house.queue.cancel(handle.id)
        await worker.beat.tick()
        await until(lambda: not worker.held)
        found = samples(gather(watched(house, worker)))

    assert found["rqueue_leases_lost_total", ("house",)] == 1
    (line,) = [line for line in caplog.records if line.message == "task lost"]
    assert vars(line)["task"] == handle.id
    assert (worker.desk.ledger.types, found.get(("tasks_completed_total", ("held",)))) == ({}, None)


async def test_a_lease_that_has_ended_meanwhile_is_not_told_as_lost(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    worker = house.queue.worker()
    grant = Grant("01M7J64DSGF3S95GBFHQG3WX00", "1:x", 0, 0, 0, b"", b"")
    held = Held(grant.task, grant.token)

    worker.lose(held, "lost")
    # Finished, and on its way to be settled: the server took it in while the answer was awaited.
    worker.held[held.task] = held.token
    worker.lose(held, "lost")
    assert (caplog.records, worker.held) == ([], {held.task: held.token})
    worker.slots.ready.append(grant)
    worker.lose(held, "lost")

    assert [line.message for line in caplog.records] == ["task lost"]
    assert (list(worker.slots.ready), worker.held) == ([], {})


async def test_what_the_reaper_took_is_a_crash(house: House) -> None:
    lease = await house.running("code", max_attempts=1)
    scheduler = house.queue.scheduler()
    await house.age(lease, 3600)
    stop = asyncio.Event()
    running = asyncio.create_task(scheduler.run(stop))
    await until(lambda: scheduler.figures["reaper"].work)
    found = samples(gather([Watched("house", house.queue.shard, scheduler=scheduler)]))
    stop.set()
    await running

    reaped = sum(scheduler.figures["reaper"].work.values())
    assert found["tasks_failed_total", ("crash",)] == reaped == 1
    assert found["rqueue_scheduler_leading", ("house",)] == 1


async def test_the_depth_is_read_from_the_queue(house: House) -> None:
    await house.queue.enqueue("a", priority=1)
    await house.queue.enqueue("a", priority=90)
    await house.queue.enqueue("b", delay=60)
    await house.running("c")

    found = samples(await gather_queues([Watched("house", house.queue.shard)]))

    assert found["task_queue_depth", ("critical", "READY")] == 1
    assert found["task_queue_depth", ("background", "READY")] == 1
    assert found["task_queue_depth", ("any", "PENDING")] == 1
    assert found["task_queue_depth", ("any", "RUNNING")] == 1
    assert found["rqueue_queue_depth", ("house", "PENDING", "b")] == 1


async def test_what_nobody_can_do_and_who_is_at_work_are_read_from_the_queue(house: House) -> None:
    await enrol(house, "w1", "w1/a", Registration(types=("code",)))
    await enrol(house, "w2", "w2/a", Registration(types=("mail",)))
    await drain(house.queue.shard, "w2")
    for type in ("code", "mail", "mail"):
        await house.queue.enqueue(type)
    await house.queue.enqueue("code", required_capabilities=["gpu"])

    cells = (await gather_queues([Watched(NAME, house.queue.shard)])).cells

    assert cells["rqueue_unserved_tasks"] == {(NAME, "code"): [1.0], (NAME, "mail"): [2.0]}
    assert cells["rqueue_workers"] == {
        (NAME, "active"): [1.0],
        (NAME, "draining"): [1.0],
        (NAME, "offline"): [0.0],
    }
