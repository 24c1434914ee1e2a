"""Budgets: what the day of a queue, or a worker by its name, may cost."""

from __future__ import annotations

from dataclasses import dataclass

DAY = "day"
WORKER = "worker="


@dataclass(frozen=True, slots=True)
class Budget:
    """An account in dollars: `day` or `worker=<name>`. `reserved` is set aside for tasks in hand;
    `short` is whether it could not pay something lately. Without a ceiling it pays anything.
    """

    account: str
    ceiling_usd: float | None = None
    spent_usd: float = 0.0
    reserved_usd: float = 0.0
    short: bool = False

    @property
    def remaining_usd(self) -> float | None:
        """What can still be handed out; below 0 where it is overdrawn."""
        if self.ceiling_usd is None:
            return None
        # To the millionth, as the server counts: what is just enough must not look like less.
        return round(self.ceiling_usd - self.spent_usd - self.reserved_usd, 6)

    @property
    def worker(self) -> str | None:
        """The worker whose account it is."""
        return self.account.removeprefix(WORKER) if self.account.startswith(WORKER) else None


@dataclass(frozen=True, slots=True)
class Budgets:
    """All accounts of a queue, and how many READY tasks their DAGs cannot pay."""

    accounts: tuple[Budget, ...] = ()
    unpaid: int = 0

    @property
    def day(self) -> Budget:
        """The account of the queue's day."""
        return next((one for one in self.accounts if one.account == DAY), Budget(DAY))

    def of_worker(self, name: str) -> Budget | None:
        """The account of a worker, if it has one."""
        return next((one for one in self.accounts if one.worker == name), None)
