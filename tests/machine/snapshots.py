"""Snapshots of a scenario on both sides, to run several moves from the same state."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from tests.machine.comparison import Comparison
from tests.machine.server_shard import ServerShard

DUMP_ALL = """
local found = {}
for _, key in ipairs(redis.call("KEYS", "*")) do
  found[#found + 1] = key
  found[#found + 1] = tostring(math.max(redis.call("PTTL", key), 0))
  found[#found + 1] = redis.call("DUMP", key)
end
return found
"""
RESTORE_ALL = """
redis.call("FLUSHALL")
for at = 1, #ARGV, 3 do
  redis.call("RESTORE", ARGV[at], ARGV[at + 1], ARGV[at + 2])
end
"""


class Replayable(Protocol):
    """A compared shard and moves by name."""

    @property
    def shard(self) -> Comparison: ...

    def move(self, name: str) -> None: ...


Scenario = TypeVar("Scenario", bound=Replayable)


def check_all_pairs(scenario: Replayable, server_shard: ServerShard, moves: Iterable[str]) -> None:
    """Runs every move, and after each of them every move again: the second one is compared."""
    begun = Snapshot(scenario, server_shard)
    for first in moves:
        done = "nothing"
        try:
            scenario = begun.restore()
            scenario.move(first)
            scenario.shard.start_comparing()
            moved = Snapshot(scenario, server_shard)
            for second in moves:
                done = second
                moved.restore().move(second)
        except AssertionError as error:
            raise AssertionError(f"{first}, then {done}: {error}") from error


class Snapshot(Generic[Scenario]):
    """A scenario and its server at one moment."""

    def __init__(self, scenario: Scenario, server_shard: ServerShard) -> None:
        self.server_shard, self.now_ms = server_shard, server_shard.now_ms
        found: Any = server_shard.client.eval(DUMP_ALL, 0)
        self.server = list(found)
        written = io.BytesIO()
        SnapshotPickler(written, server_shard).dump(scenario)
        self.scenario = written.getvalue()

    def restore(self) -> Scenario:
        """Restores the server. Returns a new copy of the scenario."""
        self.server_shard.client.eval(RESTORE_ALL, 0, *self.server)
        self.server_shard.now_ms = self.now_ms
        scenario: Scenario = SnapshotUnpickler(io.BytesIO(self.scenario), self.server_shard).load()
        return scenario


class SnapshotPickler(pickle.Pickler):
    """Writes everything except for the connection to the server."""

    def __init__(self, file: io.BytesIO, server_shard: ServerShard) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.server_shard = server_shard

    def persistent_id(self, thing: object) -> str | None:
        return "server_shard" if thing is self.server_shard else None


class SnapshotUnpickler(pickle.Unpickler):
    """Reads it with the present connection."""

    def __init__(self, file: io.BytesIO, server_shard: ServerShard) -> None:
        super().__init__(file)
        self.server_shard = server_shard

    def persistent_load(self, name: str) -> ServerShard:
        assert name == "server_shard"
        return self.server_shard
