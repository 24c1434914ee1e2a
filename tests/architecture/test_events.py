"""The catalogue of events against the scripts that tell of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rqueue.core.events import CATALOGUE, KINDS, Kind
from tests.architecture.tree import LUA_MODULES, MOVES, content, for_each

EVENT = re.compile(r'"([a-z]+\.[a-z_]+)"')
FIELD = re.compile(r"\{(\w+)\}")


def told() -> set[str]:
    """Every event that a script names."""
    texts = (content(path) for path in [*MOVES, *LUA_MODULES])
    return {name for text in texts for name in EVENT.findall(text)}


def test_every_event_of_a_script_is_in_the_catalogue_and_the_other_way_round() -> None:
    assert told() == set(CATALOGUE)


def test_no_event_has_two_rows() -> None:
    assert len(KINDS) == len(CATALOGUE)


@for_each([*MOVES, *LUA_MODULES])
def test_an_event_is_told_by_its_whole_name(path: Path) -> None:
    """A name that is put together could be one that is not in the catalogue."""
    assert re.search(r'"[a-z]+\." \.\.', content(path)) is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_line_for_people_says_only_what_the_event_holds(kind: Kind) -> None:
    held = {"subject", *(name for name, _ in kind.parts)}

    assert set(FIELD.findall(kind.template)) <= held
    assert "{subject}" in kind.template
    # Only the last part may hold blanks.
    assert all(name in ("reason", "account") or type is int for name, type in kind.parts[:-1])
