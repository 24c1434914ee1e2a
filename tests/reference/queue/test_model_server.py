"""The model implements every move, with the arguments and replies of its header."""

from __future__ import annotations

import pytest

from rqueue.errors import ScriptFault
from rqueue.settings.load import Settings
from rqueue.store.library import library
from tests.reference.moves import MODEL_MOVES, NO_OPS, SERVER_ONLY
from tests.reference.moves.call import parse_call
from tests.reference.queue.model_queue import ModelQueue

MOVES = library().moves


def test_every_script_is_implemented_or_a_no_op() -> None:
    assert sorted([*MODEL_MOVES, *NO_OPS, *SERVER_ONLY]) == sorted(MOVES)


@pytest.mark.parametrize("name", MOVES)
def test_a_packed_call_is_parsed_to_the_same_arguments(name: str) -> None:
    move = MOVES[name]
    args = {arg: f"the {arg}" for arg in move.args}
    rows = [tuple(f"{column} {at}" for column in move.each) for at in range(2)]

    found = parse_call(move, move.pack({key: key for key in move.keys}, args, rows))

    assert found.args == args
    assert [tuple(row.values()) for row in found.rows] == (rows if move.each else [])


def test_scripts_that_show_a_server_raise_an_error() -> None:
    held = ModelQueue(Settings.load("shop", url="redis://nowhere.invalid:1"))

    with pytest.raises(ScriptFault, match="in memory"):
        held.server.run(MOVES["queue/overview"].function, [])
