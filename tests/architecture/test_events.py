"""The catalogue of events matches the moves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rqueue.core.events import CATALOGUE, KINDS, Kind
from tests.architecture.tree import LUA_MODULES, MOVES, content, for_each

EVENT = re.compile(r'"([a-z]+\.[a-z_]+)"')
FIELD = re.compile(r"\{(\w+)\}")


def events_of_moves() -> set[str]:
    """Every event that a move names."""
    texts = (content(path) for path in [*MOVES, *LUA_MODULES])
    return {name for text in texts for name in EVENT.findall(text)}


def test_scripts_and_the_catalogue_have_the_same_events() -> None:
    assert events_of_moves() == set(CATALOGUE)


def test_no_event_has_two_rows() -> None:
    assert len(KINDS) == len(CATALOGUE)


@for_each([*MOVES, *LUA_MODULES])
def test_scripts_write_event_names_in_full(path: Path) -> None:
    """A name that is concatenated could be missing in the catalogue."""
    assert re.search(r'"[a-z]+\." \.\.', content(path)) is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_text_of_an_event_uses_only_its_fields(kind: Kind) -> None:
    held = {"subject", *(name for name, _ in kind.parts)}

    assert set(FIELD.findall(kind.template)) <= held
    assert "{subject}" in kind.template
    # Only the last part may contain blanks.
    assert all(name in ("reason", "account") or type is int for name, type in kind.parts[:-1])
