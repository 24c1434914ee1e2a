"""The invariants about the order of a claim accept correct orders and reject wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from rqueue.task.lane import Lane
from tests.machine.invariants.order import ClaimOrder
from tests.machine.operator_moves import ComparedShard
from tests.machine.server_shard import ServerShard, library_with_clock
from tests.machine.workers import SimulatedWorker
from tests.reference.records import Draft
from tests.servers import Server

PLAIN, KEYED = Lane("a", 0.0), Lane("a", 0.0, keyed=True)
URGENT, MIDDLE, LATE = 10_000_000, 50_000_000, 90_000_000


@pytest.fixture
def shard(valkey: Server, tmp_path: Path) -> Iterator[ComparedShard]:
    """Tasks of two tenants, the second with the urgent ones, and plain ones between them."""
    with redis.Redis.from_url(valkey.plain_url, protocol=2) as client:
        shard = ComparedShard(
            ServerShard(client, library_with_clock(tmp_path / "lua")), archive=False
        )
        shard.submit(
            [
                Draft("X", KEYED, LATE, b"x", tenant="x"),
                Draft("Y1", KEYED, URGENT, b"y", tenant="y"),
                Draft("Y2", KEYED, URGENT, b"y", tenant="y"),
                Draft("P1", PLAIN, MIDDLE, b"p"),
                Draft("P2", PLAIN, MIDDLE, b"p"),
            ]
        )
        yield shard


def test_a_task_may_precede_by_the_priority_of_another_tenant(shard: ComparedShard) -> None:
    worker = SimulatedWorker(0)

    found = [grant.task for n in (1, 4) for grant in worker.claim(shard, n).grants]

    assert found == ["X", "Y1", "Y2", "P1", "P2"]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("X Y1 Y2 P1 P2", ""),
        ("Y1 X Y2 P1 P2", ""),
        ("Y1 Y2 X P1 P2", "X was given before P1"),
        ("Y1 Y2 P1 X P2", "X was given before P2"),
        ("X Y1 P1 Y2 P2", "P1 was given before Y2 of a key"),
        ("P1 X Y1 Y2 P2", "P1 was given before Y1 of a key"),
    ],
)
def test_a_task_precedes_only_by_the_priority_of_some_tenant(
    shard: ComparedShard, given: str, wrong: str
) -> None:
    worker = SimulatedWorker(0)
    worker.claim(shard, 5)
    order = ClaimOrder(
        worker.calls[-1], given.split(), shard.view, shard.server_shard.now_ms, shard.rules
    )

    if wrong:
        with pytest.raises(AssertionError, match=f"G15: {wrong}"):
            order.check()
    else:
        order.check()
