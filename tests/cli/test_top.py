"""`rqueue top`: one view, its rates, its size, and its end in a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rqueue.cli.output.panels import Panel, fitted, narrowed
from rqueue.cli.top import View, document, follow, head, picture, rates, read_frame
from rqueue.errors import StoreUnavailable
from tests.cli.conftest import Shell
from tests.cli.terminal import ENTER_SCREEN, terminal
from tests.harness import NAME, Harness
from tests.servers import Server


async def busy(harness: Harness) -> dict[str, str]:
    """Tasks in several states; their ids by state."""
    running = await harness.running("code")
    dead = await harness.running("docs")
    await dead.fail("error", "no\x1b[2J paper", permanent=True)
    await harness.queue.enqueue_many([harness.queue.call("code")] * 3)
    await harness.queue.pause(type="docs")
    return {"running": running.id, "dead": dead.id}


async def test_a_pipe_gets_one_view_in_plain_columns(harness: Harness, shell: Shell) -> None:
    ids = await busy(harness)

    lines = await shell.lines("top")

    assert lines[0].startswith(f"queue {NAME} on ")
    assert lines[1] == "READY 3  RUNNING 1  DEAD_LETTERED 1"
    assert lines[2] == "scheduler none  paused type=docs"
    table = {line.split()[0]: line.split()[1:] for line in lines if line}
    assert (table["code"][0], table["code"][2]) == ("3", "1")
    assert table["w1"][0] == "1"
    assert table[ids["running"]][0] == "code"
    assert table[ids["dead"]][:2] == ["docs", "DEAD_LETTERED"]
    assert r"no\x1b[2J paper" in "".join(lines)


async def test_an_empty_queue_is_no_error(harness: Harness, shell: Shell) -> None:
    lines = await shell.lines("top", "--once")

    assert lines[1:] == ["no tasks yet", "scheduler none"]


async def test_json_is_one_document(harness: Harness, shell: Shell) -> None:
    ids = await busy(harness)

    (found,) = await shell.json("top", "--once")

    assert (found["queue"], found["scheduler"], found["paused"]) == (NAME, None, ["type=docs"])
    assert (found["counts"]["READY"], found["completed_per_sec"]) == (3, None)
    assert found["types"]["code"]["oldest_ms"] >= 0
    assert [(one["id"], one["worker"]) for one in found["longest"]] == [(ids["running"], "w1")]
    assert [(one["id"], one["reason"]) for one in found["failures"]] == [(ids["dead"], "error")]


async def test_a_single_view_of_an_unavailable_server_is_exit_4(unset_shell: Shell) -> None:
    unset_shell.env["RQUEUE_CALL_TIMEOUT_SEC"] = "1"

    result = await unset_shell.run("top", "--url", "redis://localhost:1", "--queue", NAME)

    assert (result.exit_code, result.stdout) == (4, "")


async def test_rates_are_the_changes_since_the_previous_frame(alone: Harness) -> None:
    first = await read_frame(alone.queue)
    lease = await alone.running("code")
    await lease.complete()
    second = replace(await read_frame(alone.queue), clock=first.clock + 2)

    found = rates(first, second)

    assert (found.submitted, found.completed, found.by_type) == (0.5, 0.5, {"code": 0.5})
    back = rates(second, replace(first, clock=second.clock + 2))
    assert (back.submitted, back.completed) == (0, 0)


async def test_a_live_view_continues_while_the_server_is_unavailable(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await alone.queue.enqueue("code")
    stop, views = asyncio.Event(), []
    counts = alone.queue.counts

    async def fail() -> None:
        raise StoreUnavailable("the server")

    async for view in follow(alone.queue, 0.001, stop):
        views.append(view)
        monkeypatch.setattr(alone.queue, "counts", fail if len(views) == 1 else counts)
        if len(views) == 3:
            stop.set()

    assert [bool(view.error) for view in views] == [False, True, False]
    assert views[1].frame is views[0].frame
    assert head(views[1])[0].startswith("server unavailable, retrying: ")
    assert document(views[1]).keys() == {"at", "error"}


async def test_the_cost_of_a_frame_does_not_grow_with_the_tasks(alone: Harness) -> None:
    async def commands() -> int:
        before = await alone.client.info("commandstats")
        await read_frame(alone.queue)
        after = await alone.client.info("commandstats")
        return sum(after[name]["calls"] - before.get(name, {"calls": 0})["calls"] for name in after)

    await alone.running()
    await alone.queue.enqueue_many([alone.queue.call("code")] * 10)
    await read_frame(alone.queue)
    few = await commands()
    await alone.queue.enqueue_many([alone.queue.call("code")] * 2000)

    assert await commands() == few


@pytest.mark.parametrize(("width", "height"), [(200, 50), (80, 24), (40, 10), (20, 5), (10, 3)])
async def test_a_picture_fits_its_terminal(alone: Harness, width: int, height: int) -> None:
    await busy(alone)
    for number in range(40):
        await alone.queue.enqueue(f"type{number}")
        await alone.client.zadd(alone.keys.workers(), {f"worker{number}": number})
    console = Console(width=width, height=height)
    view = View(await read_frame(alone.queue), "the server is unavailable")

    with console.capture() as drawn:
        console.print(picture(view, width, height))

    lines = drawn.get().splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(height, len(head(view)))


def a_panel(rows: int, *titles: str) -> Panel:
    return Panel(titles or ("A", "B"), (titles or ("a", "b"),) * rows, rows)


def test_the_longest_table_is_shortened_and_counts_the_rest() -> None:
    long, short = fitted([a_panel(9), a_panel(2)], 10)

    assert (len(long.rows), len(short.rows)) == (4, 2)
    assert (long.heading, short.heading) == (("A (+5)", "B"), ("A", "B"))


def test_the_last_table_is_left_out_if_shortening_is_not_enough() -> None:
    assert fitted([a_panel(3), a_panel(3)], 4) == [replace(a_panel(3), rows=(("a", "b"),) * 2)]
    assert fitted([a_panel(1)], 2) == []


def test_columns_that_do_not_fit_are_left_out_and_only_the_last_is_cut() -> None:
    panel = a_panel(1, "A" * 10, "B" * 10, "C" * 30, "D" * 5)

    assert narrowed(panel, 100) == panel
    assert narrowed(panel, 58).titles == panel.titles[:3]
    assert narrowed(panel, 40).rows == (("A" * 10, "B" * 10, "C" * 15 + "…"),)
    assert narrowed(panel, 32).titles == panel.titles[:3]
    assert narrowed(panel, 31).titles == panel.titles[:2]
    assert narrowed(panel, 5).titles == panel.titles[:2]


def test_an_id_is_whole_or_left_out() -> None:
    titles = ("A" * 10, "B" * 10, "ID")
    panel = Panel(titles, (("a", "b", "x" * 30),), 1)

    assert narrowed(panel, 54) == panel
    assert narrowed(panel, 53).titles == titles[:2]


TOP = (sys.executable, "-m", "rqueue", "top", "--interval", "0.1")


def environment(server: Server) -> dict[str, str]:
    return {**os.environ, "RQUEUE_REDIS_URL": server.url, "RQUEUE_QUEUE": NAME}


@pytest.mark.parametrize(("how", "code"), [("q", 0), ("Ctrl-C", 130), ("SIGTERM", 143)])
async def test_the_view_ends_on_a_key_or_signal_and_restores_the_terminal(
    alone: Harness, valkey: Server, tmp_path: Path, *, how: str, code: int
) -> None:
    await alone.queue.enqueue("code")

    with terminal(TOP, env=environment(valkey), cwd=tmp_path) as shown:
        await shown.shows(ENTER_SCREEN)
        await shown.shows(b"READY 1")
        if how == "SIGTERM":
            shown.process.send_signal(signal.SIGTERM)
        else:
            shown.press(b"q" if how == "q" else b"\x03")

        assert await shown.end() == code
        assert shown.clean


async def test_json_is_one_document_in_each_interval(alone: Harness, valkey: Server) -> None:
    await alone.queue.enqueue("code")
    started = await asyncio.create_subprocess_exec(
        *TOP, "--json", stdout=asyncio.subprocess.PIPE, env=environment(valkey)
    )
    assert started.stdout is not None
    first, second = [json.loads(await started.stdout.readline()) for _ in range(2)]
    started.send_signal(signal.SIGINT)
    await started.communicate()

    assert (first["completed_per_sec"], second["completed_per_sec"]) == (None, 0)
    assert started.returncode == 130
