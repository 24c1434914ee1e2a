"""The queue in memory, for users' tests and as the reference model of one shard."""

from __future__ import annotations

from rqueue.testing.driving import Ran
from rqueue.testing.eager import eager
from rqueue.testing.memory import Memory

memory = Memory

__all__ = ["Memory", "Ran", "eager", "memory"]
