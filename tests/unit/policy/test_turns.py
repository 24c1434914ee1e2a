"""Turns: strict order, shares by weight, and nothing kept free for who has nothing to do."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.policy.turns import Turn, lose, rest, retire, room_of, take, wake


def turns_of(*weights: int) -> list[Turn]:
    return [Turn(weight) for weight in weights]


def served(turns: list[Turn], rounds: int, slots: int) -> Counter[int]:
    """What each queue was given in so many rounds of free slots, all of them having work."""
    given: Counter[int] = Counter()
    for _ in range(rounds):
        rooms = [room_of(at, turns, slots) for at in range(len(turns))]
        for at, room in enumerate(rooms):
            for _ in range(room):
                take(at, turns)
            given[at] += room
    return given


def test_in_a_strict_order_the_second_waits_while_the_first_may_have_work() -> None:
    turns = turns_of(0, 0)

    assert (room_of(0, turns, 10), room_of(1, turns, 10)) == (10, 0)

    rest(0, turns)
    assert room_of(1, turns, 10) == 10

    wake(0, turns)
    assert room_of(1, turns, 10) == 0


@pytest.mark.parametrize("slots", [1, 2, 7, 100])
def test_by_weight_each_gets_its_share_whatever_the_slots(slots: int) -> None:
    given = served(turns_of(5, 1), 600 // slots + 1, slots)

    assert given[0] / given[1] == pytest.approx(5, rel=0.05)


def test_nothing_is_kept_free_for_who_has_nothing_to_do() -> None:
    turns = turns_of(5, 1)

    rest(0, turns)

    assert room_of(1, turns, 10) == 10


def test_turns_that_were_not_taken_are_not_made_up_for() -> None:
    turns = turns_of(1, 1)
    rest(1, turns)
    for _ in range(50):
        take(0, turns)

    wake(1, turns)

    assert (room_of(0, turns, 10), room_of(1, turns, 10)) == (5, 5)


def test_a_first_turn_alone_is_no_debt() -> None:
    turns = turns_of(1, 1)
    rest(0, turns)
    rest(1, turns)

    wake(1, turns)

    assert turns[1].passed == 0


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.floats(0, 50)), min_size=1, max_size=5),
    st.integers(0, 40),
)
def test_no_free_slot_is_given_twice_or_kept(
    queues: list[tuple[int, bool, float]], free: int
) -> None:
    turns = [Turn(*queue) for queue in queues]

    rooms = [room_of(at, turns, free) for at, turn in enumerate(turns) if turn.hungry]

    assert sum(rooms) == (free if rooms else 0)


def test_a_queue_out_of_reach_is_not_waited_for_until_it_answers() -> None:
    turns = [Turn(), Turn()]

    lose(0, turns)
    wake(0, turns)
    assert room_of(1, turns, free=4) == 4

    turns[0].reached = True
    wake(0, turns)
    assert room_of(1, turns, free=4) == 0


def test_one_that_claims_no_more_is_waited_for_never_again() -> None:
    queues = [Turn(), Turn()]

    retire(0, queues)
    wake(0, queues)

    assert room_of(1, queues, free=3) == 3
