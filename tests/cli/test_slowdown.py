"""`rqueue slowdown list, lift`."""

from __future__ import annotations

import pytest

from rqueue.core.leases import Parked, park
from tests.cli.conftest import Shell
from tests.harness import Harness


async def slowed(harness: Harness, **options: str) -> None:
    """A task is set aside, and its type or key slowed down."""
    lease = await harness.running(**options)
    row = Parked(lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 60_000)
    await park(harness.queue._internals.shard, [row])


async def test_nothing_is_slowed_down_at_first(harness: Harness, shell: Shell) -> None:
    assert await shell.json("slowdown", "list") == []
    found = await shell.run("slowdown", "list")
    assert "nothing is slowed down" in found.stderr


async def test_types_and_keys_are_listed(harness: Harness, shell: Shell) -> None:
    await slowed(harness, limit_key="acme")
    await slowed(harness)

    type, key = await shell.json("slowdown", "list")
    shown = (await shell.run("slowdown", "list")).stdout

    assert (type["type"], type["key"], type["resting"]) == ("code", None, True)
    assert (key["type"], key["key"]) == (None, "acme")
    assert type["until"] < type["over_at"]
    assert "resting" in shown


async def test_one_is_lifted_by_hand(harness: Harness, shell: Shell) -> None:
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
async def test_one_of_them_must_be_named(harness: Harness, shell: Shell, words: tuple[str]) -> None:
    found = await shell.run("slowdown", "lift", *words)

    assert found.exit_code == 2
    assert "TYPE or --key" in found.stderr
