"""The terms of an effective priority add up to what a claim compares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.explain.explain import Written, terms_of
from rqueue.task.lane import POINT, micro
from rqueue.task.priority import deadline_boost, effective, score

CREATED_MS = 1_900_000_000_000
MINUTE_MS = 60_000


def scored(base: float, rate: float, *, boost: float = 0.0) -> int:
    return micro(score(base, rate, CREATED_MS, boost))


def test_a_task_gains_by_its_age() -> None:
    written = Written(scored(50, 0.1), 50, 0.0, CREATED_MS)

    terms = terms_of(written, 0.1, CREATED_MS + 30 * MINUTE_MS)

    assert terms.age_sec == pytest.approx(1800)
    assert terms.age_boost == pytest.approx(3.0)
    assert terms.effective == pytest.approx(47.0)
    assert terms.deadline_boost == pytest.approx(0.0)
    assert terms.slack_sec is None


def test_in_strict_order_age_has_no_effect() -> None:
    terms = terms_of(Written(scored(50, 0), 50, 0.0, CREATED_MS), 0.0, CREATED_MS + MINUTE_MS)

    assert (terms.age_sec, terms.age_boost, terms.effective) == (60.0, 0.0, 50.0)


def test_a_rewritten_score_ages_from_the_time_of_the_rewrite() -> None:
    anew = micro(score(50, 0.1, CREATED_MS + 10 * MINUTE_MS))

    terms = terms_of(Written(anew, 50, 0.0, CREATED_MS), 0.1, CREATED_MS + 30 * MINUTE_MS)

    assert terms.age_sec == pytest.approx(1200)


def test_the_stored_deadline_boost_counts_and_not_the_current_one() -> None:
    late_ms = CREATED_MS + 60 * MINUTE_MS
    was = deadline_boost(3600)
    written = Written(scored(50, 0.1, boost=was), 50, 0.0, CREATED_MS, late_ms)

    terms = terms_of(written, 0.1, late_ms + MINUTE_MS)

    assert terms.slack_sec == -60
    assert terms.deadline_boost == pytest.approx(was, abs=1e-5)
    assert terms.deadline_boost_now == 50.0


@given(
    base=st.floats(0, 100),
    rate=st.sampled_from([0.0, 0.1, 2.5, 100.0]),
    path=st.floats(0, 10),
    age_ms=st.integers(0, 10**9),
    slack_sec=st.none() | st.integers(-(10**6), 10**6),
)
def test_the_terms_add_up(
    *, base: float, rate: float, path: float, age_ms: int, slack_sec: int | None
) -> None:
    boost = 0.0 if slack_sec is None else deadline_boost(slack_sec)
    late_ms = None if slack_sec is None else CREATED_MS + slack_sec * 1000
    kept = scored(base, rate, boost=boost + path)
    now_ms = CREATED_MS + age_ms

    terms = terms_of(Written(kept, base, path, CREATED_MS, late_ms), rate, now_ms)

    whole = terms.base - terms.age_boost - terms.deadline_boost - terms.path_boost
    assert whole == pytest.approx(terms.effective)
    assert terms.effective == effective(kept / POINT, rate, now_ms)
    assert terms.deadline_boost == pytest.approx(boost, abs=1e-3)
