"""Real worker processes: their offer, slots changed by signals, and exceeded resource limits."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from rqueue import State
from tests.harness import NAME, Harness, opened
from tests.integration.programs import Program, program
from tests.queue.until import until
from tests.servers import Server

APP = f'''
import asyncio
from rqueue import Context, Queue

queue = Queue("{NAME}", lease_sec=3)

@queue.task("held")
async def held(ctx: Context) -> None:
    await ctx.progress("begun")
    await asyncio.Event().wait()
'''


@pytest.fixture
async def harness(valkey: Server) -> AsyncIterator[Harness]:
    async with opened(valkey, lease_sec=3) as harness:
        yield harness


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


async def slots(running: Program, times: int) -> list[int]:
    """The slots of the log lines, once there are that many."""
    return [line["slots"] for line in await running.wait_for("slots changed", times)]


async def test_a_worker_registers_the_name_and_the_offer_of_its_command(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    words = ["--name", "w7", "--capability", "gpu", "--capability", "eu", "--agent", "ann"]
    words += ["--model", "small"]
    others = [
        await harness.queue.enqueue("held", {}, required_capabilities=["gpu", "moon"]),
        await harness.queue.enqueue("held", {}, agent_name="bob"),
    ]
    handle = await harness.queue.enqueue(
        "held", {}, required_capabilities=["eu", "gpu"], agent_name="ann", priority=90
    )
    large = await harness.queue.enqueue("held", {}, model_preferences=["large"], priority=10)

    async def begun() -> bool:
        return (await harness.task(handle.id)).progress == "begun"

    with program(valkey.url, folder, "worker", "app:queue", "--grace", "0", *words) as running:
        await until(begun)
        claim = (await harness.task(handle.id)).claim
        states = [await other.status() for other in others]
        refused = await harness.task(large.id)
        code = running.end()

    assert "needs one of the models large; this worker has small" in (refused.last_error or "")
    assert claim is not None
    assert (claim.agent_id, states, code) == ("w7", [State.READY, State.READY], 0)


def status_of(pid: int) -> str:
    """The status of a process as the kernel shows it."""
    return Path(f"/proc/{pid}/status").read_text()


async def is_delivered(pid: int, number: signal.Signals) -> bool:
    """Whether a signal that was sent to a process is not pending any more."""
    (pending,) = re.findall(r"ShdPnd:\s*(\w+)", status_of(pid))
    return not int(pending, 16) & 1 << number - 1


async def test_one_signal_adds_a_slot_and_another_removes_it(
    harness: Harness, valkey: Server, folder: Path
) -> None:
    words = ["worker", "app:queue", "--concurrency", "1", "--grace", "0"]
    handles = [await harness.queue.enqueue("held", {}) for _ in range(2)]

    async def both_begun() -> bool:
        return all([(await harness.task(one.id)).progress == "begun" for one in handles])

    with program(valkey.url, folder, *words) as running:
        await running.wait_for("worker started")
        running.process.send_signal(signal.SIGTTIN)
        await until(both_begun)
        running.process.send_signal(signal.SIGTTOU)
        found = await slots(running, 2)
        running.process.send_signal(signal.SIGTTOU)
        # Of two pending signals the kernel delivers the one with the lower number first.
        await until(partial(is_delivered, running.process.pid, signal.SIGTTOU))
        running.process.send_signal(signal.SIGTTIN)
        found = await slots(running, 3)
        code = running.end()

    # The last slot cannot be removed.
    assert (found, code) == ([2, 1, 2], 0)


async def test_all_subprocesses_get_another_slot_also_later_ones(
    valkey: Server, folder: Path
) -> None:
    words = ["worker", "app:queue", "--concurrency", "3", "--processes", "2"]
    with program(valkey.url, folder, *words) as running:
        started = await running.wait_for("worker started", 2)
        running.process.send_signal(signal.SIGTTIN)
        both = await slots(running, 2)
        os.kill(int(started[0]["worker"].split(":")[1]), signal.SIGKILL)
        third = await slots(running, 3)
        code = running.end()

    assert (both, third, code) == ([4, 4], [4, 4, 4], 0)


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
async def test_signals_change_the_slots_under_reload(
    valkey: Server, folder: Path, options: tuple[str, ...]
) -> None:
    count = 2 if options else 1
    with program(valkey.url, folder, "worker", "app:queue", "--reload", *options) as running:
        await running.wait_for("worker started", count)
        running.process.send_signal(signal.SIGTTOU)
        found = await slots(running, count)
        code = running.end()

    assert (found, code) == ([9] * count, 0)


async def test_the_subprocess_of_a_killed_reloader_ends(valkey: Server, folder: Path) -> None:
    words = ["worker", "app:queue", "--reload", "--processes", "2"]
    with program(valkey.url, folder, *words) as running:
        await running.wait_for("worker started", 2)
        running.process.kill()

        assert len(await running.wait_for("worker stopped", 2)) == 2


async def test_a_limit_below_the_needs_of_a_process_is_logged_once(
    valkey: Server, folder: Path
) -> None:
    words = ["worker", "app:queue", "--max-rss", "1", "--processes", "2"]
    with program(valkey.url, folder, *words) as running:
        replaced = await running.wait_for("process replaced", 3)
        ((place, _),) = Counter(line["place"] for line in replaced).most_common(1)
        (reached, *_) = running.lines("limit reached")
        logged = running.lines("--max-rss 1 is reached right after the start of a process")
        code = running.end()

    pauses = [line["another_in_sec"] for line in replaced if line["place"] == place]
    assert pauses[:2] == [1.0, 2.0]
    assert (reached["limit"], reached["mb"] > 1) == ("--max-rss 1", True)
    assert (len(logged), code) == (1, 0)
