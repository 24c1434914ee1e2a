"""Budgets: the estimated cost of a leased task is reserved on its accounts, the reported cost is
added to what they have spent. Reservations follow from the tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.budgets.accounts import DAY, WORKER
from rqueue.task.state import State
from tests.reference.records import LateReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rqueue.task.lane import Lane
    from tests.reference.model import Model
    from tests.reference.records import Graph, Record


DAY_MS = 86_400_000
# Tasks that one call readmits at most.
READMIT_LIMIT = 100


@dataclass(slots=True)
class Account:
    """The ceiling and the spending of the day or of a worker; `day` is the day of `spent`."""

    ceiling: int | None = None
    spent: int = 0
    day: int = 0


@dataclass(slots=True)
class Money:
    """The accounts of a shard, those that could not pay for a task, and whether the last claim
    skipped a task because of its worker's own budget.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    short: set[str] = field(default_factory=set)
    worker_short: bool = False


def account(model: Model, name: str) -> Account | None:
    """Returns an account. Spending of the day account is reset when the day changes."""
    found = model.money.accounts.get(name)
    if found is not None and name == DAY and found.day != model.now_ms // DAY_MS:
        found.day, found.spent = model.now_ms // DAY_MS, 0
    return found


def reserved(model: Model, name: str) -> int:
    """The sum of the reservations on an account for leased tasks."""
    return sum(max(0, record.reserved or 0) for record in model.leased() if name in payers(record))


def payers(record: Record) -> list[str]:
    """The accounts on which a leased task has a reservation."""
    own = [WORKER + record.owner] if record.own else []
    return [DAY, *own, *([record.dag] if record.dag else [])]


def left_of(model: Model, name: str) -> int | None:
    """The remaining budget of an account; None without a ceiling."""
    found = account(model, name)
    if found is None or found.ceiling is None:
        return None
    return found.ceiling - found.spent - reserved(model, name)


def dag_left(model: Model, graph: Graph) -> int | None:
    """The remaining budget of a DAG; None without one."""
    if "budget" not in graph.facts:
        return None
    return int(graph.facts["budget"]) - graph.spent - reserved(model, graph.id)


# reservations


