"""The budgets that an operator reads and sets at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.budgets import accounts
from rqueue.producer import arguments

if TYPE_CHECKING:
    from rqueue.budgets.accounts import Budgets
    from rqueue.store.shard import Shard


class QueueBudgets:
    """`queue.budgets`. `queue.dags.set_budget` sets the budget of a DAG."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    async def list(self) -> Budgets:
        """Returns the accounts of the day and of the workers that have a budget."""
        return await accounts.budgets(self._shard)

    async def set(
        self, usd: float | None, *, worker: str | None = None, afresh: bool = False
    ) -> None:
        """Sets the budget of each day, or the total budget of a worker name; None for no limit.
        `afresh` resets the spent amount. Answers waiting claims.
        """
        name = None if worker is None else arguments.label_of("worker", worker)
        account = accounts.DAY if name is None else f"{accounts.WORKER}{name}"
        ceiling = arguments.usd_of("usd", usd)
        await accounts.set_budget(self._shard, account, ceiling, afresh=afresh)
