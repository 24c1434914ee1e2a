"""`queue.budgets`: the budget accounts of a queue's day and of its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.core.counts import answer_all
from rqueue.producer import arguments
from rqueue.store.replies import ok, text
from rqueue.store.shard import TRIES
from rqueue.task.fields import MICRO, micro_usd

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


DAY = "day"
WORKER = "worker="


@dataclass(frozen=True, slots=True)
class Budget:
    """An account in dollars: `day` or `worker=<name>`. `reserved_usd` is reserved for leased tasks.
    `short` means that a task recently exceeded what remained. Without a ceiling the account is
    unlimited.
    """

    account: str
    ceiling_usd: float | None = None
    spent_usd: float = 0.0
    reserved_usd: float = 0.0
    short: bool = False

    @property
    def remaining_usd(self) -> float | None:
        """What can still be reserved; negative if the account is overdrawn."""
        if self.ceiling_usd is None:
            return None
        # Rounded to millionths, the unit of the server: a float error must not show less.
        return round(self.ceiling_usd - self.spent_usd - self.reserved_usd, 6)

    @property
    def worker(self) -> str | None:
        """The name of the account's worker; None for the account of the day."""
        return self.account.removeprefix(WORKER) if self.account.startswith(WORKER) else None


@dataclass(frozen=True, slots=True)
class Budgets:
    """All accounts of a queue, and how many READY tasks exceed the budget of their DAG."""

    accounts: tuple[Budget, ...] = ()
    unpaid: int = 0

    @property
    def day(self) -> Budget:
        """The account of the queue's day."""
        return next((one for one in self.accounts if one.account == DAY), Budget(DAY))

    def of_worker(self, name: str) -> Budget | None:
        """Returns the account of a worker, or None."""
        return next((one for one in self.accounts if one.worker == name), None)


async def set_budget(
    shard: Shard, account: str, usd: float | None, *, afresh: bool = False
) -> None:
    """Sets a ceiling, None for no limit, and answers waiting claims. `afresh` resets the spent
    amount.
    """
    args: dict[str, Argument] = {
        "account": account,
        "micro_usd": "" if usd is None else micro_usd(usd),
        "afresh": int(afresh),
        "tries": TRIES,
        **shard.request_args(),
    }
    (more,) = ok("budget/set", account, await shard.run("budget/set", args))
    if int(more):
        await answer_all(shard)


async def budgets(shard: Shard) -> Budgets:
    """Returns all accounts with their current amounts."""
    unpaid, *rows = ok("budget/read", "", await shard.run("budget/read"))
    return Budgets(tuple(budget_of(row) for row in rows), int(unpaid))


def budget_of(row: list[bytes]) -> Budget:
    """Returns the account in one row of the move's reply."""
    account, ceiling, spent, reserved, short = map(text, row)
    return Budget(
        account,
        int(ceiling) / MICRO if ceiling else None,
        int(spent) / MICRO,
        int(reserved) / MICRO,
        short=short == "1",
    )


class QueueBudgets:
    """`queue.budgets`. `queue.dags.set_budget` sets the budget of a DAG."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    async def list(self) -> Budgets:
        """Returns the accounts of the day and of the workers that have a budget."""
        return await budgets(self._shard)

    async def set(
        self, usd: float | None, *, worker: str | None = None, afresh: bool = False
    ) -> None:
        """Sets the budget of each day, or the total budget of a worker name; None for no limit.
        `afresh` resets the spent amount. Answers waiting claims.
        """
        name = None if worker is None else arguments.label_of("worker", worker)
        account = DAY if name is None else f"{WORKER}{name}"
        ceiling = arguments.usd_of("usd", usd)
        await set_budget(self._shard, account, ceiling, afresh=afresh)