class DagFunds:
    """The remaining budgets of DAGs within one call."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.left: dict[str, float] = {}

    def pays(self, record: Record) -> bool:
        """Whether the DAG of a task can pay for it, after the tasks before it."""
        graph = self.model.dags.get(record.dag)
        if graph is None:
            return True
        if graph.id not in self.left:
            found = dag_left(self.model, graph)
            self.left[graph.id] = math.inf if found is None else found
        if record.price[0] > self.left[graph.id]:
            return False
        self.left[graph.id] -= record.price[0]
        return True


def hold_unpaid(model: Model, record: Record) -> None:
    """Moves a READY task out of its lane until its DAG can pay for it."""
    record.held = record.unpaid = True
    model.money.short.add(record.dag)


def reserve(model: Model, record: Record) -> None:
    """Reserves the estimated cost of a task."""
    if record.price != (0, 0):
        record.reserved = record.price[0]
        record.own = WORKER + record.owner in model.money.accounts


# refunds


def refunded(model: Model, record: Record) -> list[str]:
    """The accounts in shortage that get a refund when a task leaves its lease."""
    if not record.leased or (record.reserved or 0) <= 0:
        return []
    return [name for name in payers(record) if name in model.money.short]


def release_reservation(model: Model, record: Record) -> None:
    """Releases the reservation of a task that leaves its lease without a completion; the promoter
    checks who can be paid then.
    """
    for name in refunded(model, record):
        model.wakes[f"${name}"] = 0
    if record.leased:
        record.reserved, record.own = None, False
        drop_idle_accounts(model)


def drop_idle_accounts(model: Model) -> None:
    """Removes accounts of workers without ceiling, spending and reservations."""
    for name, found in list(model.money.accounts.items()):
        idle = found.ceiling is None and not found.spent and not reserved(model, name)
        if name.startswith(WORKER) and idle:
            del model.money.accounts[name]


def apply_refund(model: Model, name: str) -> set[int]:
    """An account has budget again. Returns the lanes that may be served now."""
    if name == DAY or name.startswith(WORKER):
        model.money.short.discard(name)
        return set(model.lanes.values())
    touched, more = readmit(model, name, READMIT_LIMIT)
    if more:
        model.wakes[f"${name}"] = 0
    return touched


def readmit(model: Model, dag: str, limit: int) -> tuple[set[int], bool]:
    """Readmits unpaid tasks that a DAG can pay for, cheapest first. Returns their lanes, and
    whether more may follow.
    """
    graph, touched = model.dags.get(dag), set()
    left = dag_left(model, graph) if graph is not None else None
    available = math.inf if left is None else left
    readmitted: list[Record] = []
    for record in unpaid(model, dag):
        if len(readmitted) == limit or record.price[0] > available or available < 0:
            break
        available -= record.price[0]
        readmitted.append(record)
        record.unpaid = False
        record.held = graph is not None and bool(graph.paused or graph.closing)
        if not record.held:
            touched.add(record.lane)
    if not unpaid(model, dag):
        model.money.short.discard(dag)
    return touched, len(readmitted) == limit


def unpaid(model: Model, dag: str) -> list[Record]:
    """The tasks that a DAG could not pay for, cheapest first."""
    found = [r for r in model.among(State.READY) if r.unpaid and r.dag == dag]
    return sorted(found, key=lambda record: (record.price[0], record.id))


def recheck_short(model: Model) -> None:
    """Wakes DAGs that can pay for a task again; ends the shortage of those without unpaid tasks."""
    for name in sorted(model.money.short & model.dags.keys()):
        waiting, left = unpaid(model, name), dag_left(model, model.dags[name])
        if not waiting:
            model.money.short.discard(name)
        elif left is None or waiting[0].price[0] <= left:
            model.wakes[f"${name}"] = 0


def leave_unpaid(model: Model, record: Record) -> None:
    """Ends the wait of a task for budget; the last one of a DAG ends its shortage."""
    if record.unpaid:
        record.unpaid = False
        if not unpaid(model, record.dag):
            model.money.short.discard(record.dag)


def apply_refunds(model: Model, names: Iterable[str]) -> set[int]:
    """`apply_refund` of several accounts."""
    return {lane for name in dict.fromkeys(names) for lane in apply_refund(model, name)}


# spending


def spend(model: Model, record: Record, owner: str, micro_usd: int, *, late: bool = False) -> None:
    """Adds the cost of an attempt to its accounts; its reservation is used first."""
    if not late:
        record.reserved = (record.reserved or 0) - micro_usd
    day = model.money.accounts.setdefault(DAY, Account())
    account(model, DAY)
    day.spent += micro_usd
    if WORKER + owner in model.money.accounts:
        model.money.accounts[WORKER + owner].spent += micro_usd
    if record.dag:
        model.dags[record.dag].spent += micro_usd


def allow_late_report(record: Record) -> None:
    """Allows an attempt that lost its lease one more report of its cost."""
    token, seq = record.notes.last_note
    last = seq if token == record.token else 0
    record.owed = [LateReport(record.token, last, record.owner), *record.owed][:10]


def is_overrun(model: Model, record: Record) -> bool:
    """Whether an attempt must end because of its cost."""
    most = record.price[1]
    if most and record.notes.micro_usd - record.notes.before > most:
        return True
    if (record.reserved or 0) >= 0:
        return False
    graph = model.dags.get(record.dag)
    lefts: Sequence[int | None] = (
        left_of(model, DAY),
        left_of(model, WORKER + record.owner),
        None if graph is None else dag_left(model, graph),
    )
    return any(left is not None and left < 0 for left in lefts)


def set_budget(model: Model, name: str, ceiling: int | None, *, afresh: bool) -> set[int]:
    """Sets the ceiling of an account. Returns the lanes that may be served now."""
    spared = reserved(model, name)
    found = model.money.accounts.setdefault(name, Account(day=model.now_ms // DAY_MS))
    account(model, name)
    found.ceiling = ceiling
    if afresh:
        found.spent = 0
    if ceiling is None and name != DAY and not spared and not found.spent:
        del model.money.accounts[name]
    if name not in model.money.short:
        return set()
    model.money.short.discard(name)
    model.wakes.pop(f"${name}", None)
    return set(model.lanes.values())


# Unaffordable heads of a lane after which the lane is skipped.
MAX_UNAFFORDABLE = 100


@dataclass(slots=True)
class WorkerFunds:
    """What a worker can pay now, by the tighter one of two accounts."""

    left: float
    account: str
    tight: bool = False
    short: bool = False


def worker_funds(model: Model, consumer: str) -> WorkerFunds | None:
    """What a worker can pay now; None if no account limits it."""
    if not any(one.ceiling is not None for one in model.money.accounts.values()):
        return None
    found = [(left_of(model, name), name) for name in (WORKER + consumer, DAY)]
    bounds = [(left, name) for left, name in found if left is not None]
    if not bounds:
        return None
    left, name = min(bounds, key=lambda pair: pair[0])
    return WorkerFunds(left, name)


def mark_short(model: Model, funds: WorkerFunds) -> None:
    """Records that the account could not pay for a task."""
    funds.short = True
    model.money.short.add(funds.account)
    if funds.account == DAY:
        midnight = (model.now_ms // DAY_MS + 1) * DAY_MS
        model.wakes["$day"] = min(midnight, model.wakes.get("$day", midnight))


def affordable(model: Model, funds: WorkerFunds, lanes: dict[int, Lane], n: int) -> dict[int, Lane]:
    """The lanes with affordable tasks; `tight` is set where not all of their tasks may be
    affordable.
    """
    found = {}
    for number, lane in lanes.items():
        if funds.left < (2 ** (lane.cost - 1) if lane.cost else 0):
            # An empty lane does not cause a shortage.
            if model.lane(number):
                mark_short(model, funds)
            continue
        funds.tight = funds.tight or bool(lane.cost and n * 2**lane.cost > funds.left)
        found[number] = lane
    return found
