"""Views of budgets, of the server and of the model."""

from __future__ import annotations

from typing import Any

from rqueue.budgets.accounts import DAY
from rqueue.task.state import LEASED, State
from tests.machine.server_shard import Dump
from tests.reference import budgets
from tests.reference.model import Model
from tests.reference.records import Record

# Fields of a DAG's hash for its budget, which are compared with the accounts.
BUDGET_FIELDS = ("reserved", "told")


def server_budgets(dump: Dump) -> dict[str, Any]:
    """The accounts, those in shortage, and unpaid tasks."""
    found = {name: account_row(row) for name, row in dump.named("budget:").items()}
    found |= {
        dag: {"ceiling": row.get("budget", ""), "spent": row.get("spent", "0"),
              "reserved": row.get("reserved", "0")}
        for dag, row in dump.named("dag:").items()
    }  # fmt: skip
    return {
        "accounts": {name: row for name, row in found.items() if is_compared(name, row)},
        "budgets": dump.content.get("budgets", set()),
        "short": dump.content.get("short", set()),
        "unpaid": {dag: list(tasks) for dag, tasks in dump.named("unpaid:").items()},
    }


def account_row(row: dict[str, str]) -> dict[str, str]:
    """The compared fields of an account."""
    return {
        "ceiling": row.get("ceiling", ""),
        "spent": row.get("spent", "0"),
        "reserved": row.get("reserved", "0"),
    }


def is_compared(name: str, row: dict[str, str]) -> bool:
    """Whether an account is compared: always for a worker's, others if they are not empty."""
    return name.startswith("worker=") or row != {"ceiling": "", "spent": "0", "reserved": "0"}


def model_budgets(model: Model) -> dict[str, Any]:
    """The same of the model, with reservations recounted from leased tasks."""
    found: dict[str, dict[str, str]] = {}
    for name in {DAY, *model.money.accounts}:
        account = budgets.account(model, name) or budgets.Account()
        ceiling = "" if account.ceiling is None else str(account.ceiling)
        reserved = str(budgets.reserved(model, name))
        found[name] = {"ceiling": ceiling, "spent": str(account.spent), "reserved": reserved}
    for dag, graph in model.dags.items():
        reserved = str(budgets.reserved(model, dag))
        ceiling = graph.facts.get("budget", "")
        found[dag] = {"ceiling": ceiling, "spent": str(graph.spent), "reserved": reserved}
    waiting = {record.dag for record in model.among(State.READY) if record.unpaid}
    return {
        "accounts": {name: row for name, row in found.items() if is_compared(name, row)},
        "budgets": {n for n, one in model.money.accounts.items() if one.ceiling is not None},
        "short": set(model.money.short),
        "unpaid": {dag: [record.id for record in budgets.unpaid(model, dag)] for dag in waiting},
    }


def server_price(dump: Dump, task: str, found: dict[str, str]) -> dict[str, Any]:
    """Price, cost and reservation of a task."""
    reserved = found.get("reserved", "") if found["state"] in LEASED else ""
    owed = [line.split(" ")[:2] for line in found.get("owed", "").splitlines()]
    notes = dump.content.get(f"notes:{task}", {})
    return {
        "price": found.get("price", "0:0"),
        "reserved": reserved,
        "cost": int(notes.get("micro_usd", 0)),
        "tokens": int(notes.get("tokens_in", 0)),
        "before": int(notes.get("before", 0)),
        "late": int(notes.get("late", 0)),
        "owed": [(token, int(seq.partition("*")[2] or 0)) for token, seq in owed],
    }


def model_price(record: Record) -> dict[str, Any]:
    """The same of the model's task."""
    own = f" {record.owner}" if record.own else ""
    reserved = "" if record.reserved is None else f"{record.reserved}{own}"
    return {
        "price": "{}:{}".format(*record.price),
        "reserved": reserved if record.leased else "",
        "cost": record.notes.micro_usd,
        "tokens": record.notes.tokens_in,
        "before": record.notes.before,
        "late": record.notes.late,
        "owed": [(debt.token, debt.past) for debt in record.owed],
    }
