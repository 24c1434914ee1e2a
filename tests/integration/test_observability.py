"""Metrics, probes, logs and reload of real processes."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rqueue import State
from tests.harness import NAME, Harness, build
from tests.integration.programs import program
from tests.queue.until import until
from tests.servers import Server

HUSH = "hush-hush"
APP = f'''
import asyncio, threading
from rqueue import Context, Middleware, Queue, RetryPolicy

queue = Queue("{NAME}", lease_sec=3)

class Leaking(Middleware):
    async def after_attempt(self, ctx, outcome):
        if ctx.task.type in ("bad", "echo"):
            raise ValueError("cannot index", ctx.task.payload)

queue.use(Leaking())

@queue.task("echo", ack="before")
async def echo(word: str) -> str:
    raise ValueError(word)

@queue.task("noop")
async def noop(n: int) -> None: ...

@queue.task("bad", max_attempts=2, retry=RetryPolicy.fixed(0))
async def bad(word: str) -> str:
    raise ValueError(word, "in the text of an error")

@queue.task("wrong")
async def wrong(n: int) -> int: ...

@queue.task("stay")
async def stay() -> None:
    print("said", end="")
    threading.Thread(target=threading.Event().wait).start()

@queue.task("held")
async def held(ctx: Context) -> None:
    await ctx.progress("begun")
    await asyncio.Event().wait()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@pytest.fixture
async def harness(valkey: Server) -> AsyncIterator[Harness]:
    connection, client = valkey.connection(), valkey.client()
    harness = build(connection, client)
    yield harness
    await harness.queue.aclose()
    await connection.aclose()
    await client.aclose()


async def scrape(address: str) -> dict[tuple[str, str], float]:
    """Scrapes metrics over HTTP, parsed by Prometheus' own parser: by name and the values of
    labels.
    """

    def get() -> str:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    families = text_string_to_metric_families(await asyncio.to_thread(get))
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def alive(pid: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    return False


async def test_counters_of_several_processes_are_summed_and_never_decrease(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    words = ["worker", "app:queue", "--processes", "2", "--metrics-port", "0", "--max-tasks", "1"]
    seen: list[float] = []
    with program(valkey.url, folder, *words) as running:
        ((listening,), _) = (
            await running.wait_for("listening"),
            await running.wait_for("worker started", 2),
        )
        rounds = 4
        for number in range(rounds):
            # Each process ends after its first check of its resources, and another is started.
            await running.wait_for("worker started", 2 + number)
            await harness.queue.enqueue_many(
                [harness.queue.call("noop", {"n": n}) for n in range(50)]
            )

            async def counted(number: int = number) -> bool:
                await asyncio.sleep(0.02)
                found = await scrape(listening["address"])
                seen.append(found.get(("tasks_completed_total", "noop"), 0.0))
                return seen[-1] == 50 * (number + 1)

            await until(counted)
        await running.wait_for("process replaced", 2)
        found = await scrape(listening["address"])
        code = running.end()

    assert seen == sorted(seen)
    assert (await harness.queue.counts())[State.COMPLETED] == 50 * rounds
    assert found["task_queue_wait_seconds_count", ""] == 50 * rounds
    assert found["rqueue_process_restarts_total", "ended"] >= 2
    assert code == 0


async def test_subprocesses_drain_when_their_supervisor_is_killed(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    words = ["worker", "app:queue", "--processes", "2", "--grace", "0"]
    with program(valkey.url, folder, *words) as running:
        started = await running.wait_for("worker started", 2)
        handle = await harness.queue.enqueue("held")

        async def begun() -> bool:
            return (await harness.task(handle.id)).progress == "begun"

        await until(begun)
        running.process.kill()
        await running.wait_for("worker stopped", 2)
        pids = [int(line["worker"].split(":")[1]) for line in started]

        async def gone() -> bool:
            await asyncio.sleep(0.05)
            return not any(alive(pid) for pid in pids)

        await until(gone)

    task = await harness.task(handle.id)
    assert (task.state, task.attempts) == (State.READY, 0)


async def test_printed_output_is_not_lost_when_a_thread_is_abandoned(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    with program(valkey.url, folder, "worker", "app:queue") as running:
        await (await harness.queue.enqueue("stay")).result(timeout=20)
        code = running.end()

    assert (code, (folder / "out").read_text()) == (0, "said")


async def test_no_log_line_contains_a_secret(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    words = ["worker", "app:queue", "--log-level", "debug", "--metrics-port", "0"]
    # The default user of a server without passwords accepts any.
    url = valkey.url.replace("://", f"://default:{HUSH}@")
    at_once = {"strategy": "immediate"}
    with program(url, folder, *words) as running:
        await running.wait_for("worker started")
        await harness.queue.enqueue("bad", {"word": HUSH}, max_attempts=2, retry=at_once)
        await harness.queue.enqueue("bad", {"nonsense": HUSH})
        await harness.queue.enqueue("wrong", {"n": HUSH})
        await harness.queue.enqueue("echo", {"word": HUSH})
        held = await harness.queue.enqueue("held", {})
        await running.wait_for("task dead", 3)
        await running.wait_for("task failed after it was acknowledged")
        await running.wait_for("after_attempt of Leaking failed", 3)
        await harness.queue.cancel(held.id)
        await running.wait_for("task lost")
        await harness.client.client_kill_filter(_type="normal", skipme=True)
        code = running.end()

    assert code == 0
    assert len(running.lines("task failed")) >= 1
    assert HUSH not in running.log.read_text()


async def test_reload_runs_changed_code_and_waits_for_broken_code(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    app = folder / "app.py"
    with program(valkey.url, folder, "worker", "app:queue", "--reload") as running:
        await running.wait_for("worker started")
        app.write_text("def broken(:\n")
        (line,) = await running.wait_for("syntax error, waiting for the next change")
        await (await harness.queue.enqueue("noop", {"n": 1})).result(timeout=20)
        app.write_text(APP + "\n1 / 0\n")
        await running.wait_for("process ended, waiting for a change")
        app.write_text(APP.replace("n: int) -> None: ...", 'n: int) -> str: return "new"'))
        await running.wait_for("worker started", 2)
        result = await (await harness.queue.enqueue("noop", {"n": 1})).result(timeout=20)
        code = running.end()

    assert line["file"].endswith("app.py")
    assert (result, code) == ("new", 0)


async def test_a_scheduler_has_metrics_and_probes(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    words = ["scheduler", "--queue", NAME, "--metrics-port", "0"]
    await harness.queue.enqueue("noop")
    with program(valkey.url, folder, *words) as running:
        ((listening,), _) = await running.wait_for("listening"), await running.wait_for("leading")
        found = await scrape(listening["address"])
        code = running.end()

    assert found["rqueue_scheduler_leading", NAME] == 1
    assert found["task_queue_depth", "normal,READY"] == 1
    assert code == 0


async def test_a_taken_port_is_reported_in_one_line(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = str(taken.sockets[0].getsockname()[1])
    for words in (["--processes", "2"], []):
        with program(
            valkey.url, folder, "worker", "app:queue", "--metrics-port", port, *words
        ) as running:
            code = await asyncio.to_thread(running.process.wait, 20)
        assert code == 5
        assert "cannot be listened on" in running.log.read_text().splitlines()[-1]
    taken.close()
