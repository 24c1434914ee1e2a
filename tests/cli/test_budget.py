"""`rqueue budget list, set`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell
from tests.harness import Harness


async def test_the_day_is_there_without_a_limit(harness: Harness, shell: Shell) -> None:
    (row,) = await shell.json("budget", "list")

    assert (row["account"], row["ceiling_usd"], row["remaining_usd"]) == ("day", None, None)
    assert "no limit" in (await shell.run("budget", "list")).stdout


async def test_what_is_set_is_listed_with_what_is_left(harness: Harness, shell: Shell) -> None:
    await harness.queue.enqueue("code", {}, estimated_cost_usd=0.4)

    (set_,) = await shell.json("budget", "set", "--usd", "1.5")
    assert (set_["account"], set_["ceiling_usd"]) == ("day", 1.5)
    await shell.json("budget", "set", "--usd", "0.1", "--worker", "poor")
    assert await harness.queue.claim(worker="poor") == []
    assert len(await harness.queue.claim(worker="w1")) == 1

    day, poor = await shell.json("budget", "list")
    assert (day["reserved_usd"], day["remaining_usd"]) == (0.4, pytest.approx(1.1))
    assert (poor["account"], poor["remaining_usd"], poor["short"]) == ("worker=poor", 0.1, True)
    assert "worker poor" in (await shell.run("budget", "list")).stdout


async def test_a_limit_is_lifted(harness: Harness, shell: Shell) -> None:
    await shell.json("budget", "set", "--usd", "1", "--worker", "w1")

    (row,) = await shell.json("budget", "set", "--none", "--worker", "w1")

    assert row["ceiling_usd"] is None
    assert [row["account"] for row in await shell.json("budget", "list")] == ["day"]


async def test_what_waits_for_money_is_said(harness: Harness, shell: Shell) -> None:
    async with harness.queue.dag(budget_usd=0.1) as dag:
        dag.add({"type": "code", "payload": {}, "estimated_cost_usd": 0.5})
    await harness.queue.claim(worker="w1")

    assert "1 ready tasks wait" in (await shell.run("budget", "list")).stderr


@pytest.mark.parametrize(
    "wrong", [(), ("--usd", "1", "--none"), ("--usd", "-1"), ("--usd", "1", "--worker", "a b")]
)
async def test_what_makes_no_sense_is_refused(
    harness: Harness, shell: Shell, wrong: tuple[str, ...]
) -> None:
    found = await shell.run("budget", "set", *wrong)

    assert found.exit_code == 2
    assert found.stderr
