"""What the machine says of the order of a claim: no more and no less than holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from rqueue.task.lane import Lane
from tests.machine.fleet import Seat
from tests.machine.hands import Hands
from tests.machine.order_invariants import Order
from tests.machine.wire import Wire, clockwork
from tests.reference.records import Draft
from tests.servers import Server

PLAIN, KEYED = Lane("a", 0.0), Lane("a", 0.0, keyed=True)
URGENT, MIDDLE, LATE = 10_000_000, 50_000_000, 90_000_000


@pytest.fixture
def twin(valkey: Server, tmp_path: Path) -> Iterator[Hands]:
    """Tasks of two keys, of which the second has the urgent ones, and plain ones between them."""
    with redis.Redis.from_url(valkey.plain_url, protocol=2) as client:
        twin = Hands(Wire(client, clockwork(tmp_path / "lua")), archive=False)
        twin.submit(
            [
                Draft("X", KEYED, LATE, b"x", key="x"),
                Draft("Y1", KEYED, URGENT, b"y", key="y"),
                Draft("Y2", KEYED, URGENT, b"y", key="y"),
                Draft("P1", PLAIN, MIDDLE, b"p"),
                Draft("P2", PLAIN, MIDDLE, b"p"),
            ]
        )
        yield twin


def test_a_task_may_go_ahead_on_the_priority_that_another_key_lends(twin: Hands) -> None:
    seat = Seat(0)

    found = [grant.task for n in (1, 4) for grant in seat.claim(twin, n).grants]

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
def test_only_what_some_key_lends_lets_a_task_go_ahead(twin: Hands, given: str, wrong: str) -> None:
    seat = Seat(0)
    seat.claim(twin, 5)
    order = Order(seat.calls[-1], given.split(), twin.view, twin.wire.now_ms, twin.rules)

    if wrong:
        with pytest.raises(AssertionError, match=f"G15: {wrong}"):
            order.check()
    else:
        order.check()
