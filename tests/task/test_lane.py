"""Lanes, their names in the hash of lanes, and which worker may run which task."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.task.lane import POINT, Lane, Offer, lane_of, micro, serves, signature

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
def test_a_lane_is_restored_from_its_signature(lane: Lane) -> None:
    assert lane_of(signature(lane)) == lane


@given(LANES, LANES)
def test_two_lanes_have_the_same_signature_only_if_they_are_equal(one: Lane, other: Lane) -> None:
    assert (signature(one) == signature(other)) is (one == other)


def test_the_order_of_capabilities_does_not_matter() -> None:
    one = Lane("code", 0.1, capabilities=("git", "gpu"))
    other = Lane("code", 0.1, capabilities=("gpu", "git"))

    assert signature(one) == signature(other)


def test_a_signature_contains_only_values_that_are_not_defaults() -> None:
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


def test_rates_of_0_and_minus_0_have_the_same_signature() -> None:
    # Without the cache, which takes equal lanes for one: another process has another cache.
    assert '"rate":0.0' in signature.__wrapped__(Lane("code", -0.0))


CAPABILITIES = st.sets(st.sampled_from(["git", "gpu", "web", "sql"]))


@pytest.mark.parametrize(
    ("types", "served"),
    [(None, True), (["code"], True), (["review", "code"], True), (["review"], False), ([], False)],
)
def test_a_type_is_served_where_it_is_offered(types: list[str] | None, served: bool) -> None:
    assert serves(Offer.of(types), Lane("code", 0.1)) is served


@given(CAPABILITIES, CAPABILITIES)
def test_every_required_capability_must_be_offered(required: set[str], offered: set[str]) -> None:
    lane = Lane("code", 0.1, capabilities=tuple(sorted(required)))

    assert serves(Offer.of(capabilities=offered), lane) is (required <= offered)


@pytest.mark.parametrize(
    ("agent", "agents", "served"),
    [
        (None, (), True),
        (None, ("ada",), True),
        ("ada", ("ada",), True),
        ("ada", ("bob", "ada"), True),
        ("ada", ("bob",), False),
        ("ada", (), False),
    ],
)
def test_a_task_for_one_agent_is_served_by_that_agent_only(
    agent: str | None, agents: tuple[str, ...], served: bool
) -> None:
    assert serves(Offer.of(agents=agents), Lane("code", 0.1, agent)) is served


def test_type_agent_and_capabilities_must_all_match() -> None:
    lane = Lane("code", 0.1, "ada", ("git",))

    assert serves(Offer.of(["code"], ["git"], ["ada"]), lane)
    assert not serves(Offer.of(["review"], ["git"], ["ada"]), lane)
    assert not serves(Offer.of(["code"], [], ["ada"]), lane)
    assert not serves(Offer.of(["code"], ["git"], []), lane)


def test_an_exclusive_lane_is_served_like_any_other() -> None:
    assert serves(Offer.of(["code"]), Lane("code", 0.1, exclusive=True))


def test_an_offer_without_types_serves_every_type() -> None:
    assert Offer.of() == Offer(types=None)
    assert Offer.of(["code"], ["git"], ["ada"]) == Offer(
        frozenset({"code"}), frozenset({"git"}), frozenset({"ada"})
    )
