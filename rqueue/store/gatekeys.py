"""The keys of what stands between a READY task and a worker: pauses, breakers, limits, budgets."""

from __future__ import annotations

from abc import ABC, abstractmethod


class GateKeys(ABC):
    """A part of Keys."""

    __slots__ = ()

    @property
    @abstractmethod
    def root(self) -> str:
        """The prefix of every key."""

    def paused(self) -> str:
        """set: what is paused: `queue`, `type=<type>`, `lane=<number>`."""
        return f"{self.root}paused"

    def breaker(self, type: str) -> str:
        """hash: the breaker of a type: failures in a row, and of one that is not closed its state,
        since when and until when it is open, and its probe, `<task> <token>`.
        """
        return f"{self.root}breaker:{type}"

    def breakers(self) -> str:
        """set: the types whose breakers are not closed, or have failures to forget."""
        return f"{self.root}breakers"

    def slow(self, type: str) -> str:
        """hash: a type, or `@<key>`, that is slowed down: until when nothing of it is handed out,
        the span of that, and how many have passed in the step of the recovery after it.
        """
        return f"{self.root}slow:{type}"

    def slowed(self) -> str:
        """set: types and `@<key>` that are slowed down, or were and nobody has claimed since."""
        return f"{self.root}slowed"

    def limit(self, what: str) -> str:
        """hash: hundredth of the window -> tasks of a type that began in it, or of the queue for
        `*`; with `@<key>` behind, of those the tasks of a key. Expires when all are out of it.
        """
        return f"{self.root}limit:{what}"

    def crowded(self) -> str:
        """set: types, or `*`, of which somebody found as many in hand as may be."""
        return f"{self.root}crowded"

    def budget(self, account: str) -> str:
        """hash: an account, `day` or `worker=<name>`, in micro-USD: its ceiling, what was spent
        (with the day on which), and what is reserved for tasks in hand.
        """
        return f"{self.root}budget:{account}"

    def budgets(self) -> str:
        """set: the accounts that have a ceiling."""
        return f"{self.root}budgets"

    def short(self) -> str:
        """set: accounts, and DAGs, that could not pay something."""
        return f"{self.root}short"

    def unpaid(self, dag: str) -> str:
        """zset: READY tasks of a DAG that it could not pay, by price; not in their lanes."""
        return f"{self.root}unpaid:{dag}"

    def wakes(self) -> str:
        """zset: types, `*`, `@<key>`, lanes of keys and `$<account>`, by the time at which some may
        pass that may not now.
        """
        return f"{self.root}wakes"

    def types(self) -> str:
        """hash: number of a lane -> its type; written when it is first asked for."""
        return f"{self.root}types"
