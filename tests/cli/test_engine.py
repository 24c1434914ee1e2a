"""What a process that serves runs on: a quick loop, and a collector that seldom looks."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from weakref import ref

import pytest
import uvloop

from rqueue.cli.processes import loop as engine


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """The collector of the tests' own process."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


class Circle:
    """Something that only the collector lets go of."""

    def __init__(self) -> None:
        self.itself = self


def test_the_quick_loop_is_taken_where_it_is_installed() -> None:
    loop = engine.new_loop()
    loop.close()

    assert isinstance(loop, uvloop.Loop)


def test_the_plain_loop_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)

    loop = engine.new_loop()
    loop.close()

    assert isinstance(loop, asyncio.BaseEventLoop)


def test_what_a_batch_is_made_of_is_not_looked_at() -> None:
    engine.calm()
    looked = gc.get_stats()[0]["collections"]

    batch = [[n] for n in range(engine.YOUNG // 2)]

    assert gc.get_stats()[0]["collections"] == looked
    assert len(batch) == engine.YOUNG // 2


def test_circles_are_still_let_go_of() -> None:
    engine.calm()
    gone = ref(Circle())
    kept = [[n] for n in range(2 * engine.YOUNG)]

    assert gone() is None
    assert len(kept) == 2 * engine.YOUNG


def test_what_was_there_at_the_start_is_left_alone() -> None:
    engine.calm()

    assert gc.get_freeze_count() > len(sys.modules)
