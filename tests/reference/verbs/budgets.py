"""The scripts of budgets, spoken by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.budgets.accounts import DAY
from rqueue.task.state import State
from tests.reference import claiming, money

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.verbs.words import Asked, Reply


def given(model: Model, asked: Asked) -> Reply:
    """Sets what an account may cost; who waited is answered."""
    micro_usd = asked.text("micro_usd")
    touched = money.set_budget(
        model,
        asked.text("account"),
        int(micro_usd) if micro_usd else None,
        afresh=asked.number("afresh") == 1,
    )
    if touched:
        claiming.answer(model, touched)
    return ["OK", 0]


def read(model: Model, _: Asked) -> Reply:
    """All accounts that have a ceiling, and the day's."""
    limited = [name for name, found in model.money.accounts.items() if found.ceiling is not None]
    unpaid = sum(record.unpaid for record in model.among(State.READY))
    return ["OK", unpaid, *(row_of(model, name) for name in sorted({DAY, *limited}))]


def row_of(model: Model, name: str) -> list[str | int]:
    """An account as the server tells of it."""
    found = money.account(model, name) or money.Account()
    ceiling = "" if found.ceiling is None else str(found.ceiling)
    reserved_now = money.reserved(model, name)
    return [name, ceiling, str(found.spent), str(reserved_now), int(name in model.money.short)]
