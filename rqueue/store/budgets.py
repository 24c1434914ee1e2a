"""The accounts of a shard: what its day and its workers may cost, and have cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.model.budget import Budget, Budgets
from rqueue.model.money import MICRO, micro_usd
from rqueue.store.queue import answer_all
from rqueue.store.replies import ok, text
from rqueue.store.shard import TRIES

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard


async def set_budget(
    shard: Shard,
    account: str,
    usd: float | None,
    *,
    afresh: bool = False,
) -> None:
    """Sets a ceiling, None for none, and answers who waited for it; `afresh` forgets what was
    spent.
    """
    args: dict[str, Argument] = {
        "account": account,
        "micro_usd": "" if usd is None else micro_usd(usd),
        "afresh": int(afresh),
        "tries": TRIES,
        **shard.by_hand(),
    }
    (more,) = ok("budget/set", account, await shard.run("budget/set", args))
    if int(more):
        await answer_all(shard)


async def budgets(shard: Shard) -> Budgets:
    """All accounts as they are now."""
    unpaid, *rows = ok("budget/read", "", await shard.run("budget/read"))
    return Budgets(tuple(budget_of(row) for row in rows), int(unpaid))


def budget_of(row: list[bytes]) -> Budget:
    """An account as the script tells of it."""
    account, ceiling, spent, reserved, short = map(text, row)
    return Budget(
        account,
        int(ceiling) / MICRO if ceiling else None,
        int(spent) / MICRO,
        int(reserved) / MICRO,
        short=short == "1",
    )
