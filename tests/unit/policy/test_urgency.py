"""When the urgency of a deadline has grown by a point."""

import pytest

from rqueue.policy.priority import DEADLINE_BOOST, deadline_boost
from rqueue.policy.urgency import HORIZON_SEC, moves_in_sec


@pytest.mark.parametrize("slack_sec", [86_400.0, 7200.0, 3600.0, 600.0, 60.0])
def test_then_it_is_a_point_more(slack_sec: float) -> None:
    wait = moves_in_sec(slack_sec)

    assert wait is not None
    assert 0 < wait <= slack_sec
    grown = deadline_boost(slack_sec - wait) - deadline_boost(slack_sec)
    assert grown == pytest.approx(1.0)


@pytest.mark.parametrize("slack_sec", [35.0, 1.0, 0.001])
def test_the_last_part_of_a_point_comes_with_the_deadline(slack_sec: float) -> None:
    assert moves_in_sec(slack_sec) == slack_sec
    assert deadline_boost(0) == DEADLINE_BOOST


@pytest.mark.parametrize("slack_sec", [0.0, -1.0, -86_400.0])
def test_after_the_deadline_there_is_nothing_more_to_gain(slack_sec: float) -> None:
    assert moves_in_sec(slack_sec) is None


def test_beyond_the_horizon_there_is_less_than_a_point() -> None:
    assert deadline_boost(HORIZON_SEC) == pytest.approx(1.0)
    assert deadline_boost(HORIZON_SEC + 1) < 1.0
