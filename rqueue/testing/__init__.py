"""The queue in memory, for users' tests."""

from __future__ import annotations

from rqueue.testing.driver import Ran
from rqueue.testing.eager import eager
from rqueue.testing.memory import Memory

memory = Memory

__all__ = ["Memory", "Ran", "eager", "memory"]
