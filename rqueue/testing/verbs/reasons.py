"""Why a task does not run yet, spoken by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.model.budget import DAY
from rqueue.model.state import State
from rqueue.testing import gating, money
from rqueue.testing.limits import room
from rqueue.testing.records import TIME

if TYPE_CHECKING:
    from rqueue.testing.model import Model
    from rqueue.testing.records import LimitWords, Record
    from rqueue.testing.verbs.words import Asked, Reply

Row = list[str]


def why(model: Model, asked: Asked) -> Reply:
    """All that holds a task back now."""
    record = model.seen(asked.text("task"))
    if record is None:
        return ["GONE"]
    number, _, type, _, *limits = asked.json("lane")
    if record.lane != number:
        return ["LANES"]
    rows: list[Row] = []
    match record.state:
        case State.PENDING:
            rows = waits(record, asked.number("limit"))
        case State.RETRYING:
            rows = [["time", record.reason, str(record.due_ms)]]
        case State.CLAIMED | State.RUNNING | State.VALIDATING:
            rows = [["worker", record.owner, ""]]
    if record.waiting:
        before = [tuple(one) for one in limits[0] or ()] if limits else []
        rows += gates(model, record, type, before) + budgets(model, record)
    return ["OK", str(model.now_ms), record.state.value, *rows]


def waits(record: Record, limit: int) -> list[Row]:
    """What a PENDING task waits for."""
    others = sorted(record.waits - {TIME})
    rows = [["time", "", str(record.due_ms)]] if TIME in record.waits else []
    rows += [["dependency", parent, ""] for parent in others[:limit]]
    more = len(others) - limit
    return [*rows, ["dependencies", f"{more} more", ""]] if more > 0 else rows


def budgets(model: Model, record: Record) -> list[Row]:
    """The accounts that cannot pay it now, and its price."""
    rows, price = [], record.price[0]
    graph = model.graph(record.dag)
    dag, day = money.dag_left(model, graph) if graph else None, money.left_of(model, DAY)
    if dag is not None and price > dag:
        rows.append(["budget", f"dag={record.dag}", ""])
    if day is not None and price > day:
        rows.append(["budget", DAY, str((model.now_ms // money.DAY_MS + 1) * money.DAY_MS)])
    return [*rows, ["price", str(price), ""]] if price else rows


def gates(model: Model, record: Record, type: str, limits: list[LimitWords]) -> list[Row]:
    """The gates that let nothing of its lane pass now."""
    rows: list[Row] = []
    graph = model.graph(record.dag)
    if graph is not None and (graph.paused or graph.closing):
        rows.append(["given up" if graph.closing else "paused", f"dag={record.dag}", ""])
    covered = ["queue", f"type={type}", f"lane={record.lane}"]
    rows += [["paused", what, ""] for what in covered if what in model.paused]
    breaker, slow = model.breakers.get(type), model.slowed.get(type)
    if breaker is not None and gating.tries(model, type) < 1:
        rests = breaker.until_ms > model.now_ms
        until = str(breaker.until_ms) if rests else ""
        rows.append(["breaker", "open" if rests else "half-open", until])
    if slow is not None and gating.recovered(model, type) < 1:
        opens = slow.until_ms if slow.until_ms > model.now_ms else model.wakes[type]
        rows.append(["slowed", type, str(opens)])
    return rows + [["limit", limit[0], ""] for limit in limits if room(model, limit) < 1]
