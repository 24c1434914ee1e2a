"""`rqueue dag list` and `rqueue dag show`."""

from __future__ import annotations

import pytest

from rqueue import TaskId
from tests.cli.conftest import Shell
from tests.cli.dags import DIAMOND, complete, die, ids, running, submitted
from tests.harness import Harness

UNKNOWN = "dag_01KGY7NCM0E008000000000000"


@pytest.mark.parametrize("words", [("show",), ("cancel",), ("retry",), ("pause",), ("budget",)])
@pytest.mark.parametrize("id", [UNKNOWN, UNKNOWN[4:], "task_01KGY7NCM0E008000000000000", "mine"])
async def test_an_unknown_dag_is_exit_1(
    harness: Harness, shell: Shell, words: tuple[str, ...], id: str
) -> None:
    result = await shell.run("dag", *words, id)

    assert result.exit_code == 1, result.output
    assert result.stderr == f"rqueue: {id} was not found: never committed, or ended and expired\n"


@pytest.mark.parametrize(
    "words",
    [
        ("show", UNKNOWN, "--dot", "--json"),
        ("show", UNKNOWN, "--mermaid", "--watch"),
        ("show", UNKNOWN, "--interval", "0"),
        ("budget", UNKNOWN, "--usd", "1", "--none"),
        ("list", "--status", "happy"),
        ("show",),
    ],
    ids=" ".join,
)
async def test_contradictory_options_are_exit_2(shell: Shell, words: tuple[str, ...]) -> None:
    assert (await shell.run("dag", *words)).exit_code == 2


async def test_an_empty_list_is_no_error(harness: Harness, shell: Shell) -> None:
    await harness.queue.enqueue("code")

    assert len(await shell.lines("dag", "list")) == 1


async def test_dags_are_listed_the_newest_first(harness: Harness, shell: Shell) -> None:
    old = await submitted(harness, title="the first", budget_usd=5.0)
    await die(harness, "research")
    new = await submitted(harness)
    await harness.queue.dags.pause(new)

    lines = await shell.lines("dag", "list")

    assert [line.split()[:2] for line in lines[1:]] == [[new, "pending,"], [old, "failed"]]
    assert lines[2].endswith("$0.00 of $5.00  the first")
    assert [row["id"] for row in await shell.json("dag", "list", "--status", "FAILED")] == [old]
    cut = await shell.run("dag", "list", "--limit", "1")
    assert cut.stderr == "rqueue: there are more than 1: narrow the filter or raise --limit\n"


async def test_a_dag_is_drawn_with_states_and_its_critical_path(
    harness: Harness, shell: Shell
) -> None:
    dag = await submitted(harness, title="the title", budget_usd=5.0, failure_threshold=0.3)
    await complete(harness, "research")
    dead = await die(harness, "design")
    known = await ids(harness, dag)

    result = await shell.run("dag", "show", dag)

    head, table = result.stdout.split("\n\n")
    assert head.splitlines()[:6] == [
        f"dag      {dag}",
        "title    the title",
        "status   failed",
        "tasks    3: 1 completed, 1 dead, 1 open; 3 edges",
        "policy   hold; threshold 30% dead, which is reached",
        "spent    $0.00 of $5.00",
    ]
    assert head.splitlines()[6:8] == ["roots    research", "leaves   build"]
    assert head.splitlines()[8].startswith("critical ◆ 3 of its tasks, ")
    rows = [line.split() for line in table.splitlines()]
    assert rows[0] == ["GRAPH", "TASK", "STATE", "TIME", "ID"]
    assert [(row[:3], row[4]) for row in rows[1:3]] == [
        (["◆", "research", "COMPLETED"], known["research"]),
        (["├─◆", "design", "DEAD_LETTERED"], dead),
    ]
    assert rows[2][5:] == ["error:", r"no\x1b[2J", "paper"]
    assert rows[3] == ["◆─╯", "build", "PENDING", known["build"]]
    assert result.stderr == f"rqueue: 1 task is dead; retry with `rqueue dag retry {dag}`\n"
    assert "\x1b" not in result.stdout


async def test_a_dag_that_waits_for_a_dead_task_of_another_names_it(
    harness: Harness, shell: Shell
) -> None:
    other = await submitted(harness, {"other": [], "more": []})
    dead = await die(harness, "other")
    rows = [{"type": f"a{at}", "after": [dead]} for at in range(101)]
    dag = (await harness.queue.dags.submit({"tasks": [*rows, {"type": "b"}]})).id
    await complete(harness, "b")

    found = await shell.run("dag", "show", dag)

    head = found.stdout.splitlines()
    assert "status   running" in head
    assert f"waits    for {dead} of another DAG" in head
    await shell.run("dag", "retry", other)
    await complete(harness, "other")
    assert "waits" not in (await shell.run("dag", "show", dag)).stdout


@pytest.mark.parametrize("form", ["bare", "UUID", "task", "task's own id"])
async def test_a_dag_is_found_by_any_form_of_its_id(
    harness: Harness, shell: Shell, form: str
) -> None:
    dag = (
        await harness.queue.dags.submit(
            {"tasks": [{"type": "a", "name": "a", "external_id": "mine"}, {"type": "b"}]}
        )
    ).id
    task = (await ids(harness, dag))["a"]
    named = {"bare": dag.ulid, "UUID": str(dag.uuid), "task": task, "task's own id": "mine"}

    (found,) = await shell.json("dag", "show", named[form])

    assert (found["id"], found["total"]) == (dag, 2)


