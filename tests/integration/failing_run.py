"""A test that fails while the garbage collector runs all the time and finalizers parse source."""

from __future__ import annotations

import ast
import gc


def deep(frames: int) -> None:
    if frames:
        deep(frames - 1)
    else:
        ast.parse("1 + 1")


def on_collection(phase: str, facts: dict[str, int]) -> None:
    if phase == "start":
        gc.callbacks.remove(on_collection)
        deep(50)
        gc.callbacks.append(on_collection)


def test_that_fails() -> None:
    gc.set_threshold(50)
    gc.callbacks.append(on_collection)
    values = [1, 2, 3]
    assert values == [number + 1 for number in values]
