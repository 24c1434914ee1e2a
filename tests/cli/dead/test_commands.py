"""`rqueue dead list, clusters, show`."""

from __future__ import annotations

import re

import pytest

from rqueue.dead.decide import fingerprint_of
from tests.cli.conftest import Shell
from tests.cli.dead_tasks import died
from tests.dead.test_admin import trace
from tests.harness import Harness

NASTY = "\x1b[2J\x1b]0;owned\x07 bell\u2028 \x9b31m 'x'"


async def test_the_list_has_all_fields_for_a_reviewer(harness: Harness, shell: Shell) -> None:
    task = await died(harness, "HTTP 503 at 12:00:01")

    (row,) = await shell.json("dead", "list")

    assert row.pop("dead_lettered_at").startswith("20")
    assert row.pop("fingerprint") == fingerprint_of(await harness.task(task)).id
    assert row == {
        "id": task, "dag_id": None, "task_type": "code", "agent_name": "w1", "worker": "w1",
        "reason": "error",
        "error": "HTTP 503 at 12:00:01", "input": {"n": 1}, "attempts": 1, "life": 1,
        "total_cost_usd": 0.5, "poison_pill": False, "reviewed": False, "resolution": None,
    }  # fmt: skip
    (titles, line) = await shell.lines("dead", "list")
    assert titles.split()[:5] == ["ID", "TYPE", "AGENT", "REASON", "ERROR"]
    assert 'HTTP 503 at 12:00:01  {"n": 1}  1/3       0.5' in line


async def test_dead_tasks_are_found_by_their_properties(harness: Harness, shell: Shell) -> None:
    first = await died(harness, "disk 1 full", tags=["t"])
    second = await died(harness, "no handler", type="mail")
    cluster = fingerprint_of(await harness.task(first)).id

    async def ids(*words: str) -> list[str]:
        return [row["id"] for row in await shell.json("dead", "list", *words)]

    assert await ids() == [second, first]
    assert await ids("--type", "mail") == [second]
    assert await ids("--cluster", cluster) == [first]
    assert await ids("--tag", "t") == [first]
    assert await ids("--agent", "w1", "--reason", "error", "--type", "code") == [first]
    assert await ids("--agent", "w2") == await ids("--reason", "timeout") == []
    assert await ids("--before", "2020-01-01T00:00:00Z") == []
    limited = await shell.run("dead", "list", "--limit", "1")
    assert "there are more than 1" in limited.stderr


async def test_a_task_is_found_by_its_agent_and_by_its_worker(
    harness: Harness, shell: Shell
) -> None:
    task = await died(harness, agent_name="coder")
    plain = await died(harness)

    (second, first) = await shell.json("dead", "list")
    table = await shell.lines("dead", "list")

    async def ids(agent: str) -> set[str]:
        return {row["id"] for row in await shell.json("dead", "list", "--agent", agent)}

    assert (first["agent_name"], first["worker"]) == ("coder", "w1")
    assert (second["agent_name"], second["worker"]) == ("w1", "w1")
    assert table[2].split()[:3] == [task, "code", "coder"]
    assert await ids("coder") == {task}
    assert await ids("w1") == {task, plain}
    assert any("w1" in line for line in await shell.lines("dead", "show", task))


async def test_above_the_limit_the_most_recent_are_listed(harness: Harness, shell: Shell) -> None:
    tasks = [await died(harness, type="mail" if n % 2 else "code") for n in range(12)]
    # Two may have died in one millisecond.
    await harness.client.zadd(harness.keys.dead(), {task.ulid: at for at, task in enumerate(tasks)})

    async def ids(*words: str) -> list[str]:
        return [row["id"] for row in await shell.json("dead", "list", *words)]

    assert await ids("--limit", "3") == [tasks[11], tasks[10], tasks[9]]
    assert await ids("--limit", "2", "--type", "code") == [tasks[10], tasks[8]]
    assert await ids() == tasks[::-1]


@pytest.mark.parametrize(
    "wrong", [("--cluster", "xyz"), ("--type", "a b"), ("--agent", ""), ("--reason", "\x1b")]
)
async def test_an_invalid_filter_is_refused(
    harness: Harness, shell: Shell, wrong: tuple[str, ...]
) -> None:
    assert (await shell.run("dead", "list", *wrong)).exit_code == 2


async def test_clusters_are_counted_the_largest_first(harness: Harness, shell: Shell) -> None:
    tasks = [await died(harness, f"row {n} of '{n}' is broken") for n in range(3)]
    await died(harness, "other")
    await harness.queue.dead.decide(tasks[0], "escalate")

    found = await shell.run("dead", "clusters")
    large, small = await shell.json("dead", "clusters")

    assert "4 tasks, 2 clusters" in found.stderr
    assert "row <n> of <text> is broken" in found.stdout
    assert (large["tasks"], large["pattern"]) == (3, "row <n> of <text> is broken")
    assert (large["cost_usd"], large["escalated"], small["tasks"]) == (1.5, 1, 1)
    assert set(large["examples"]) == set(tasks)
    none = await shell.run("dead", "clusters", "--type", "none")
    assert (none.exit_code, "0 tasks, 0 clusters" in none.stderr) == (1, True)


async def test_the_page_of_a_task_has_all_that_is_needed_to_decide(
    harness: Harness, shell: Shell
) -> None:
    task = await died(harness, trace("ValueError: x"), max_attempts=2, title="Pay it")
    child = (await harness.queue.enqueue("code", depends_on=[task])).id
    await harness.queue.dead.decide(
        task, "escalate", cause="needs_human", note="who?", by="human:ada"
    )

    page = "\n".join(await shell.lines("dead", "show", task))
    (found,) = await shell.json("dead", "show", task)

    for text in (
        str(task), "Pay it", "DEAD_LETTERED since", "1 of 2 failed", "0.5 USD in all, 3 tokens",
        f"dependents 1: {child}", "  ValueError: x", '  "n": 1', "w1", "human:ada", "needs_human",
        "who?", f"dead retry {task}", f"dead edit {task}", f"dead delete {task}", "escalate",
    ):  # fmt: skip
        assert text in page, text
    assert re.search(
        r"1 +20\S+ \S+ +w1 +error +0\.\ds +0\.5 +3 +ValueError: x$", page, re.MULTILINE
    )
    assert found["failure_history"][0]["cost_usd"] == 0.5
    assert found["failure_history"][0]["duration_sec"] >= 0
    assert found["waiting"] == {"number": 1, "some": [child]}
    assert (found["reviews"][0]["resolution"], found["reviews"][0]["by"]) == (
        "escalate",
        "human:ada",
    )


async def test_a_retried_task_is_shown_without_commands_to_decide(
    harness: Harness, shell: Shell
) -> None:
    task = await died(harness)
    await harness.queue.dead.retry(task)

    page = "\n".join(await shell.lines("dead", "show", task))

    assert "READY" in page
    assert "decide:" not in page
    assert (await shell.run("dead", "show", "never-seen")).exit_code == 1


@pytest.mark.parametrize("words", [("list",), ("clusters",), ("show", "TASK")])
async def test_control_characters_of_a_dead_task_are_escaped(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    task = await died(harness, NASTY, payload={"a": NASTY})
    await harness.queue.dead.decide(task, "escalate", note="\x1b[31mred")

    result = await shell.run("dead", *(task if word == "TASK" else word for word in words))

    assert result.exit_code == 0
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", result.output)
