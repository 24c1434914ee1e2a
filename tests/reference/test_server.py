"""The model speaks every script, with the arguments and replies that its header names."""

from __future__ import annotations

import pytest

from rqueue.errors import ScriptFault
from rqueue.settings.load import Settings
from rqueue.store.library import library
from tests.reference.memory import Memory
from tests.reference.verbs import IDLE, SERVER_ONLY, VERBS
from tests.reference.verbs.words import asked

MOVES = library().moves


def test_every_script_is_spoken_or_has_nothing_to_do() -> None:
    assert sorted([*VERBS, *IDLE, *SERVER_ONLY]) == sorted(MOVES)


@pytest.mark.parametrize("name", MOVES)
def test_a_call_is_taken_apart_as_it_was_put_together(name: str) -> None:
    script = MOVES[name]
    args = {arg: f"the {arg}" for arg in script.args}
    rows = [tuple(f"{column} {at}" for column in script.each) for at in range(2)]

    found = asked(script, script.pack({key: key for key in script.keys}, args, rows))

    assert found.args == args
    assert [tuple(row.values()) for row in found.rows] == (rows if script.each else [])


def test_what_shows_a_server_says_that_there_is_none() -> None:
    held = Memory(Settings.load("shop", url="redis://nowhere.invalid:1"))

    with pytest.raises(ScriptFault, match="in memory"):
        held.server.run(MOVES["queue/overview"].function, [])