async def test_a_single_task_is_a_dag_of_one(harness: Harness, shell: Shell) -> None:
    handle = await harness.queue.enqueue("code", title="alone")
    alone = f"dag_{handle.id.ulid}"

    (found,) = await shell.json("dag", "show", alone)

    assert (found["id"], found["status"], found["total"]) == (alone, "pending", 1)
    assert found["roots"] == found["leaves"] == [handle.id]
    assert await shell.lines("dag", "cancel", handle.id) == [f"{alone} is cancelled: 1 task"]
    (found,) = await shell.json("dag", "show", alone)
    assert (found["status"], found["reason"]) == ("cancelled", "the DAG was cancelled")
    assert (await shell.run("dag", "cancel", alone)).exit_code == 3


async def test_json_has_the_whole_graph(harness: Harness, shell: Shell) -> None:
    dag = await submitted(harness, on_failure="continue")
    lease = await running(harness, "research")
    known = await ids(harness, dag)

    (found,) = await shell.json("dag", "show", dag)

    assert (found["status"], found["on_failure"], found["open"]) == ("running", "continue", 3)
    assert (found["roots"], found["leaves"]) == ([known["research"]], [known["build"]])
    assert found["critical_path"] == list(known.values())
    first, second, third = found["tasks"]
    assert (first["id"], first["state"], first["layer"]) == (lease.id, "RUNNING", 0)
    assert first["duration_sec"] >= 0
    assert (second["name"], second["layer"], second["duration_sec"]) == ("design", 1, None)
    assert third["after"] == [known["research"], known["design"]]
    assert sorted(third["blocked_by"]) == sorted(third["after"])
    boosts = [task["dependency_boost"] for task in found["tasks"]]
    assert boosts == sorted(boosts, reverse=True)
    assert boosts[0] == 10.0


async def test_an_edge_added_by_depends_on_is_drawn(harness: Harness, shell: Shell) -> None:
    first = await harness.queue.enqueue("first")
    second = await harness.queue.enqueue("second", depends_on=[first.id])

    (found,) = await shell.json("dag", "show", second.id)

    assert found["id"] == f"dag_{first.id.ulid}"
    assert [task["after"] for task in found["tasks"]] == [[], [first.id]]


async def test_more_than_a_hundred_tasks_are_summarised(harness: Harness, shell: Shell) -> None:
    middle = [f"m{number}" for number in range(100)]
    tasks: list[dict[str, object]] = [{"type": "first", "name": "first"}]
    tasks += [{"type": "middle", "name": name, "after": ["first"]} for name in middle]
    tasks += [{"type": "last", "name": "last", "after": middle}]
    dag = (await harness.queue.dags.submit({"tasks": tasks})).id
    await complete(harness, "first")
    await running(harness, "middle")

    lines = (await shell.lines("dag", "show", dag))[-4:]

    assert lines[0].split() == ["LAYER", "TASKS", "STATES", "LONGEST", "◆", "TYPES"]
    assert [line.split("  ")[0] for line in lines[1:]] == ["1", "2", "3"]
    assert "99 READY, 1 RUNNING" in lines[2]
    assert lines[2].endswith("100 middle")
    assert "1 PENDING" in lines[3]


async def test_texts_are_escaped_for_graphviz_and_mermaid(harness: Harness, shell: Shell) -> None:
    title = 'a "quoted" \\ [title] <b>'
    tasks = [{"type": "a", "name": "a"}, {"type": "b", "title": title, "after": ["a"]}]
    dag = (await harness.queue.dags.submit({"tasks": tasks, "title": title})).id

    dot = await shell.lines("dag", "show", dag, "--dot")
    mermaid = await shell.lines("dag", "show", dag, "--mermaid")

    assert (dot[0], dot[-1]) == ("digraph dag {", "}")
    assert r'  label="a \"quoted\" \\ [title] <b>";' in dot
    (edge,) = [line for line in dot if "->" in line]
    assert edge.endswith(" [penwidth=3];")
    assert mermaid[0] == "flowchart TD"
    assert "  t0 ==> t1" in mermaid
    (box,) = [line for line in mermaid if line.startswith("  t1[")]
    assert box == '  t1["a #34;quoted#34; #92; #91;title#93; #60;b#62;<br>PENDING"]:::waiting'


async def test_a_task_shows_its_dag_and_its_critical_path_boost(
    harness: Harness, shell: Shell
) -> None:
    dag = await submitted(harness)
    design = (await ids(harness, dag))["design"]

    lines = await shell.lines("task", design)

    assert lines[1] == f"dag      {dag}"
    assert "boost    6.67 points more urgent because of the critical path" in lines
    (document,) = await shell.json("task", design)
    assert (document["dag"], round(document["dependency_boost"], 2)) == (dag, 6.67)
    alone = await harness.queue.enqueue("code")
    assert not any(
        line.startswith(("dag", "boost")) for line in await shell.lines("task", alone.id)
    )


async def test_damaged_fields_in_redis_do_not_break_the_view(
    harness: Harness, shell: Shell
) -> None:
    dag = await submitted(harness, DIAMOND)
    known = await ids(harness, dag)
    research, design = (TaskId(known[name]).ulid for name in ("research", "design"))
    await harness.client.hset(harness.keys.task(research), mapping={"up0": design, "rank": "x"})
    await harness.client.hset(harness.keys.task(design), "flags", f"d{'Z' * 26}")

    (found,) = await shell.json("dag", "show", dag)

    assert found["tasks"][0]["after"] == []
    assert found["roots"] == [known["research"]]
    (task,) = await shell.json("task", known["design"])
    assert (task["dag"], task["damaged"]) == (None, ["flags"])
