"""`rqueue breaker list, open, close`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cli.conftest import Shell
from tests.harness import Harness, opened
from tests.servers import Server


@pytest.fixture
async def harness(server: Server) -> AsyncIterator[Harness]:
    """A house whose types have breakers."""
    async with opened(server, breakers={}) as found:
        yield found


async def test_all_are_closed_at_first(harness: Harness, shell: Shell) -> None:
    assert await shell.json("breaker", "list") == []
    found = await shell.run("breaker", "list")
    assert "all breakers are closed" in found.stderr


async def test_one_that_counts_failures_is_listed(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    await lease.fail("error", "broken", permanent=True)

    (row,) = await shell.json("breaker", "list")

    assert (row["type"], row["state"], row["failures"], row["probe"]) == ("code", "closed", 1, None)
    assert row["last_failure"].startswith("20")


async def test_one_is_opened_and_closed_by_hand(harness: Harness, shell: Shell) -> None:
    await harness.queue.enqueue("code")

    (opened,) = await shell.json("breaker", "open", "code", "--for", "60")
    assert opened == {"type": "code", "state": "open", "for_sec": 60}
    assert await harness.queue.claim(worker="w1") == []
    (row,) = await shell.json("breaker", "list")
    assert (row["type"], row["state"]) == ("code", "open")
    assert "open" in (await shell.run("breaker", "list")).stdout

    (closed,) = await shell.json("breaker", "close", "code")
    assert closed == {"type": "code", "state": "closed"}
    assert len(await harness.queue.claim(worker="w1")) == 1


async def test_a_type_that_cannot_be_is_a_line_and_a_code(harness: Harness, shell: Shell) -> None:
    found = await shell.run("breaker", "open", "a b")

    assert found.exit_code == 2
    assert "type" in found.stderr
