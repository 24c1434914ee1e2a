"""Money: what tasks are expected to cost is set aside while they are in hand, and what they have
cost is kept with the accounts that pay it. What is set aside is read off the tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.budgets.accounts import DAY, WORKER
from rqueue.task.state import State
from tests.reference.records import Debt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.reference.model import Model
    from tests.reference.records import Graph, Record

DAY_MS = 86_400_000
# So many tasks return at a time.
BACK = 100


@dataclass(slots=True)
class Account:
    """What a day, or a worker, may cost and has cost; `day` is the one on which."""

    ceiling: int | None = None
    spent: int = 0
    day: int = 0


@dataclass(slots=True)
class Money:
    """The accounts of a shard, and those that could not pay something; whether the last claim was
    kept from something by its worker's own budget.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    short: set[str] = field(default_factory=set)
    poor: bool = False


def account(model: Model, name: str) -> Account | None:
    """An account; what was spent on another day counts no more."""
    found = model.money.accounts.get(name)
    if found is not None and name == DAY and found.day != model.now_ms // DAY_MS:
        found.day, found.spent = model.now_ms // DAY_MS, 0
    return found


def reserved(model: Model, name: str) -> int:
    """What is set aside with an account for tasks in hand."""
    return sum(max(0, record.reserved or 0) for record in model.in_hand() if name in payers(record))


def payers(record: Record) -> list[str]:
    """The accounts with which something is set aside for a task in hand."""
    own = [WORKER + record.owner] if record.own else []
    return [DAY, *own, *([record.dag] if record.dag else [])]


def left_of(model: Model, name: str) -> int | None:
    """What an account has left; None where it has no ceiling."""
    found = account(model, name)
    if found is None or found.ceiling is None:
        return None
    return found.ceiling - found.spent - reserved(model, name)


def dag_left(model: Model, graph: Graph) -> int | None:
    """What is left of the budget of a DAG; None where it has none."""
    if "budget" not in graph.facts:
        return None
    return int(graph.facts["budget"]) - graph.spent - reserved(model, graph.id)


# what may be handed out


class Till:
    """What the DAGs can pay within one call."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.left: dict[str, float] = {}

    def pays(self, record: Record) -> bool:
        """Whether the DAG of a task can pay it, after those before it."""
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
    """A READY task waits outside its lane until its DAG can pay it."""
    record.held = record.unpaid = True
    model.money.short.add(record.dag)


def reserve(model: Model, record: Record) -> None:
    """Sets aside what a task is expected to cost."""
    if record.price != (0, 0):
        record.reserved = record.price[0]
        record.own = WORKER + record.owner in model.money.accounts


# what comes back


def refunded(model: Model, record: Record) -> list[str]:
    """The accounts that could not pay something and get back what a task that leaves the hand has
    not spent.
    """
    if not record.in_hand or (record.reserved or 0) <= 0:
        return []
    return [name for name in payers(record) if name in model.money.short]


def leave_hand(model: Model, record: Record) -> None:
    """A task in hand leaves it, not completed: the promoter looks at who could not be paid."""
    for name in refunded(model, record):
        model.wakes[f"${name}"] = 0
    if record.in_hand:
        record.reserved, record.own = None, False
        drop_empty(model)


def drop_empty(model: Model) -> None:
    """An account of a worker that has neither a limit nor anything to tell is gone."""
    for name, found in list(model.money.accounts.items()):
        idle = found.ceiling is None and not found.spent and not reserved(model, name)
        if name.startswith(WORKER) and idle:
            del model.money.accounts[name]


def heed_refund(model: Model, name: str) -> set[int]:
    """An account has money again; the lanes of which something may be handed out."""
    if name == DAY or name.startswith(WORKER):
        model.money.short.discard(name)
        return set(model.lanes.values())
    touched, more = bring_back(model, name, BACK)
    if more:
        model.wakes[f"${name}"] = 0
    return touched


def bring_back(model: Model, dag: str, limit: int) -> tuple[set[int], bool]:
    """Puts back what a DAG can pay now, cheapest first; the lanes, and whether there is more."""
    graph, touched = model.dags.get(dag), set()
    left = dag_left(model, graph) if graph is not None else None
    room = math.inf if left is None else left
    brought: list[Record] = []
    for record in unpaid(model, dag):
        if len(brought) == limit or record.price[0] > room or room < 0:
            break
        room -= record.price[0]
        brought.append(record)
        record.unpaid = False
        record.held = graph is not None and bool(graph.paused or graph.closing)
        if not record.held:
            touched.add(record.lane)
    if not unpaid(model, dag):
        model.money.short.discard(dag)
    return touched, len(brought) == limit


def unpaid(model: Model, dag: str) -> list[Record]:
    """The tasks that a DAG could not pay, the cheapest first."""
    found = [r for r in model.among(State.READY) if r.unpaid and r.dag == dag]
    return sorted(found, key=lambda record: (record.price[0], record.id))


def look_at_short(model: Model) -> None:
    """What a DAG can pay after all is to return; one that has nothing to pay is short no more."""
    for name in sorted(model.money.short & model.dags.keys()):
        waiting, left = unpaid(model, name), dag_left(model, model.dags[name])
        if not waiting:
            model.money.short.discard(name)
        elif left is None or waiting[0].price[0] <= left:
            model.wakes[f"${name}"] = 0


def leave_unpaid(model: Model, record: Record) -> None:
    """A task waits for money no more; the last of a DAG means that it is short no more."""
    if record.unpaid:
        record.unpaid = False
        if not unpaid(model, record.dag):
            model.money.short.discard(record.dag)


def heed_refunds(model: Model, names: Iterable[str]) -> set[int]:
    """What several accounts that have money again mean."""
    return {lane for name in dict.fromkeys(names) for lane in heed_refund(model, name)}


# what is spent


def spend(model: Model, record: Record, owner: str, micro_usd: int, *, late: bool = False) -> None:
    """Adds what a run has cost to all that pay it; what was set aside is used up first."""
    if not late:
        record.reserved = (record.reserved or 0) - micro_usd
    day = model.money.accounts.setdefault(DAY, Account())
    account(model, DAY)
    day.spent += micro_usd
    if WORKER + owner in model.money.accounts:
        model.money.accounts[WORKER + owner].spent += micro_usd
    if record.dag:
        model.dags[record.dag].spent += micro_usd


def owe(record: Record) -> None:
    """A run has lost its lease: it may still say once what it has cost."""
    token, seq = record.notes.noted
    last = seq if token == record.token else 0
    record.owed = [Debt(record.token, last, record.owner), *record.owed][:10]


def is_overrun(model: Model, record: Record) -> bool:
    """Whether a run has to end for what it costs."""
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
    """Sets what an account may cost; the lanes of which something may be handed out now."""
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
