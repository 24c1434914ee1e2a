"""Limits by configuration, and invalid ones."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.errors import ConfigError
from rqueue.settings.load import Settings
from rqueue.store.lanes import lane_words
from rqueue.task.lane import Lane
from rqueue.task.limits import TURN, Limit, Rules, Turns


def test_a_limit_as_moves_read_it() -> None:
    assert Limit(type="code", rate=5, per_sec=1.5).words() == ["code", 5, 1500, 0]
    assert Limit(at_once=3).words() == ["*", 0, 1000, 3]


def test_a_lane_has_the_limits_of_its_type_and_of_the_queue() -> None:
    limits = (
        Limit(type="code", rate=5),
        Limit(type="review", rate=6),
        Limit(at_once=3),
        Limit(key="*", at_once=1),
    )
    lane = Lane("code", 0.1)

    words = [7, 100_000, "code", False]
    assert lane_words(7, lane, Rules(limits)) == [
        *words,
        [["code", 5, 1000, 0], ["*", 0, 1000, 3]],
    ]
    assert lane_words(7, lane, Rules()) == words
    assert lane_words(7, Lane("code", 0.1, cost=3), Rules()) == [*words, False, False, 3]


def test_a_lane_of_tenants_has_the_rules_of_its_tenants() -> None:
    limits = (
        Limit(key="*", rate=5),
        Limit(key="*", type="code", at_once=2),
        Limit(key="big", type="code", at_once=9),
        Limit(key="small", rate=1),
        Limit(key="*", type="review", at_once=3),
    )
    lane = Lane("code", 0.1, keyed=True)
    number, _, _, _, before, rules = lane_words(-7, lane, Rules(limits, Turns(weights={"big": 3})))

    assert (number, before) == (-7, False)
    assert isinstance(rules, dict)
    assert rules["each"] == [["*", 5, 1000, 0], ["code", 0, 1000, 2]]
    # A limit of one tenant replaces the limit for each tenant, for the same tasks.
    assert rules["own"] == {
        "big": [["*", 5, 1000, 0], ["code", 0, 1000, 9]],
        "small": [["*", 1, 1000, 0], ["code", 0, 1000, 2]],
    }
    assert (rules["fair"], rules["step"], rules["steps"]) == (True, TURN, {"big": TURN // 3})


def test_only_changed_limits_change_the_name_of_the_tenants_rules() -> None:
    lane, limits = Lane("code", 0.1, keyed=True), (Limit(key="*", at_once=1),)

    def name(rules: Rules) -> object:
        found = lane_words(-1, lane, rules)[-1]
        assert isinstance(found, dict)
        return found["name"]

    assert name(Rules(limits)) == name(Rules(limits, Turns(enabled=False, weights={"a": 2})))
    assert name(Rules(limits)) != name(Rules())


@pytest.mark.parametrize(
    "wrong",
    [
        [{}],
        [{"type": "code"}],
        [{"rate": 0}],
        [{"at_once": -1}],
        [{"rate": 1, "per_sec": 0}],
        [{"rate": 1, "type": "a b"}],
        [{"rate": 1, "burst": 2}],
        [{"rate": 1}, {"at_once": 2}],
        [{"type": "a", "rate": 1}, {"type": "a", "at_once": 2}],
        [{"key": "a", "rate": 1}, {"key": "a", "at_once": 2}],
        [{"key": "a b", "rate": 1}],
        [{"key": "a*", "rate": 1}],
        [{"key": "a"}],
        7,
    ],
)
def test_invalid_limits_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="limits"):
        Settings.load("mail", limits=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": {"a": 0}},
        {"weights": {"a": -1}},
        {"weights": {"a": 1001}},
        {"weights": {"a b": 1}},
        {"weight": {"a": 1}},
        {"enabled": "perhaps"},
        7,
    ],
)
def test_invalid_turns_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="turns"):
        Settings.load("mail", turns=wrong)
