"""`rqueue slowdown list, lift`."""

from __future__ import annotations

import pytest

from rqueue.store.leases import Parking, park
from tests.cli.conftest import Shell
from tests.house import House


async def slowed(house: House, **options: str) -> None:
    """A task is set aside, and its type or key slowed down."""
    lease = await house.running(**options)
    row = Parking(lease.id.ulid, lease.token, 60_000, "rate_limit", "code", 60_000)
    await park(house.queue.shard, [row])


async def test_nothing_is_slowed_down_at_first(house: House, shell: Shell) -> None:
    assert await shell.json("slowdown", "list") == []
    found = await shell.run("slowdown", "list")
    assert "nothing is slowed down" in found.stderr


async def test_types_and_keys_are_listed(house: House, shell: Shell) -> None:
    await slowed(house, limit_key="acme")
    await slowed(house)

    type, key = await shell.json("slowdown", "list")
    shown = (await shell.run("slowdown", "list")).stdout

    assert (type["type"], type["key"], type["resting"]) == ("code", None, True)
    assert (key["type"], key["key"]) == (None, "acme")
    assert type["until"] < type["over_at"]
    assert "resting" in shown


async def test_one_is_lifted_by_hand(house: House, shell: Shell) -> None:
    await slowed(house, limit_key="acme")
    await slowed(house)
    await house.queue.enqueue("code")

    (lifted,) = await shell.json("slowdown", "lift", "code")
    key = await shell.run("slowdown", "lift", "--key", "acme")
    again = await shell.run("slowdown", "lift", "code")

    assert lifted == {"type": "code", "key": None, "was_slowed": True}
    assert "key acme is slowed down no more" in key.stdout
    assert "type code was not slowed down" in again.stdout
    assert len(await house.queue.claim(worker="w1")) == 1


@pytest.mark.parametrize("words", [(), ("code", "--key", "acme")])
async def test_one_of_them_must_be_named(house: House, shell: Shell, words: tuple[str]) -> None:
    found = await shell.run("slowdown", "lift", *words)

    assert found.exit_code == 2
    assert "TYPE or --key" in found.stderr
