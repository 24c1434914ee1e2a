"""Lanes and their names in the hash of lanes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.task.lane import POINT, Lane, lane_of, micro, signature

NAMES = st.text("abcäß:/-", min_size=1, max_size=8)
LANES = st.builds(
    Lane,
    type=NAMES,
    rate=st.integers(0, 100_000).map(lambda hundredths: hundredths / 100),
    agent=st.none() | NAMES,
    capabilities=st.sets(NAMES, max_size=4).map(lambda names: tuple(sorted(names))),
    exclusive=st.booleans(),
)


@given(LANES)
def test_a_signature_leads_back_to_its_lane(lane: Lane) -> None:
    assert lane_of(signature(lane)) == lane


@given(LANES, LANES)
def test_two_lanes_have_one_signature_only_if_they_are_one(one: Lane, other: Lane) -> None:
    assert (signature(one) == signature(other)) is (one == other)


def test_the_order_of_capabilities_does_not_matter() -> None:
    one = Lane("code", 0.1, capabilities=("git", "gpu"))
    other = Lane("code", 0.1, capabilities=("gpu", "git"))

    assert signature(one) == signature(other)


def test_a_signature_says_only_what_is_special() -> None:
    assert signature(Lane("code", 0.1)) == '{"rate":0.1,"type":"code"}'
    assert json.loads(signature(Lane("code", 0.1, "ada", ("git",), exclusive=True))) == {
        "type": "code",
        "rate": 0.1,
        "agent": "ada",
        "capabilities": ["git"],
        "alone": True,
    }


@pytest.mark.parametrize(
    ("points", "expected"), [(0, 0), (1, POINT), (0.1, 100_000), (-2.5, -2_500_000), (1e-7, 0)]
)
def test_points_are_counted_in_millionths(points: float, expected: int) -> None:
    assert micro(points) == expected


@given(st.integers(0, 100_000))
def test_a_rate_of_hundredths_is_exact(hundredths: int) -> None:
    assert Lane("code", hundredths / 100).micro_rate == hundredths * 10_000


def test_equal_rates_have_one_name() -> None:
    # Without the cache, which takes equal lanes for one: another process has another cache.
    assert '"rate":0.0' in signature.__wrapped__(Lane("code", -0.0))
