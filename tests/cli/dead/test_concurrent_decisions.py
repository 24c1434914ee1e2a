"""Two reviewers of one dead task: the second gets exit 3 and changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from rqueue import State, TaskId
from rqueue.cli.dead import decide
from rqueue.dead.admin import DeadOperations
from rqueue.dead.decide import Decision
from rqueue.dead.store import Reviewed
from tests.cli.conftest import Shell
from tests.cli.dead_tasks import died, reviews
from tests.harness import Harness


@pytest.fixture
def faster_reviewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reviewer who decides just before each decision of another."""
    real, first = DeadOperations.carry_out, Decision("retry", by="human:ada")

    async def late(operations: DeadOperations, rows: Sequence[Reviewed], decision: Decision) -> Any:
        await real(operations, [row._replace(review=first.review(None)) for row in rows], first)
        return await real(operations, rows, decision)

    monkeypatch.setattr(DeadOperations, "carry_out", late)


@pytest.mark.usefixtures("faster_reviewer")
@pytest.mark.parametrize(
    ("word", "done"),
    [("retry", "retried"), ("escalate", "escalated"), ("cancel", "cancelled"),
     ("delete", "deleted")],
)  # fmt: skip
async def test_the_second_reviewer_gets_the_name_of_the_first(
    harness: Harness, shell: Shell, word: str, done: str
) -> None:
    task = await died(harness)

    result = await shell.run("dead", word, task, "--by", "human:bob")

    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.splitlines() == [
        f"rqueue: {task} is not {done}: {task} is now READY: human:ada decided retry first (life 1)"
    ]
    assert [review.by for review in await reviews(harness)] == ["human:ada"]


@pytest.mark.usefixtures("faster_reviewer")
async def test_of_many_tasks_those_already_decided_are_refused(
    harness: Harness, shell: Shell
) -> None:
    tasks = {await died(harness), await died(harness)}

    result = await shell.run("dead", "cancel", "--all", "--yes", "--json")

    found = json.loads(result.stdout)
    assert (result.exit_code, found["done"], set(found["refused"])) == (3, 0, tasks)
    assert all("human:ada decided retry first" in why for why in found["refused"].values())
    assert [review.by for review in await reviews(harness)] == ["human:ada"] * 2


async def test_an_edit_does_not_change_a_later_life(
    harness: Harness, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, loop = await died(harness), asyncio.get_running_loop()

    async def retried_and_dead_again() -> None:
        await harness.queue.dead.decide(task, "modify_and_retry", payload={"n": 7}, by="human:ada")
        (lease,) = await harness.queue.claim(worker="w1")
        await lease.start()
        await lease.fail("error", "again", permanent=True)

    def from_editor(_: Any) -> Any:
        asyncio.run_coroutine_threadsafe(retried_and_dead_again(), loop).result()
        return {"n": 2}

    monkeypatch.setattr(decide, "from_editor", from_editor)
    result = await shell.run("dead", "edit", task, "--by", "human:bob")

    assert result.exit_code == 3
    assert "is now DEAD_LETTERED again: human:ada decided modify_and_retry" in result.stderr
    found = await harness.task(task)
    assert (found.state, found.life, found.payload) == (State.DEAD_LETTERED, 2, {"n": 7})
    assert [review.by for review in await reviews(harness)] == ["human:ada"]


@pytest.mark.parametrize("word", ["retry", "escalate", "cancel", "delete"])
async def test_tasks_not_counted_in_the_confirmation_are_not_changed(
    harness: Harness, shell: Shell, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    task, again, loop = await died(harness), await died(harness), asyncio.get_running_loop()
    late: list[TaskId] = []

    async def meanwhile() -> None:
        late.append(await died(harness))
        await harness.queue.dead.decide(again, "retry", by="human:ada")
        (lease,) = await harness.queue.claim(worker="w1")
        await lease.start()
        await lease.fail("error", "again", permanent=True)

    def confirm(what: str, *_: str) -> None:
        assert what == "2 tasks"
        asyncio.run_coroutine_threadsafe(meanwhile(), loop).result()

    monkeypatch.setattr(decide, "confirm", confirm)
    result = await shell.run("dead", word, "--all", "--by", "human:bob", "--json")

    found = json.loads(result.stdout)
    assert (result.exit_code, found["found"], found["done"]) == (3, 2, 1)
    assert list(found["refused"]) == [again]
    for one in (*late, again):
        assert (await harness.task(one)).state is State.DEAD_LETTERED
    (review,) = [review for review in await reviews(harness) if review.by == "human:bob"]
    assert (review.task, review.type, review.error) == (task, "code", "no")
