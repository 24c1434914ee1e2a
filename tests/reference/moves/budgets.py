"""The moves of budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.budgets.accounts import DAY
from rqueue.task.state import State
from tests.reference import budgets, claiming

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply


def given(model: Model, call: Call) -> Reply:
    """Sets the ceiling of an account and answers waiting claims."""
    micro_usd = call.text("micro_usd")
    touched = budgets.set_budget(
        model,
        call.text("account"),
        int(micro_usd) if micro_usd else None,
        afresh=call.number("afresh") == 1,
    )
    if touched:
        claiming.answer(model, touched)
    return ["OK", 0]


def read(model: Model, _: Call) -> Reply:
    """All accounts with a ceiling, and the day's."""
    limited = [name for name, found in model.money.accounts.items() if found.ceiling is not None]
    unpaid = sum(record.unpaid for record in model.among(State.READY))
    return ["OK", unpaid, *(row_of(model, name) for name in sorted({DAY, *limited}))]


def row_of(model: Model, name: str) -> list[str | int]:
    """An account in the server's format."""
    found = budgets.account(model, name) or budgets.Account()
    ceiling = "" if found.ceiling is None else str(found.ceiling)
    reserved_now = budgets.reserved(model, name)
    return [name, ceiling, str(found.spent), str(reserved_now), int(name in model.money.short)]
