"""The table of moves: every row as the design has it, and what it allows."""

from itertools import product

import pytest

from rqueue.task.state import (
    FINAL,
    LEASED,
    LIVE,
    MEANINGS,
    TRANSITIONS,
    WAITING,
    Move,
    State,
    row,
    states,
)

LEASED_STATES = "CLAIMED RUNNING VALIDATING"
# The design's table, word by word; the rows below it were decided since.
TABLE = {
    "submit": ("", "CREATED PENDING READY"),
    "spawn": ("", "PENDING READY"),
    "commit": ("CREATED", "PENDING READY"),
    "unblock": ("PENDING", "READY"),
    "claim": ("READY", "CLAIMED RUNNING"),
    "start": ("CLAIMED", "RUNNING"),
    "renew": (LEASED_STATES, ""),
    "validate": ("RUNNING", "VALIDATING"),
    "complete": ("RUNNING VALIDATING", "COMPLETED"),
    "fail": (LEASED_STATES, "FAILED RETRYING DEAD_LETTERED"),
    "promote": ("RETRYING PENDING", "READY"),
    "park": ("RUNNING VALIDATING", "RETRYING"),
    "suspend": ("RUNNING", "PENDING"),
    "release": (LEASED_STATES, "READY"),
    "hold": ("READY", "READY"),
    "unhold": ("READY", "READY"),
    "pause": ("READY", "READY"),
    "resume": ("READY", "READY"),
    "expire": ("PENDING READY RETRYING", "DEAD_LETTERED CANCELLED"),
    "cancel": (f"CREATED PENDING READY RETRYING {LEASED_STATES}", "CANCELLED"),
    "revive": ("DEAD_LETTERED", "READY PENDING"),
    "discard": ("DEAD_LETTERED", "CANCELLED"),
    "reap": (LEASED_STATES, "FAILED READY RETRYING DEAD_LETTERED"),
    "recall": ("CLAIMED RUNNING", "READY"),
    "run_now": ("RETRYING PENDING", "READY"),
    "reschedule": ("PENDING READY RETRYING", "PENDING RETRYING"),
}


def test_the_table_has_these_moves_and_no_other() -> None:
    assert set(TRANSITIONS) == set(TABLE)
    assert all(TRANSITIONS[verb].verb == verb for verb in TABLE)
    assert all(TRANSITIONS[verb].who for verb in TABLE)


@pytest.mark.parametrize("verb", TABLE)
def test_a_move_has_the_source_and_target_states_of_its_row(verb: str) -> None:
    sources, targets = TABLE[verb]

    assert TRANSITIONS[verb].sources == {State(word) for word in sources.split()}
    assert TRANSITIONS[verb].targets == {State(word) for word in targets.split()}


@pytest.mark.parametrize("verb", TABLE)
def test_a_move_allows_only_the_transitions_of_its_row(verb: str) -> None:
    sources, targets = (words.split() for words in TABLE[verb])

    for source, target in product([None, *State], State):
        begins = source in sources if source else not sources
        assert TRANSITIONS[verb].allows(source, target) is (begins and target in targets)


def test_only_submit_and_spawn_create_a_task() -> None:
    assert [verb for verb, move in TRANSITIONS.items() if move.creates] == ["submit", "spawn"]


def test_only_a_reviewers_moves_change_an_ended_task() -> None:
    left = {verb: move.sources & FINAL for verb, move in TRANSITIONS.items()}

    assert {verb: found for verb, found in left.items() if found} == {
        "revive": {State.DEAD_LETTERED},
        "discard": {State.DEAD_LETTERED},
    }


def test_every_state_but_failed_is_in_one_group() -> None:
    assert LIVE == LEASED | WAITING
    assert not LEASED & WAITING
    assert not LIVE & FINAL
    assert set(State) - {State.FAILED} == LIVE | FINAL


def test_every_state_has_a_meaning() -> None:
    assert set(MEANINGS) == set(State)
    assert all(MEANINGS.values())


def test_every_state_can_be_reached() -> None:
    reached = {target for move in TRANSITIONS.values() for target in move.targets}

    assert reached == set(State)


def test_every_live_state_can_be_cancelled() -> None:
    assert TRANSITIONS["cancel"].sources == LIVE


def test_a_row_is_given_as_words() -> None:
    assert row("submit", "-", "READY", "client") == Move(
        "submit", frozenset(), frozenset({State.READY}), "client"
    )
    assert states("READY CLAIMED") == {State.READY, State.CLAIMED}
    with pytest.raises(ValueError, match="SLEEPING"):
        states("SLEEPING")
