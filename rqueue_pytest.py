"""pytest fixtures for the tests of code that enqueues or handles tasks.

pytest loads this module in every run of an environment that has rqueue. So it is not part of the
package: rqueue, which takes longer to import than pytest, is imported when a fixture is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rqueue.testing import Memory

    Enter = Callable[..., Memory]


@pytest.fixture
def rqueue_memory() -> Iterator[Enter]:
    """Runs queues in memory until the test ends: `memory = rqueue_memory(queue)`.

    Options are those of `rqueue.testing.memory`.
    """
    yield from entering("memory")


@pytest.fixture
def rqueue_eager() -> Iterator[Enter]:
    """Runs each task in the call that enqueues it, until the test ends: `rqueue_eager(queue)`.

    Options are those of `rqueue.testing.eager`.
    """
    yield from entering("eager")


def entering(name: str) -> Iterator[Enter]:
    """Yields a function that enters a context of `rqueue.testing`; leaves all in the end."""
    context: Any = getattr(import_module("rqueue.testing"), name)
    with ExitStack() as stack:

        def enter(queue: Any, **options: Any) -> Memory:
            memory: Memory = stack.enter_context(context(queue, **options))
            return memory

        yield enter
