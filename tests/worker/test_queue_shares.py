"""Shares of queues: strict order, weights, and no share for a queue without work."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.worker.shared_slots import (
    QueueShare,
    claimable,
    count_start,
    retire,
    set_active,
    set_idle,
    set_unreachable,
)


def shares_of(*weights: int) -> list[QueueShare]:
    return [QueueShare(weight) for weight in weights]


def served(shares: list[QueueShare], rounds: int, slots: int) -> Counter[int]:
    """The slots of each queue after so many rounds, all of them having work."""
    given: Counter[int] = Counter()
    for _ in range(rounds):
        claimed = [claimable(at, shares, slots) for at in range(len(shares))]
        for at, number in enumerate(claimed):
            for _ in range(number):
                count_start(at, shares)
            given[at] += number
    return given


def test_in_strict_order_the_second_queue_waits_while_the_first_may_have_work() -> None:
    shares = shares_of(0, 0)

    assert (claimable(0, shares, 10), claimable(1, shares, 10)) == (10, 0)

    set_idle(0, shares)
    assert claimable(1, shares, 10) == 10

    set_active(0, shares)
    assert claimable(1, shares, 10) == 0


@pytest.mark.parametrize("slots", [1, 2, 7, 100])
def test_by_weight_each_queue_gets_its_share_for_any_number_of_slots(slots: int) -> None:
    given = served(shares_of(5, 1), 600 // slots + 1, slots)

    assert given[0] / given[1] == pytest.approx(5, rel=0.05)


def test_no_slot_is_reserved_for_a_queue_without_work() -> None:
    shares = shares_of(5, 1)

    set_idle(0, shares)

    assert claimable(1, shares, 10) == 10


def test_an_unused_share_is_not_carried_over() -> None:
    shares = shares_of(1, 1)
    set_idle(1, shares)
    for _ in range(50):
        count_start(0, shares)

    set_active(1, shares)

    assert (claimable(0, shares, 10), claimable(1, shares, 10)) == (5, 5)


def test_a_share_used_while_others_had_no_work_is_not_counted_later() -> None:
    shares = shares_of(1, 1)
    set_idle(0, shares)
    set_idle(1, shares)

    set_active(1, shares)

    assert shares[1].used == 0


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.floats(0, 50)), min_size=1, max_size=5),
    st.integers(0, 40),
)
def test_each_free_slot_is_assigned_exactly_once(
    queues: list[tuple[int, bool, float]], free: int
) -> None:
    shares = [QueueShare(*queue) for queue in queues]

    claimed = [claimable(at, shares, free) for at, share in enumerate(shares) if share.has_work]

    assert sum(claimed) == (free if claimed else 0)


def test_no_queue_waits_for_an_unreachable_queue_until_it_answers() -> None:
    shares = [QueueShare(), QueueShare()]

    set_unreachable(0, shares)
    set_active(0, shares)
    assert claimable(1, shares, free=4) == 4

    shares[0].reachable = True
    set_active(0, shares)
    assert claimable(1, shares, free=4) == 0


def test_no_queue_waits_for_a_retired_queue() -> None:
    queues = [QueueShare(), QueueShare()]

    retire(0, queues)
    set_active(0, queues)

    assert claimable(1, queues, free=3) == 3
