"""Which worker may run which task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.task.lane import Lane, Offer, serves

NAMES = st.sets(st.sampled_from(["git", "gpu", "web", "sql"]))


@pytest.mark.parametrize(
    ("types", "served"),
    [(None, True), (["code"], True), (["review", "code"], True), (["review"], False), ([], False)],
)
def test_a_type_is_served_where_it_is_offered(types: list[str] | None, served: bool) -> None:
    assert serves(Offer.of(types), Lane("code", 0.1)) is served


@given(NAMES, NAMES)
def test_every_capability_that_is_asked_for_must_be_offered(
    asked: set[str], offered: set[str]
) -> None:
    lane = Lane("code", 0.1, capabilities=tuple(sorted(asked)))

    assert serves(Offer.of(capabilities=offered), lane) is (asked <= offered)


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


def test_type_agent_and_capabilities_must_all_fit() -> None:
    lane = Lane("code", 0.1, "ada", ("git",))

    assert serves(Offer.of(["code"], ["git"], ["ada"]), lane)
    assert not serves(Offer.of(["review"], ["git"], ["ada"]), lane)
    assert not serves(Offer.of(["code"], [], ["ada"]), lane)
    assert not serves(Offer.of(["code"], ["git"], []), lane)


def test_a_lane_of_its_own_is_served_like_any_other() -> None:
    assert serves(Offer.of(["code"]), Lane("code", 0.1, exclusive=True))


def test_an_offer_of_nothing_in_particular_is_every_type() -> None:
    assert Offer.of() == Offer(types=None)
    assert Offer.of(["code"], ["git"], ["ada"]) == Offer(
        frozenset({"code"}), frozenset({"git"}), frozenset({"ada"})
    )
