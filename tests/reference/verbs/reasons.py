"""Why a task does not run yet, spoken by the model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rqueue.budgets.accounts import DAY
from rqueue.task.state import State
from tests.reference import gating, money
from tests.reference.limits import opens_at, room
from tests.reference.records import TIME
from tests.reference.rounds import Line, Round, by_key, line_up
from tests.reference.turning import Turning

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import LimitWords, Record
    from tests.reference.turning import KeyRules
    from tests.reference.verbs.words import Asked, Reply

Row = list[str]


def why(model: Model, asked: Asked) -> Reply:
    """All that holds a task back now."""
    record = model.seen(asked.text("task"))
    if record is None:
        return ["GONE"]
    number, _, type, exclusive, *rest = asked.json("lane")
    limits, keys = (*rest, None, None)[:2]
    if record.lane != number:
        return ["LANES"]
    rows = held_by(record, asked.number("limit"))
    if record.waiting:
        rows += gates(model, record, type, [tuple(one) for one in limits or ()])
        if keys:
            rows += key_gates(model, record, keys)
        rows += budgets(model, record)
    if exclusive and record.state is State.READY:
        until_ms, by = model.draining.get(number, (0, ""))
        rows.append(["alone", by if until_ms > model.now_ms else "", ""])
    if keys and keys["fair"] and record.state is State.READY:
        rows += turns(model, record, keys)
    return ["OK", str(model.now_ms), record.state.value, *rows]


def held_by(record: Record, limit: int) -> list[Row]:
    """What its own state says of that."""
    match record.state:
        case State.PENDING:
            return waits(record, limit)
        case State.RETRYING:
            return [["time", record.reason, str(record.due_ms)]]
        case State.CLAIMED | State.RUNNING | State.VALIDATING:
            return [["worker", record.owner, ""]]
        case _:
            return []


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
        never = price > (model.money.accounts[DAY].ceiling or 0)
        tomorrow = str((model.now_ms // money.DAY_MS + 1) * money.DAY_MS)
        rows.append(["budget", DAY, "" if never else tomorrow])
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
        rows.append(["slowed", type, str(slow.opens_ms(model.now_ms))])
    return rows + [["limit", limit[0], opens_of(model, limit)] for limit in limits
                   if room(model, limit) < 1]  # fmt: skip


def opens_of(model: Model, limit: LimitWords) -> str:
    """When a limit that is used up opens, where that is a matter of time."""
    opens = opens_at(model, limit)
    return "" if opens is None or opens == math.inf else f"{opens:.0f}"


def key_gates(model: Model, record: Record, keys: KeyRules) -> list[Row]:
    """The gates that let nothing of its key pass now."""
    look = Turning(model, record.lane, keys, (Round(model), {}))
    used_up = [limit for limit in look.limits(record.key) if room(model, limit) < 1]
    rows = [["limit", limit[0], opens_of(model, limit)] for limit in used_up]
    what = f"@{record.key}"
    if what in model.slowed and gating.recovered(model, what) < 1:
        rows.append(["slowed", what, str(model.slowed[what].opens_ms(model.now_ms))])
    return rows


def turns(model: Model, record: Record, keys: KeyRules) -> list[Row]:
    """How many tasks of its lane have their turn before it, as things are now."""
    line_up(model)
    line, tasks = model.lines.get(record.lane, Line()), by_key(model, record.lane)
    if record.key not in line.turns or record not in tasks.get(record.key, []):
        return []

    def places(key: str) -> list[tuple[int, str]]:
        step = keys["steps"].get(key, keys["step"])
        return [(line.turns[key] + step * at, key) for at in range(len(tasks[key]))]

    mine = places(record.key)[tasks[record.key].index(record)]
    return [["turn", str(sum(place < mine for key in line.turns for place in places(key))), ""]]
