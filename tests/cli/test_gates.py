"""`rqueue breaker, slowdown, budget`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rqueue.core.leases import Parked, park
from tests.cli.conftest import Shell
from tests.harness import Harness, opened
from tests.servers import Server


@pytest.fixture
async def breakers(server: Server) -> AsyncIterator[Harness]:
    """A harness with breakers turned on."""
    async with opened(server, breakers={}) as found:
        yield found


async def test_all_breakers_are_closed_at_first(breakers: Harness, shell: Shell) -> None:
    assert await shell.json("breaker", "list") == []
    found = await shell.run("breaker", "list")
    assert "all breakers are closed" in found.stderr


async def test_a_breaker_that_counts_failures_is_listed(breakers: Harness, shell: Shell) -> None:
    lease = await breakers.running()
    await lease.fail("error", "broken", permanent=True)

    (row,) = await shell.json("breaker", "list")

    assert (row["type"], row["state"], row["failures"], row["probe"]) == ("code", "closed", 1, None)
    assert row["last_failure"].startswith("20")


async def test_a_breaker_is_opened_and_closed_by_hand(breakers: Harness, shell: Shell) -> None:
    await breakers.queue.enqueue("code")

    (opened,) = await shell.json("breaker", "open", "code", "--for", "60")
    assert opened == {"type": "code", "state": "open", "for_sec": 60}
    assert await breakers.queue.claim(worker="w1") == []
    (row,) = await shell.json("breaker", "list")
    assert (row["type"], row["state"]) == ("code", "open")
    assert "open" in (await shell.run("breaker", "list")).stdout

    (closed,) = await shell.json("breaker", "close", "code")
    assert closed == {"type": "code", "state": "closed"}
    assert len(await breakers.queue.claim(worker="w1")) == 1


async def test_an_invalid_type_is_one_line_with_an_exit_code(
    breakers: Harness, shell: Shell
) -> None:
    found = await shell.run("breaker", "open", "a b")

    assert found.exit_code == 2
    assert "type" in found.stderr


async def slowed(harness: Harness, **options: str) -> None:
    """Parks a task and slows its type or key down."""
    lease = await harness.running(**options)
    row = Parked(lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 60_000)
    await park(harness.queue._internals.shard, [row])


async def test_nothing_is_slowed_down_at_first(harness: Harness, shell: Shell) -> None:
    assert await shell.json("slowdown", "list") == []
    found = await shell.run("slowdown", "list")
    assert "nothing is slowed down" in found.stderr


async def test_slowed_types_and_keys_are_listed(harness: Harness, shell: Shell) -> None:
    await slowed(harness, limit_key="acme")
    await slowed(harness)

    type, key = await shell.json("slowdown", "list")
    shown = (await shell.run("slowdown", "list")).stdout

    assert (type["type"], type["key"], type["resting"]) == ("code", None, True)
    assert (key["type"], key["key"]) == (None, "acme")
    assert type["until"] < type["over_at"]
    assert "resting" in shown


async def test_a_slowdown_is_lifted_by_hand(harness: Harness, shell: Shell) -> None:
    await slowed(harness, limit_key="acme")
    await slowed(harness)
    await harness.queue.enqueue("code")

    (lifted,) = await shell.json("slowdown", "lift", "code")
    key = await shell.run("slowdown", "lift", "--key", "acme")
    again = await shell.run("slowdown", "lift", "code")

    assert lifted == {"type": "code", "key": None, "was_slowed": True}
    assert "key acme is no longer slowed down" in key.stdout
    assert "type code was not slowed down" in again.stdout
    assert len(await harness.queue.claim(worker="w1")) == 1


@pytest.mark.parametrize("words", [(), ("code", "--key", "acme")])
async def test_lift_needs_either_a_type_or_a_key(
    harness: Harness, shell: Shell, words: tuple[str]
) -> None:
    found = await shell.run("slowdown", "lift", *words)

    assert found.exit_code == 2
    assert "TYPE or --key" in found.stderr


async def test_the_account_of_the_day_is_listed_without_a_limit(
    harness: Harness, shell: Shell
) -> None:
    (row,) = await shell.json("budget", "list")

    assert (row["account"], row["ceiling_usd"], row["remaining_usd"]) == ("day", None, None)
    assert "no limit" in (await shell.run("budget", "list")).stdout


async def test_a_budget_is_listed_with_its_remaining_amount(harness: Harness, shell: Shell) -> None:
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


async def test_a_budget_is_removed(harness: Harness, shell: Shell) -> None:
    await shell.json("budget", "set", "--usd", "1", "--worker", "w1")

    (row,) = await shell.json("budget", "set", "--none", "--worker", "w1")

    assert row["ceiling_usd"] is None
    assert [row["account"] for row in await shell.json("budget", "list")] == ["day"]


async def test_tasks_that_wait_for_money_are_noted(harness: Harness, shell: Shell) -> None:
    async with harness.queue.dag(budget_usd=0.1) as dag:
        dag.add({"type": "code", "payload": {}, "estimated_cost_usd": 0.5})
    await harness.queue.claim(worker="w1")

    assert "1 ready tasks wait" in (await shell.run("budget", "list")).stderr


@pytest.mark.parametrize(
    "wrong", [(), ("--usd", "1", "--none"), ("--usd", "-1"), ("--usd", "1", "--worker", "a b")]
)
async def test_contradictory_budget_options_are_wrong_usage(
    harness: Harness, shell: Shell, wrong: tuple[str, ...]
) -> None:
    found = await shell.run("budget", "set", *wrong)

    assert found.exit_code == 2
    assert found.stderr
