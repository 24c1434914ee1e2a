"""The state machine: one row per move, the only source of which transitions are allowed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """A task's state; stored as one field of its hash, never inferred."""

    CREATED = "CREATED"
    PENDING = "PENDING"
    READY = "READY"
    CLAIMED = "CLAIMED"
    RUNNING = "RUNNING"
    VALIDATING = "VALIDATING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    RETRYING = "RETRYING"
    DEAD_LETTERED = "DEAD_LETTERED"
    CANCELLED = "CANCELLED"


MEANINGS = {
    State.CREATED: "written as part of a DAG that is not committed yet",
    State.PENDING: "waits for its dependencies or its time",
    State.READY: "may be claimed",
    State.CLAIMED: "leased by a worker that has not started it",
    State.RUNNING: "leased by a worker that executes it",
    State.VALIDATING: "leased; its output is being checked",
    State.COMPLETED: "completed, its output is stored",
    State.FAILED: "passed through when an attempt fails; kept as attempt record and event",
    State.RETRYING: "waits for its next attempt",
    State.DEAD_LETTERED: "dead: not retried, waits for a review",
    State.CANCELLED: "cancelled, it has no output",
}

LEASED = frozenset({State.CLAIMED, State.RUNNING, State.VALIDATING})
WAITING = frozenset({State.CREATED, State.PENDING, State.READY, State.RETRYING})
FINAL = frozenset({State.COMPLETED, State.DEAD_LETTERED, State.CANCELLED})
LIVE = LEASED | WAITING


@dataclass(frozen=True, slots=True)
class Move:
    """One verb: its source states, its target states, and who makes it."""

    verb: str
    sources: frozenset[State]
    targets: frozenset[State]
    who: str

    @property
    def creates(self) -> bool:
        """Whether the move creates the task."""
        return not self.sources

    def allows(self, source: State | None, target: State) -> bool:
        """Whether the table has this transition."""
        found = source in self.sources if source is not None else self.creates
        return found and target in self.targets


def row(verb: str, sources: str, targets: str, who: str) -> Move:
    """A row of the table; states are words, `-` is none."""
    return Move(verb, states(sources), states(targets), who)


def states(words: str) -> frozenset[State]:
    """The states named in a text such as `READY CLAIMED`, or none for `-`."""
    return frozenset(State(word) for word in words.split() if word != "-")


LEASED_STATES = "CLAIMED RUNNING VALIDATING"

TRANSITIONS: dict[str, Move] = {
    move.verb: move
    for move in (
        row("submit", "-", "CREATED PENDING READY", "client"),
        row("spawn", "-", "PENDING READY", "worker: a task that runs adds others to its DAG"),
        row("commit", "CREATED", "PENDING READY", "client, last step of a DAG submitted in parts"),
        row("unblock", "PENDING", "READY", "the last dependency is met, or its time has come"),
        row("claim", "READY", "CLAIMED RUNNING", "worker; claim and start may be one call"),
        row("start", "CLAIMED", "RUNNING", "worker"),
        row("renew", LEASED_STATES, "-", "worker"),
        row("validate", "RUNNING", "VALIDATING", "worker"),
        row("complete", "RUNNING VALIDATING", "COMPLETED", "worker"),
        row("fail", LEASED_STATES, "FAILED RETRYING DEAD_LETTERED", "worker, timeout, validator"),
        row(
            "reap",
            LEASED_STATES,
            "FAILED READY RETRYING DEAD_LETTERED",
            "reaper, for a lost worker",
        ),
        row("promote", "RETRYING PENDING", "READY", "promoter, when the time has come"),
        row("run_now", "RETRYING PENDING", "READY", "operator: its time is now"),
        row("park", "RUNNING VALIDATING", "RETRYING", "worker: rate limit, no attempt is spent"),
        row("suspend", "RUNNING", "PENDING", "worker: waits for its subtasks, no attempt is spent"),
        row(
            "release",
            LEASED_STATES,
            "READY",
            "worker: drain, or a delivery not started; no attempt",
        ),
        row("recall", "CLAIMED RUNNING", "READY", "promoter: a delivery not confirmed; no attempt"),
        row("reschedule", "PENDING READY RETRYING", "PENDING RETRYING", "operator"),
        row("hold", "READY", "READY", "claim: exceeds a budget, or its DAG is paused"),
        row("unhold", "READY", "READY", "call that makes money available, or resumes the DAG"),
        row("pause", "READY", "READY", "operator: nothing of the queue, type or DAG is claimed"),
        row("resume", "READY", "READY", "operator: ends a pause"),
        row("expire", "PENDING READY RETRYING", "DEAD_LETTERED CANCELLED", "promoter"),
        row(
            "cancel",
            "CREATED PENDING READY RETRYING " + LEASED_STATES,
            "CANCELLED",
            "any user with the right",
        ),
        row("revive", "DEAD_LETTERED", "READY PENDING", "reviewer"),
        row("discard", "DEAD_LETTERED", "CANCELLED", "reviewer"),
    )
}
