"""`rqueue top`: one view, its rates, its limits, and how it fits a terminal."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from rich.console import Console

from rqueue.cli.output.screen import picture
from rqueue.cli.top.frame import View, follow, rates, take
from rqueue.cli.top.panels import Panel, document, fitted, head, narrowed
from rqueue.errors import StoreUnavailable
from tests.cli.conftest import Shell
from tests.harness import NAME, Harness


async def busy(harness: Harness) -> dict[str, str]:
    """Some of everything; the ids by what became of the tasks."""
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


async def test_a_program_gets_one_document(harness: Harness, shell: Shell) -> None:
    ids = await busy(harness)

    (found,) = await shell.json("top", "--once")

    assert (found["queue"], found["scheduler"], found["paused"]) == (NAME, None, ["type=docs"])
    assert (found["counts"]["READY"], found["completed_per_sec"]) == (3, None)
    assert found["types"]["code"]["oldest_ms"] >= 0
    assert [(one["id"], one["worker"]) for one in found["longest"]] == [(ids["running"], "w1")]
    assert [(one["id"], one["reason"]) for one in found["failures"]] == [(ids["dead"], "error")]


async def test_a_server_that_is_away_ends_one_view(lost_shell: Shell) -> None:
    lost_shell.env["RQUEUE_CALL_TIMEOUT_SEC"] = "1"

    result = await lost_shell.run("top", "--url", "redis://localhost:1", "--queue", NAME)

    assert (result.exit_code, result.stdout) == (4, "")


async def test_rates_are_what_changed_since_the_frame_before(alone: Harness) -> None:
    first = await take(alone.queue)
    lease = await alone.running("code")
    await lease.complete()
    second = replace(await take(alone.queue), clock=first.clock + 2)

    found = rates(first, second)

    assert (found.submitted, found.completed, found.by_type) == (0.5, 0.5, {"code": 0.5})
    back = rates(second, replace(first, clock=second.clock + 2))
    assert (back.submitted, back.completed) == (0, 0)


async def test_a_view_goes_on_while_the_server_is_away(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await alone.queue.enqueue("code")
    stop, views = asyncio.Event(), []
    counts = alone.queue.counts

    async def away() -> None:
        raise StoreUnavailable("the server")

    async for view in follow(alone.queue, 0.001, stop):
        views.append(view)
        monkeypatch.setattr(alone.queue, "counts", away if len(views) == 1 else counts)
        if len(views) == 3:
            stop.set()

    assert [bool(view.trouble) for view in views] == [False, True, False]
    assert views[1].frame is views[0].frame
    assert head(views[1])[0].startswith("server unavailable, retrying: ")
    assert document(views[1]).keys() == {"at", "error"}


async def test_a_frame_costs_the_same_whatever_waits(alone: Harness) -> None:
    async def commands() -> int:
        before = await alone.client.info("commandstats")
        await take(alone.queue)
        after = await alone.client.info("commandstats")
        return sum(after[name]["calls"] - before.get(name, {"calls": 0})["calls"] for name in after)

    await alone.running()
    await alone.queue.enqueue_many([alone.queue.call("code")] * 10)
    await take(alone.queue)
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
    view = View(await take(alone.queue), "the server is away")

    with console.capture() as drawn:
        console.print(picture(view, width, height))

    lines = drawn.get().splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(height, len(head(view)))


def a_panel(rows: int, *titles: str) -> Panel:
    return Panel(titles or ("A", "B"), (titles or ("a", "b"),) * rows, rows)


def test_the_longest_table_gives_up_rows_and_says_how_many() -> None:
    long, short = fitted([a_panel(9), a_panel(2)], 10)

    assert (len(long.rows), len(short.rows)) == (4, 2)
    assert (long.heading, short.heading) == (("A (+5)", "B"), ("A", "B"))


def test_where_rows_do_not_help_the_last_table_is_left_out() -> None:
    assert fitted([a_panel(3), a_panel(3)], 4) == [replace(a_panel(3), rows=(("a", "b"),) * 2)]
    assert fitted([a_panel(1)], 2) == []


def test_columns_that_do_not_fit_are_left_out_and_none_is_cut_but_the_last() -> None:
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
