"""Limits by configuration, and those that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.errors import ConfigError
from rqueue.model.lane import Lane
from rqueue.model.limit import Limit
from rqueue.settings import Settings
from rqueue.store.lanes import words_of


def test_a_limit_is_told_in_the_scripts_words() -> None:
    assert Limit(type="code", rate=5, per_sec=1.5).words() == ["code", 5, 1500, 0]
    assert Limit(at_once=3).words() == ["*", 0, 1000, 3]


def test_a_lane_has_those_of_its_type_and_of_the_queue() -> None:
    limits = [Limit(type="code", rate=5), Limit(type="review", rate=6), Limit(at_once=3)]

    before = [["code", 5, 1000, 0], ["*", 0, 1000, 3]]
    assert words_of(7, Lane("code", 0.1), limits) == [7, 100_000, "code", False, before]
    assert words_of(7, Lane("code", 0.1), []) == [7, 100_000, "code", False]
    assert words_of(7, Lane("code", 0.1, cost=3), []) == [7, 100_000, "code", False, False, 3]


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
        7,
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="limits"):
        Settings.load("mail", limits=wrong)
