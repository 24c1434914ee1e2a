"""Scales, tiers and effective priority."""

from math import e

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.errors import InvalidTask
from rqueue.task.priority import (
    Tier,
    deadline_boost,
    dependency_boost,
    effective,
    from_native,
    score,
    tier,
    to_native,
)

MINUTE = 60_000
NATIVE = st.floats(0, 100)

A = {10: 0, 9: 10, 8: 20, 7: 30, 6: 40, 5: 50, 4: 60, 3: 70, 2: 80, 1: 90}
C = {0: 0, 1: 20, 2: 45, 3: 70}


@pytest.mark.parametrize(("value", "native"), A.items())
def test_ten_is_the_most_urgent_priority_of_document_a(value: int, native: float) -> None:
    assert to_native(value, "1-10") == native
    assert from_native(native, "1-10") == value


@pytest.mark.parametrize(("value", "native"), C.items())
def test_document_c_has_four_priorities(value: int, native: float) -> None:
    assert to_native(value, "0-3") == native
    assert from_native(native, "0-3") == value


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([10], Tier.CRITICAL),
        ([9, 8], Tier.HIGH),
        ([7, 6, 5], Tier.NORMAL),
        ([4, 3], Tier.LOW),
        ([2, 1], Tier.BACKGROUND),
    ],
)
def test_priorities_of_document_a_belong_to_the_expected_tiers(
    values: list[int], expected: Tier
) -> None:
    assert {tier(to_native(value, "1-10")) for value in values} == {expected}


@given(NATIVE, st.sampled_from(["1-10", "0-3"]))
def test_the_nearest_value_of_a_scale_is_shown(native: float, scale: str) -> None:
    steps = A if scale == "1-10" else C

    shown = from_native(native, scale)

    assert abs(steps[int(shown)] - native) == min(abs(step - native) for step in steps.values())


@given(NATIVE)
def test_a_native_priority_is_unchanged(native: float) -> None:
    assert from_native(to_native(native)) == native


def test_of_two_equally_near_values_the_more_urgent_is_shown() -> None:
    assert from_native(45, "1-10") == 6
    assert from_native(10, "0-3") == 0


@pytest.mark.parametrize(
    ("value", "scale"),
    [
        (-0.1, "native"),
        (100.1, "native"),
        (float("nan"), "native"),
        (float("inf"), "native"),
        ("50", "native"),
        (None, "native"),
        (True, "native"),
        (0, "1-10"),
        (11, "1-10"),
        (5.5, "1-10"),
        (-1, "0-3"),
        (4, "0-3"),
        (True, "0-3"),
        (5, "1-5"),
    ],
)
def test_a_priority_out_of_its_scale_is_refused(value: object, scale: str) -> None:
    with pytest.raises(InvalidTask):
        to_native(value, scale)


@pytest.mark.parametrize(
    ("effective_priority", "expected"),
    [
        (-40, Tier.CRITICAL),
        (0, Tier.CRITICAL),
        (9.99, Tier.CRITICAL),
        (10, Tier.HIGH),
        (29.5, Tier.HIGH),
        (30, Tier.NORMAL),
        (59, Tier.NORMAL),
        (60, Tier.LOW),
        (79.9, Tier.LOW),
        (80, Tier.BACKGROUND),
        (100, Tier.BACKGROUND),
        (250, Tier.BACKGROUND),
    ],
)
def test_tiers_are_half_open(effective_priority: float, expected: Tier) -> None:
    assert tier(effective_priority) is expected


def test_a_background_task_is_normal_after_310_minutes() -> None:
    created_ms = 1_770_541_200_000
    written = score(90, 0.1, created_ms)

    then = effective(written, 0.1, created_ms + 310 * MINUTE)

    assert then == pytest.approx(59)
    assert tier(round(then, 6)) is Tier.NORMAL
    assert tier(effective(written, 0.1, created_ms + 299 * MINUTE)) is Tier.LOW


@given(NATIVE, NATIVE, st.integers(0, 10**7), st.floats(0, 1))
def test_the_order_of_tasks_with_the_same_rate_never_changes(
    one: float, other: float, created: int, rate: float
) -> None:
    later = 90_001
    gap = score(one, rate, created) - score(other, rate, created + later)

    for now in (created + later, created + later + 10**8):
        first = effective(score(one, rate, created), rate, now)
        second = effective(score(other, rate, created + later), rate, now)
        assert first - second == pytest.approx(gap, abs=1e-6)


def test_rate_zero_is_strict_order() -> None:
    assert effective(score(30, 0, 5), 0, 10**12) == 30


def test_a_boost_makes_a_task_more_urgent_also_below_zero() -> None:
    assert score(10, 0, 0, boost=50) == -40


def test_a_nearer_deadline_gives_a_larger_boost() -> None:
    assert deadline_boost(0) == deadline_boost(-500) == 50
    assert deadline_boost(1800) == pytest.approx(50 / e)
    assert deadline_boost(10**9) == 0
    assert deadline_boost(60, dmax=10, tau_sec=60) == pytest.approx(10 / e)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_a_deadlines_boost_never_falls_as_time_passes(slack: float, passed: float) -> None:
    assert 0 <= deadline_boost(slack) <= deadline_boost(slack - passed) <= 50


def test_the_critical_path_is_boosted_and_a_single_task_is_not() -> None:
    assert dependency_boost(4, 4) == 10
    assert dependency_boost(1, 4) == 2.5
    assert dependency_boost(1, 1) == 0
