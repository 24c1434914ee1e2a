"""The move that returns why a task does not run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rqueue.budgets.accounts import DAY
from rqueue.task.state import State
from tests.reference import budgets, gates
from tests.reference.gates import capacity_of, opens_at
from tests.reference.records import TIME
from tests.reference.turns import ClaimTurns, LaneTurns, TenantSelection, by_tenant, update_turns

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply
    from tests.reference.records import LimitWords, Record
    from tests.reference.turns import TenantRules

Row = list[str]


def why(model: Model, call: Call) -> Reply:
    """All reasons why a task does not run now."""
    record = model.visible(call.text("task"))
    if record is None:
        return ["GONE"]
    number, _, type, exclusive, *rest = call.json("lane")
    limits, tenant_rules = (*rest, None, None)[:2]
    if record.lane != number:
        return ["LANES"]
    rows = held_by(record, call.number("limit"))
    if record.waiting:
        rows += gate_rows(model, record, type, [tuple(one) for one in limits or ()])
        if tenant_rules:
            rows += tenant_gate_rows(model, record, tenant_rules)
        rows += budget_rows(model, record)
    if exclusive and record.state is State.READY:
        until_ms, by = model.draining.get(number, (0, ""))
        rows.append(["alone", by if until_ms > model.now_ms else "", ""])
    if tenant_rules and tenant_rules["fair"] and record.state is State.READY:
        rows += turn_rows(model, record, tenant_rules)
    return ["OK", str(model.now_ms), record.state.value, *rows]


def held_by(record: Record, limit: int) -> list[Row]:
    """The reasons in its own state."""
    match record.state:
        case State.PENDING:
            return wait_rows(record, limit)
        case State.RETRYING:
            return [["time", record.reason, str(record.due_ms)]]
        case State.CLAIMED | State.RUNNING | State.VALIDATING:
            return [["worker", record.owner, ""]]
        case _:
            return []


def wait_rows(record: Record, limit: int) -> list[Row]:
    """The dependencies of a PENDING task."""
    others = sorted(record.waits - {TIME})
    rows = [["time", "", str(record.due_ms)]] if TIME in record.waits else []
    rows += [["dependency", parent, ""] for parent in others[:limit]]
    more = len(others) - limit
    return [*rows, ["dependencies", f"{more} more", ""]] if more > 0 else rows


def budget_rows(model: Model, record: Record) -> list[Row]:
    """The accounts that cannot pay for it now, and its price."""
    rows, price = [], record.price[0]
    graph = model.graph(record.dag)
    dag, day = budgets.dag_left(model, graph) if graph else None, budgets.left_of(model, DAY)
    if dag is not None and price > dag:
        rows.append(["budget", f"dag={record.dag}", ""])
    if day is not None and price > day:
        never = price > (model.money.accounts[DAY].ceiling or 0)
        tomorrow = str((model.now_ms // budgets.DAY_MS + 1) * budgets.DAY_MS)
        rows.append(["budget", DAY, "" if never else tomorrow])
    return [*rows, ["price", str(price), ""]] if price else rows


def gate_rows(model: Model, record: Record, type: str, limits: list[LimitWords]) -> list[Row]:
    """The closed gates of its lane."""
    rows: list[Row] = []
    graph = model.graph(record.dag)
    if graph is not None and (graph.paused or graph.closing):
        rows.append(["given up" if graph.closing else "paused", f"dag={record.dag}", ""])
    covered = ["queue", f"type={type}", f"lane={record.lane}"]
    rows += [["paused", what, ""] for what in covered if what in model.paused]
    breaker, slow = model.breakers.get(type), model.slowed.get(type)
    if breaker is not None and gates.breaker_capacity(model, type) < 1:
        rests = breaker.until_ms > model.now_ms
        until = str(breaker.until_ms) if rests else ""
        rows.append(["breaker", "open" if rests else "half-open", until])
    if slow is not None and gates.slowdown_capacity(model, type) < 1:
        rows.append(["slowed", type, str(slow.opens_ms(model.now_ms))])
    return rows + [["limit", limit[0], opens_of(model, limit)] for limit in limits
                   if capacity_of(model, limit) < 1]  # fmt: skip


def opens_of(model: Model, limit: LimitWords) -> str:
    """When a full limit opens, if that depends on time only."""
    opens = opens_at(model, limit)
    return "" if opens is None or opens == math.inf else f"{opens:.0f}"


def tenant_gate_rows(model: Model, record: Record, tenant_rules: TenantRules) -> list[Row]:
    """The closed gates of its tenant."""
    look = TenantSelection(model, record.lane, tenant_rules, (ClaimTurns(model), {}))
    used_up = [limit for limit in look.limits(record.tenant) if capacity_of(model, limit) < 1]
    rows = [["limit", limit[0], opens_of(model, limit)] for limit in used_up]
    what = f"@{record.tenant}"
    if what in model.slowed and gates.slowdown_capacity(model, what) < 1:
        rows.append(["slowed", what, str(model.slowed[what].opens_ms(model.now_ms))])
    return rows


def turn_rows(model: Model, record: Record, tenant_rules: TenantRules) -> list[Row]:
    """How many tasks of its lane have their turn before it."""
    update_turns(model)
    line, tasks = model.lane_turns.get(record.lane, LaneTurns()), by_tenant(model, record.lane)
    if record.tenant not in line.turns or record not in tasks.get(record.tenant, []):
        return []

    def places(key: str) -> list[tuple[int, str]]:
        step = tenant_rules["steps"].get(key, tenant_rules["step"])
        return [(line.turns[key] + step * at, key) for at in range(len(tasks[key]))]

    mine = places(record.tenant)[tasks[record.tenant].index(record)]
    return [["turn", str(sum(place < mine for key in line.turns for place in places(key))), ""]]
