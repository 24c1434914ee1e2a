"""Counts by lane; the cost grows with the number of lanes only."""

from __future__ import annotations

from time import process_time
from types import SimpleNamespace
from typing import Any

import pytest

from rqueue import State
from rqueue.core import counts
from rqueue.core.counts import TIERS, tally
from rqueue.store.lanes import Lanes, read_lanes
from rqueue.store.shard import Shard
from rqueue.task.lane import Lane, signature
from tests.harness import Harness

LANES = 5000
STATES = ("PENDING", "CLAIMED", "RUNNING", "RETRYING", "COMPLETED", "CANCELLED", "DEAD_LETTERED")


class ManyLanes:
    """A shard whose server has very many lanes."""

    def __init__(self) -> None:
        connection = SimpleNamespace(call=self.call)
        self.runner = SimpleNamespace(connection=connection)
        self.keys = SimpleNamespace(lanes=lambda: "lanes")

    async def call(self, *_: Any, **__: Any) -> dict[bytes, bytes]:
        return {signature(Lane(f"t{n}", 0.1)).encode(): b"%d" % n for n in range(LANES)}

    async def run(self, *_: Any) -> list[Any]:
        stats = [b"submitted", b"7"]
        for lane in range(LANES):
            for state in STATES:
                stats += [b"%d:%s" % (lane, state.encode()), b"%d" % lane]
        return [b"OK", stats, [b"queue"], *([lane] + [1] * len(TIERS) for lane in range(LANES))]


async def test_many_lanes_are_counted_correctly_in_a_short_time() -> None:
    shard: Any = ManyLanes()
    began = process_time()

    found = await tally(shard)

    assert process_time() - began < 3
    assert (found.counters, found.paused) == ({"submitted": 7}, frozenset({"queue"}))
    assert len(found.lanes) == LANES
    for lane in found.lanes:
        number = int(lane.lane.type[1:])
        assert lane.states == dict.fromkeys(STATES, number)


async def test_a_lane_created_during_the_count_is_counted(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.running()
    outdated = [Lanes()]

    async def outdated_lanes(shard: Shard) -> Lanes:
        return outdated.pop() if outdated else await read_lanes(shard)

    monkeypatch.setattr(counts, "read_lanes", outdated_lanes)

    assert (await harness.queue.counts())[State.RUNNING] == 1
