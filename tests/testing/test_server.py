"""The memory speaks every script, with the arguments and replies that its header names."""

from __future__ import annotations

import pytest

from rqueue.errors import ConfigError, ScriptFault
from rqueue.store.scripts import folder, load, names
from rqueue.testing import Memory
from rqueue.testing.verbs import IDLE, SERVER_ONLY, VERBS
from rqueue.testing.verbs.words import asked

SCRIPTS = names(folder())


def test_every_script_is_spoken_or_has_nothing_to_do() -> None:
    assert sorted([*VERBS, *IDLE, *SERVER_ONLY]) == list(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_call_is_taken_apart_as_it_was_put_together(name: str) -> None:
    script = load(name, folder(), strict=True)
    args = {arg: f"the {arg}" for arg in script.args}
    rows = [tuple(f"{column} {at}" for column in script.each) for at in range(2)]

    found = asked(script, script.pack({key: key for key in script.keys}, args, rows))

    assert found.args == args
    assert [tuple(row.values()) for row in found.rows] == (rows if script.each else [])


async def test_what_shows_a_server_says_that_there_is_none(held: Memory) -> None:
    script = load("queue/look", folder(), strict=True)

    with pytest.raises(ScriptFault, match="in memory"):
        held.server.run(script.sha, [])


def test_time_does_not_go_back(held: Memory) -> None:
    with pytest.raises(ConfigError, match="backwards"):
        held.move_to("2001-01-01T00:00:00Z")


async def test_the_services_of_a_scheduler_find_nothing_wrong(held: Memory) -> None:
    await held.queue.enqueue("code", delay_sec=1)
    held.advance(1)

    for service in held.queue.scheduler().services:
        if service.name != "inbox":
            await service.tick()

    assert [task.state for task in held.tasks()] == ["READY"]
