"""The event loop of serving processes is uvloop; the garbage collector runs rarely."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from weakref import ref

import pytest
import uvloop

from rqueue.cli.processes import loop as loop_module


@pytest.fixture(autouse=True)
def _restored_gc() -> Iterator[None]:
    """Restores the garbage collector of the test process."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_uvloop_is_used_if_it_is_installed() -> None:
    loop = loop_module.new_loop()
    loop.close()

    assert isinstance(loop, uvloop.Loop)


def test_the_loop_of_asyncio_is_used_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)

    loop = loop_module.new_loop()
    loop.close()

    assert isinstance(loop, asyncio.BaseEventLoop)


def test_objects_of_a_batch_are_not_examined() -> None:
    loop_module.tune_gc()
    looked = gc.get_stats()[0]["collections"]

    batch = [[n] for n in range(loop_module.YOUNG // 2)]

    assert gc.get_stats()[0]["collections"] == looked
    assert len(batch) == loop_module.YOUNG // 2


def test_reference_cycles_are_still_collected() -> None:
    loop_module.tune_gc()
    gone = ref(Cycle())
    kept = [[n] for n in range(2 * loop_module.YOUNG)]

    assert gone() is None
    assert len(kept) == 2 * loop_module.YOUNG


def test_objects_from_before_the_start_are_frozen() -> None:
    loop_module.tune_gc()

    assert gc.get_freeze_count() > len(sys.modules)
