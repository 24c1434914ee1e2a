"""When the urgency of a deadline has grown by a point."""

from itertools import pairwise

import pytest

from rqueue.maintenance.rescorer import HORIZON_SEC, has_moved, moves_in_sec
from rqueue.task.priority import DEADLINE_BOOST, deadline_boost


@pytest.mark.parametrize("slack_sec", [86_400.0, 7200.0, 3600.0, 600.0, 60.0])
def test_after_the_returned_time_the_urgency_is_a_point_higher(slack_sec: float) -> None:
    wait = moves_in_sec(slack_sec)

    assert wait is not None
    assert 0 < wait <= slack_sec
    grown = deadline_boost(slack_sec - wait) - deadline_boost(slack_sec)
    assert grown == pytest.approx(1.0)


@pytest.mark.parametrize("slack_sec", [35.0, 1.0, 0.001])
def test_the_last_fraction_of_a_point_is_reached_at_the_deadline(slack_sec: float) -> None:
    assert moves_in_sec(slack_sec) == slack_sec
    assert deadline_boost(0) == DEADLINE_BOOST


@pytest.mark.parametrize("slack_sec", [0.0, -1.0, -86_400.0])
def test_after_the_deadline_the_urgency_does_not_grow(slack_sec: float) -> None:
    assert moves_in_sec(slack_sec) is None


def test_beyond_the_horizon_the_urgency_is_less_than_a_point() -> None:
    assert deadline_boost(HORIZON_SEC) == pytest.approx(1.0)
    assert deadline_boost(HORIZON_SEC + 1) < 1.0


@pytest.mark.parametrize("slack_sec", [7200.0, 3600.0, 1234.5, 61.0])
def test_the_next_move_is_a_point_above_the_written_urgency(slack_sec: float) -> None:
    written = deadline_boost(slack_sec) - 0.6

    wait = moves_in_sec(slack_sec, written)

    assert wait is not None
    assert deadline_boost(slack_sec - wait) - written == pytest.approx(1.0)


def test_an_overdue_move_is_due_now() -> None:
    assert moves_in_sec(3600.0, deadline_boost(3600.0) - 1.5) == 0.0


@pytest.mark.parametrize("slack_sec", [86_400.0, 7200.0, 3600.0, 600.0])
def test_every_point_is_written_and_none_is_skipped(
    slack_sec: float,
) -> None:
    written = [deadline_boost(slack_sec)]

    while (wait := moves_in_sec(slack_sec)) is not None:
        slack_sec -= wait
        boost = deadline_boost(slack_sec)
        assert has_moved(boost, written[-1]) or slack_sec == 0
        written.append(boost)

    steps = [after - before for before, after in pairwise(written)]
    assert steps[:-1] == pytest.approx([1.0] * (len(steps) - 1))
    assert steps[-1] <= 1.0 + 1e-6
    assert written[-1] == DEADLINE_BOOST


def test_growth_of_less_than_a_point_is_not_a_move() -> None:
    assert not has_moved(7.9, 7.0)
    assert has_moved(8.0 - 1e-12, 7.0)
