"""`rqueue dag cancel, retry, pause, resume, budget, submit`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rqueue import DagId, State
from rqueue.dags import store as dag_store
from rqueue.errors import DagEnded
from tests.cli.conftest import Shell
from tests.cli.dags import complete, die, ids, running, submitted
from tests.cli.test_main import PAGE
from tests.harness import Harness

PLAN = """
title: from a file
on_failure: continue
tasks:
  - {type: research, name: research}
  - {type: build, name: build, after: [research]}
"""
REFUSED = {
    "a circle": ("tasks: [{type: a, name: a, after: [b]}, {type: b, name: b, after: [a]}]", "->"),
    "a parent that is not there": ("tasks: [{type: a, name: a, after: [x]}]", "a -> x"),
    "no tasks": ("title: nothing", "tasks: is missing; it is a list of at least one task"),
    "a list of tasks": ("- type: a\n- type: b", "dag: is one mapping with `tasks`; the file has 2"),
    "a word of single tasks": (
        "tasks: [{type: a, depends_on: [x]}]",
        "0.depends_on: is not allowed in a DAG; use `after` with task names of the plan",
    ),
    "a tab": ("title: a\ntasks:\n\t- type: a", "see line 3, column 1"),
    "a comma too many": ('{"tasks": [\n {"type": "a"},\n]}', "is not JSON: see line 3, column 1"),
    "two plans": ("tasks: [{type: a}]\n---\ntasks: [{type: b}]", "2 documents"),
    "no plan": ("", "the file is empty"),
    "no mapping": ("just words", "is not a mapping"),
    "a field of a task": ("tasks: [{type: a, name: a, priority: high}]", "priority"),
    "no field of a DAG": ("tasks: [{type: a}]\nbudget: 5", "budget"),
    "neither JSON nor YAML": ('{"tasks": [', "document"),
}


async def test_a_dag_is_cancelled_once(harness: Harness, shell: Shell) -> None:
    dag = await submitted(harness)
    await complete(harness, "research")

    (answer,) = await shell.json("dag", "cancel", dag.ulid, "--reason", "enough")

    assert answer == {"id": dag, "cancelled": 2}
    graph = await harness.queue.dags.show(dag)
    assert (graph.dag.status, graph.dag.reason) == ("cancelled", "enough")
    assert [task.cancel_reason for task in graph.tasks.values()] == [None, "enough", "enough"]
    again = await shell.run("dag", "cancel", dag)
    assert (again.exit_code, again.stderr) == (3, f"rqueue: {dag} is already cancelled\n")
    assert (await shell.run("dag", "pause", dag)).exit_code == 3


async def test_a_dag_is_cancelled_without_a_reason(harness: Harness, shell: Shell) -> None:
    dag = await submitted(harness)

    assert await shell.lines("dag", "cancel", dag) == [f"{dag} is cancelled: 3 tasks"]

    assert (await harness.queue.dags.status(dag)).reason == "the DAG was cancelled"


async def test_a_reason_that_cannot_be_stored_is_exit_2(harness: Harness, shell: Shell) -> None:
    dag = await submitted(harness)

    assert (await shell.run("dag", "cancel", dag, "--reason", "x" * 1001)).exit_code == 2

    assert (await harness.queue.dags.status(dag)).open == 3


async def test_retry_retries_dead_tasks_and_the_dag_continues(
    harness: Harness, shell: Shell
) -> None:
    dag = await submitted(harness)
    dead = await die(harness, "research")

    (answer,) = await shell.json("dag", "retry", dead)

    assert answer == {"id": dag, "retried": [dead], "refused": {}, "cancelled": []}
    assert (await harness.queue.dags.status(dag)).status == "running"
    await complete(harness, "research", "design", "build")
    assert (await harness.queue.dags.status(dag)).status == "completed"
    none = await shell.run("dag", "retry", dag)
    assert (none.exit_code, none.stderr) == (1, f"rqueue: {dag} has no dead tasks\n")


async def test_retry_names_tasks_that_stay_cancelled(harness: Harness, shell: Shell) -> None:
    dag = await submitted(harness, {"a": [], "b": ["a"], "c": []}, on_failure="fail_fast")
    known = await ids(harness, dag)
    await die(harness, "a")

    result = await shell.run("dag", "retry", dag)

    assert result.stdout == f"{dag}: 1 task retried\n"
    first, *named = result.stderr.splitlines()
    assert first == "rqueue: 2 tasks stay cancelled; submit again those that you need:"
    assert sorted(named) == sorted(f"rqueue:   {known[name]}" for name in ("b", "c"))
    assert (await harness.task(known["a"])).state is State.READY
    assert "cancel" not in {
        step.verb for step in await dag_store.steps(harness.queue._internals.shard)
    }


@pytest.mark.parametrize("rule", ["hold", "fail_fast"])
async def test_a_cancelled_dag_continues_when_its_dead_task_is_retried(
    harness: Harness, shell: Shell, rule: str
) -> None:
    dag = await submitted(harness, {"a": [], "b": ["a"], "c": []}, on_failure=rule)
    dead = await die(harness, "a")
    assert (await shell.run("dag", "cancel", dag)).exit_code == 0
    again = await shell.run("dag", "cancel", dag)
    assert (again.exit_code, again.stderr) == (3, f"rqueue: {dag} is already failed\n")
    assert "closing" not in (await shell.run("dag", "show", dag)).stdout

    assert (await shell.json("dag", "retry", dag))[0]["retried"] == [dead]

    assert (await harness.queue.dags.status(dag)).status == "running"
    await complete(harness, "a")
    assert (await harness.queue.dags.status(dag)).status == "completed"


async def test_a_dead_task_of_a_dag_that_is_being_cancelled_is_not_retried(
    harness: Harness,
) -> None:
    dag = await submitted(harness, {"a": [], "b": ["a"]}, on_failure="fail_fast")
    dead = await die(harness, "a")

    with pytest.raises(DagEnded, match=f"{dag} is already being cancelled"):
        await harness.queue.dead.retry(dead)


async def test_a_dead_task_that_cannot_be_retried_is_named_with_exit_3(
    harness: Harness, shell: Shell
) -> None:
    dag = await submitted(harness, {"a": [], "b": []})
    first, second = await die(harness, "a"), await die(harness, "b")
    await harness.client.hset(harness.keys.task(first.ulid), "parents", second.ulid[:-2] + "ZZ")

    result = await shell.run("dag", "retry", dag)

    assert result.exit_code == 3
    assert result.stdout == f"{dag}: 1 task retried\n"
    assert result.stderr.startswith(f"rqueue: {first} stays dead: depends on a task")
    assert (await harness.task(second)).state is State.READY


async def test_a_paused_dag_is_not_claimed_until_it_is_resumed(
    harness: Harness, shell: Shell
) -> None:
    dag = await submitted(harness)

    assert await shell.lines("dag", "pause", dag) == [f"{dag} is paused"]
    assert (await shell.run("claim", "--wait", "0")).exit_code == 1
    shown = await shell.run("dag", "show", dag)
    assert "\nstatus   pending, paused\n" in shown.stdout
    assert f"`rqueue dag resume {dag}`" in shown.stderr
    assert await shell.json("dag", "resume", dag) == [{"id": dag, "paused": False}]

    assert (await shell.run("claim", "--wait", "0")).exit_code == 0


async def test_a_dag_that_has_ended_is_not_resumed(harness: Harness, shell: Shell) -> None:
    dag = await submitted(harness, {"a": []})
    await complete(harness, "a")

    result = await shell.run("dag", "resume", dag)

    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == f"rqueue: {dag} is already completed\n"


@pytest.mark.parametrize("words", [("pause",), ("resume",), ("budget", "--usd", "3")])
async def test_a_task_without_a_dag_is_refused(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    task = await harness.queue.enqueue("code")

    result = await shell.run("dag", *words, task.id)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"rqueue: dag: {task.id} belongs to no DAG")


async def test_a_budget_is_shown_set_and_removed(harness: Harness, shell: Shell) -> None:
    dag = await submitted(harness)
    lease = await running(harness, "research")
    await harness.client.hincrby(harness.keys.dag(dag.ulid), "spent", 1_250_000)

    assert await shell.lines("dag", "budget", dag) == [f"{dag}: no limit, $1.25 spent"]
    (answer,) = await shell.json("dag", "budget", lease.id, "--usd", "2.5")
    assert answer == {"id": dag, "budget_usd": 2.5, "spent_usd": 1.25}
    assert await shell.lines("dag", "budget", dag) == [f"{dag}: $2.50 at most, $1.25 spent"]
    assert await shell.lines("dag", "budget", dag, "--none") == [f"{dag}: no limit, $1.25 spent"]
    wrong = await shell.run("dag", "budget", dag, "--usd", "-1")
    assert (wrong.exit_code, "budget_usd" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("form", ["YAML", "JSON"])
async def test_a_plan_is_submitted_and_its_id_printed(
    harness: Harness, shell: Shell, empty_dir: Path, form: str
) -> None:
    given = {"tasks": [{"type": "research"}, {"type": "build", "after": ["0"]}]}
    (empty_dir / "plan").write_text(PLAN if form == "YAML" else json.dumps(given))

    (line,) = await shell.lines("dag", "submit", "plan")

    graph = await harness.queue.dags.show(DagId(line))
    assert [task.type for task in graph.tasks.values()] == ["research", "build"]
    assert [len(above) for above in graph.dependencies.values()] == [0, 1]
    (again,) = await shell.json("dag", "submit", "-", given=PLAN)
    assert again["id"] != line


@pytest.mark.parametrize(("plan", "message"), REFUSED.values(), ids=REFUSED)
async def test_an_invalid_plan_is_exit_2_and_creates_nothing(
    harness: Harness, shell: Shell, plan: str, message: str
) -> None:
    result = await shell.run("dag", "submit", "-", given=plan)

    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stdout == ""
    assert await harness.client.keys("rq:*") == []


async def test_the_plan_in_the_documentation_is_accepted(harness: Harness, shell: Shell) -> None:
    (plan,) = re.findall(r"```yaml\n(title: .+?)```", PAGE, re.DOTALL)

    (line,) = await shell.lines("dag", "submit", "-", given=plan)

    graph = await harness.queue.dags.show(line)
    assert [task.spec.name for task in graph.tasks.values()] == ["research", "design", "build"]
    assert [len(above) for above in graph.dependencies.values()] == [0, 1, 2]


async def test_a_missing_file_is_exit_2(shell: Shell) -> None:
    assert (await shell.run("dag", "submit", "nowhere.yaml")).exit_code == 2
