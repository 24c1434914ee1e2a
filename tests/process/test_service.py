"""The pause after a tick of a service."""

from __future__ import annotations

import pytest

from rqueue.maintenance.promoter import Promoted
from rqueue.process.service import SHORTEST_PAUSE_SEC, Paced, pause_after

NOW_MS = 1_000_000.0


async def nothing() -> None: ...


SERVICE = Paced("one", 1.0, nothing)


@pytest.mark.parametrize(
    ("next_ms", "pause"),
    [
        (0, 1.0),
        (1_000_400, 0.4),
        (1_005_000, 1.0),
        (1_000_000, SHORTEST_PAUSE_SEC),
        (900_000, SHORTEST_PAUSE_SEC),
    ],
)
def test_a_promoter_sleeps_until_the_next_task_is_due_but_no_longer_than_its_interval(
    next_ms: int, pause: float
) -> None:
    assert pause_after(SERVICE, Promoted(0, 0, 0, next_ms), NOW_MS) == pytest.approx(pause)


def test_a_service_without_a_due_time_sleeps_its_interval() -> None:
    assert pause_after(SERVICE, None, NOW_MS) == 1.0
