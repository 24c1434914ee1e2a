"""`rqueue dag show --watch` and `submit --wait`: until the DAG is at rest."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rich.console import Console

from rqueue.cli.dag.commands import ended
from rqueue.cli.dag.picture import progress, summary, table
from rqueue.cli.dag.watch import DagView, follow, picture, shown
from rqueue.core.leases import HeldLease
from rqueue.core.spawn import SpawnDraft, spawn
from rqueue.errors import StoreUnavailable
from rqueue.task.ids import new_task_id
from tests.cli.conftest import Shell
from tests.cli.dags import complete, die, ids, running, submitted
from tests.cli.terminal import ENTER_SCREEN, terminal
from tests.harness import NAME, Harness
from tests.servers import Server

PLAN = {"tasks": [{"type": "a", "name": "a"}, {"type": "b", "name": "b", "after": ["a"]}]}


def environment(server: Server) -> dict[str, str]:
    return {**os.environ, "RQUEUE_REDIS_URL": server.url, "RQUEUE_QUEUE": NAME}


def lines(drawn: object, width: int) -> list[str]:
    """What a terminal of this width shows, without colours."""
    console = Console(width=width, color_system=None, force_terminal=True)
    with console.capture() as taken:
        console.print(drawn)
    return [line.rstrip() for line in taken.get().splitlines()]


async def step(views: AsyncIterator[DagView]) -> DagView:
    return await anext(views)


async def test_a_watch_ends_with_the_dag(alone: Harness) -> None:
    dag = await submitted(alone, {"a": [], "b": ["a"]})
    views = follow(alone.queue, dag, 0.01, asyncio.Event())

    seen = [await step(views)]
    await complete(alone, "a")
    seen.append(await step(views))
    await complete(alone, "b")
    seen += [view async for view in views]

    graphs = [view.graph for view in seen]
    assert [graph.dag.completed for graph in graphs if graph] == [0, 1, 2]
    assert [graph.at_rest for graph in graphs if graph] == [False, False, True]


async def test_a_dag_that_waits_only_for_dead_tasks_is_at_rest(alone: Harness) -> None:
    dag = await submitted(alone, {"a": [], "b": ["a"], "c": ["b"], "d": []})
    await die(alone, "a")
    graph = await alone.queue.dags.show(dag)
    assert (graph.dag.status, graph.dag.ended, graph.at_rest) == ("failed", False, False)

    await complete(alone, "d")

    assert (await alone.queue.dags.show(dag)).at_rest
    assert (await ended(alone.queue, dag, None)).status == "failed"


async def test_a_dag_that_waits_for_a_time_or_another_dag_is_not_at_rest(alone: Harness) -> None:
    other = await alone.queue.enqueue("other")
    tasks = [{"type": "a"}, {"type": "b", "delay": 60}, {"type": "c", "after": [other.id]}]
    dag = (await alone.queue.dags.submit({"tasks": tasks})).id
    await die(alone, "a")
    assert not (await alone.queue.dags.show(dag)).at_rest

    await alone.queue.run_now((await ids(alone, dag))["b"])
    await complete(alone, "b")
    graph = await alone.queue.dags.show(dag)

    assert not graph.at_rest
    assert list(graph.outside.values()) == [[], [], [other.id]]
    assert f"waits for {other.id} of another DAG" in table(graph).rows[2][-1]
    await alone.queue.cancel(other.id, dependents="cascade")
    assert (await alone.queue.dags.show(dag)).at_rest


async def test_a_watch_continues_while_the_server_is_unavailable(
    alone: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = await submitted(alone)
    views = follow(alone.queue, dag, 0.01, asyncio.Event())
    first = await step(views)

    async def fail(*words: object) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr("rqueue.dags.admin.Dags.show", fail)
        second = await step(views)
    third = await step(views)

    assert (first.error, second.error, third.error) == (
        "", "the server did not answer: gone", "",
    )  # fmt: skip
    assert second.graph is first.graph
    assert lines(picture(second, 80, 24), 80)[0].startswith("server unavailable, retrying: ")
    assert lines(picture(DagView(None), 80, 24), 80) == ["loading"]


async def test_a_narrow_terminal_leaves_out_columns(alone: Harness) -> None:
    dag = await submitted(alone)
    await complete(alone, "research")
    graph = await alone.queue.dags.show(dag)
    known = await ids(alone, dag)

    wide, narrow = lines(shown(graph, 120), 120), lines(shown(graph, 40), 40)

    assert wide[6].startswith("critical ◆ 3 of its tasks, ")
    assert wide[-1] == f"◆─╯    build     PENDING          {known['build']}".rstrip()
    assert narrow[-4].split() == ["GRAPH", "TASK", "STATE", "TIME"]
    assert narrow[-1] == "◆─╯    build     PENDING"
    assert max(map(len, narrow)) <= 40


async def test_rails_wider_than_half_of_the_terminal_become_numbers(alone: Harness) -> None:
    dag = await submitted(alone)
    graph = await alone.queue.dags.show(dag)

    found = table(graph, 4)

    assert found.titles[:3] == ("NUMBER", "AFTER", "TASK")
    assert [row[:3] for row in found.rows] == [
        ("1 ◆", "", "research"),
        ("2 ◆", "1", "design"),
        ("3 ◆", "1, 2", "build"),
    ]


async def test_a_low_terminal_gets_a_summary_that_fits(alone: Harness) -> None:
    dag = await submitted(alone, {"a": [], **{f"b{at}": ["a"] for at in range(30)}})
    await complete(alone, "a")
    seen = DagView(await alone.queue.dags.show(dag))

    found = lines(picture(seen, 100, 14), 100)

    assert len(found) <= 14
    assert found[0].startswith("░")
    assert found[-1].split()[:4] == ["2", "30", "30", "READY"]


async def test_a_deep_dag_is_summarised_on_one_page(alone: Harness) -> None:
    names = [f"n{at}" for at in range(250)]
    shape = {name: names[at - 1 : at] if at else [] for at, name in enumerate(names)}
    dag = await submitted(alone, shape)
    await complete(alone, "n0")

    found = summary(await alone.queue.dags.show(dag)).rows

    assert len(found) == 84
    assert [row[:3] for row in (found[0], found[-1])] == [
        ("1-3", "3", "1 COMPLETED, 1 READY, 1 PENDING"),
        ("250", "1", "1 PENDING"),
    ]


async def test_a_terminal_cuts_no_state_and_no_rail(alone: Harness) -> None:
    shape = {"a" * 20: [], "b" * 20: ["a" * 20], "c" * 20: ["a" * 20]}
    dag = await submitted(alone, shape)

    found = lines(shown(await alone.queue.dags.show(dag), 60), 60)

    assert not [line for line in found if "…" in line]
    assert found[-3].split()[-1] == "READY"


async def test_progress_is_a_bar_of_ended_tasks(alone: Harness) -> None:
    dag = await submitted(alone, {"a": [], "b": [], "c": []})
    await complete(alone, "a")
    await die(alone, "b")

    bar = progress(await alone.queue.dags.status(dag))

    assert bar == f"{'█' * 20}{'░' * 10}  67%  failed  1 completed, 1 dead, 1 open"


async def test_a_pipe_gets_a_line_for_each_change_and_the_graph(
    harness: Harness, shell: Shell
) -> None:
    dag = await submitted(harness, {"a": []})
    await complete(harness, "a")

    found = await shell.lines("dag", "show", dag, "--watch")

    assert found[0].endswith("100%  completed  1 completed")
    assert found[1] == f"dag      {dag}"
    (document,) = await shell.json("dag", "show", dag, "--watch")
    assert (document["status"], document["at_rest"]) == ("completed", True)


@pytest.mark.parametrize(("how", "code"), [("its end", 0), ("q", 0), ("Ctrl-C", 130)])
async def test_the_terminal_is_restored_and_the_final_picture_stays(
    alone: Harness, valkey: Server, tmp_path: Path, *, how: str, code: int
) -> None:
    dag = await submitted(alone, {"a": [], "b": ["a"]})
    words = (sys.executable, "-m", "rqueue", "dag", "show", dag, "--watch", "--interval", "0.1")

    with terminal(words, env=environment(valkey), cwd=tmp_path) as shown:
        await shown.shows(ENTER_SCREEN)
        await shown.shows(b"pending  2 open")
        if how == "its end":
            await complete(alone, "a")
            await shown.shows(b"1 completed, 1 open")
            await complete(alone, "b")
        else:
            shown.press(b"q" if how == "q" else b"\x03")

        assert await shown.end() == code
        assert shown.clean
        after = bytes(shown.written).rpartition(b"\x1b[?1049l")[2]
        assert (b"GRAPH" in after) == (code == 0)


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_a_submit_waits_for_the_end(harness: Harness, shell: Shell, *, end: str) -> None:
    async def work() -> None:
        (lease,) = await harness.queue.claim(worker="w1", types=["a"], wait=10)
        await lease.start()
        if end == "cancelled":
            await harness.queue.dags.cancel(lease.id, "enough")
        elif end == "failed":
            await lease.fail("error", "no", permanent=True)
        else:
            await lease.complete()
            await complete(harness, "b")

    given = json.dumps(PLAN)
    for words in (["--json"], []):
        result, _ = await asyncio.gather(
            shell.run("dag", "submit", "-", "--wait", *words, given=given), work()
        )

        assert result.exit_code == (0 if end == "completed" else 3)
        dag = json.loads(result.stdout)["id"] if words else result.stdout.strip()
        assert (await harness.queue.dags.status(dag)).status == end
        messages = result.stderr.splitlines()
        if end == "completed":
            assert messages == ([] if words else ["rqueue: completed: 2 completed"])
        else:
            assert [line.startswith(f"rqueue: {dag} is {end}: ") for line in messages] == [True]


async def test_a_submit_that_waits_shows_a_bar_in_a_terminal(
    alone: Harness, valkey: Server, tmp_path: Path
) -> None:
    (tmp_path / "plan").write_text(json.dumps(PLAN))
    words = (sys.executable, "-m", "rqueue", "dag", "submit", "plan", "--wait")

    with terminal(words, env=environment(valkey), cwd=tmp_path) as shown:
        (lease,) = await alone.queue.claim(worker="w1", wait=10)
        await lease.start()
        await shown.shows(b"\x1b[?25l")
        await lease.complete()
        await (await running(alone, "b")).complete()

        assert await shown.end() == 0
        assert b"completed: 2 completed" in shown.written


async def test_a_task_that_waits_for_its_children_shows_their_number(alone: Harness) -> None:
    lease = await alone.running("parent")
    shard = alone.queue._internals.shard
    calls = [alone.queue.call("child", parent_id=lease.id) for _ in range(2)]
    drafts = [alone.queue._internals.drafter.draft(call) for call in calls]
    children = [SpawnDraft(str(at), new_task_id(), draft) for at, draft in enumerate(drafts)]
    held = HeldLease(lease.id.ulid, lease.token)
    await spawn(shard, held, children, wait="success")

    graph = await alone.queue.dags.show(lease.id)

    found = [(row[0], row[1], row[2], row[-1]) for row in table(graph).rows]
    assert found == [
        ("◆", "parent", "PENDING", "waits for 2 it spawned"),
        ("├─◆", "child", "READY", ""),
        ("●", "child", "READY", ""),
    ]
