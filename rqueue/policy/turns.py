"""Whose turn it is where several queues share the slots of one worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Turn:
    """How one queue stands: its weight, 0 in a strict order; whether it may have work; how far its
    turns have come, by tasks over weight; whether its server answers; and whether it claims no
    more.
    """

    weight: int = 0
    hungry: bool = True
    passed: float = 0.0
    reached: bool = True
    retired: bool = False


def room_of(mine: int, turns: Sequence[Turn], free: int, ahead: int = 0) -> int:
    """How many tasks the queue at `mine` may claim now: of the free slots as many as are its own,
    and `ahead` of them as many as it starts within a moment anyway.

    In a strict order none while one before it may have work. By weight each free slot goes to the
    queue whose turns have come least far, so that over time each gets tasks by its weight,
    whatever the number of slots, and nobody's share is kept free while it has nothing to do.
    """
    if not turns[mine].weight:
        waits = any(turn.hungry for turn in turns[:mine])
        return 0 if waits else free + ahead
    rivals = [at for at, turn in enumerate(turns) if turn.hungry or at == mine]
    if len(rivals) == 1:
        return free + ahead
    passed = {at: turns[at].passed for at in rivals}
    given = 0
    for _ in range(free):
        at = min(rivals, key=lambda one: (passed[one], one))
        passed[at] += 1 / turns[at].weight
        given += at == mine
    return given + ahead


def next_of(ready: Sequence[int], turns: Sequence[Turn]) -> int:
    """Which of the queues that have a task ready fills the next free slot."""
    return min(ready, key=lambda at: (turns[at].passed, at))


def take(mine: int, turns: Sequence[Turn]) -> None:
    """The queue at `mine` has filled a slot."""
    turn = turns[mine]
    if turn.weight:
        turn.passed += 1 / turn.weight


def rest(mine: int, turns: Sequence[Turn]) -> None:
    """The queue at `mine` has nothing to do."""
    turns[mine].hungry = False


def lose(mine: int, turns: Sequence[Turn]) -> None:
    """The server of the queue at `mine` does not answer: nobody waits for it until it does."""
    turns[mine].reached = False
    rest(mine, turns)


def retire(mine: int, turns: Sequence[Turn]) -> None:
    """The queue at `mine` claims no more: nobody waits for it again."""
    turns[mine].retired = True
    rest(mine, turns)


def wake(mine: int, turns: Sequence[Turn]) -> None:
    """The queue at `mine` may have work again. Turns that it did not take while it had nothing to
    do are not made up for: it would keep the others from theirs.
    """
    turn = turns[mine]
    if turn.hungry or not turn.reached or turn.retired:
        return
    others = [other.passed for at, other in enumerate(turns) if at != mine and other.hungry]
    turn.hungry, turn.passed = True, max([turn.passed, *([min(others)] if others else [])])
