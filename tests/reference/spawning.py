"""Spawning: a task that runs adds others to its DAG, and may wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.task.state import State
from tests.reference.answering import answer_freed
from tests.reference.graphs import adopt, block, changed, open_parents
from tests.reference.money import leave_hand, owe
from tests.reference.planting import Said, commit_one, create, namesake_of
from tests.reference.settling import again, held
from tests.reference.telling import lanes
from tests.reference.turning import let_in
from tests.reference.walking import Walk

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Draft, Graph, Record


@dataclass(frozen=True, slots=True)
class Spawn:
    """What a running task asks for: tasks by the keys under which it knows them. `forbidden` is who
    may not name another as their creator, and its role.
    """

    parent: str
    token: str
    rows: Sequence[tuple[str, Draft]]
    wait: str = ""
    rule: str = "own_dag"
    steps: int = 20_000
    gather: str = ""
    part: str = ""
    forbidden: str | None = None

    @property
    def mark(self) -> str:
        """The name of a wait of several calls, as it stands among what is waited for: it is that of
        one attempt.
        """
        return f"@{self.gather} {self.token}"

    def keys(self) -> dict[str, Draft]:
        """What each key stands for if it is new: the first that it is given for."""
        found: dict[str, Draft] = {}
        for key, draft in self.rows:
            found.setdefault(key, draft)
        return found


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the tasks of a call remembers: edges, where the parent is to wait for them,
    and their producer's ids.
    """

    walk: Walk | None
    names: dict[str, str] = field(default_factory=dict)


def spawn(model: Model, call: Spawn) -> list[object]:
    """Adds the tasks of new keys, all or none: OK, whether the parent is SUSPENDED or GOING on, and
    what each key stands for; or why nothing was added.
    """
    parent = model.find(call.parent)
    suspended = again(model, (call.parent, call.token), "suspend")
    if parent is None or not (suspended or goes_on(model, call, parent)):
        return ["LOST"]
    fresh = [draft for key, draft in call.keys().items() if key not in parent.spawned]
    if suspended and fresh:
        return ["LOST"]
    refused = None if suspended else refusal(model, call, parent, fresh)
    if refused is not None:
        return list(refused)
    graph = adopt(model, parent)
    touched = lanes([add(model, graph, draft) for draft in fresh])
    parent.spawned = {key: draft.id for key, draft in call.keys().items()} | parent.spawned
    children = [parent.spawned[key] for key, _ in call.rows]
    if fresh:
        changed(model, graph)
    states = [word for child in children for word in (child, state_of(model, child))]
    freed = False
    if call.wait and not suspended:
        freed = suspended = waits(model, call, parent, children)
    answer_freed(model, touched, freed=freed)
    return ["OK", 0, "SUSPENDED" if suspended else "GOING", *states]


def goes_on(model: Model, call: Spawn, parent: Record) -> bool:
    """Whether it is the holder of a running task who asks, and its wait is as it left it."""
    if held(model, (call.parent, call.token)) is None or parent.state is not State.RUNNING:
        return False
    return call.part not in ("next", "last") or call.mark in parent.gathering


def waits(model: Model, call: Spawn, parent: Record, children: Sequence[str]) -> bool:
    """Lets a task wait for those of its children that have not ended; whether it does now."""
    on_failure = model.dags[parent.dag].facts.get("on_failure")
    lenient = call.wait == "done" or on_failure == "continue"
    found = [child for child in children if not over(model, child, lenient)]
    if call.part:
        found = gather(model, parent, call, found, lenient=lenient)
    elif found:
        parent.gathering.clear()
    if found:
        suspend(model, parent, found, lenient=lenient)
    return bool(found)


def refusal(model: Model, call: Spawn, parent: Record, fresh: Sequence[Draft]) -> Said | None:
    """Why nothing can be added, if so."""
    look = Look(Walk(call.steps) if call.wait else None)
    for row in call.keys().items():
        wrong = wrong_with(model, parent, row, look)
        if wrong is not None:
            return wrong
    if not fresh or call.forbidden is not None:
        return ("FORBIDDEN", call.forbidden) if fresh else None
    graph = model.dags.get(parent.dag)
    rule = call.rule if graph is None else graph.facts.get("spawn", call.rule)
    kinds = list(dict.fromkeys(draft.lane for _, draft in call.rows))
    own = next(lane for lane, number in model.lanes.items() if number == parent.lane)
    allowed = rule == "own_dag" or (
        rule == "same_agent" and all(lane.agent == own.agent for lane in kinds)
    )
    if not allowed:
        return "RULE", rule
    if graph is not None and graph.closing:
        return ("CLOSED",)
    if (1 if graph is None else len(graph.members)) + len(fresh) > model.max_nodes:
        return ("FULL",)
    numbers = [model.lane_number(lane) for lane in kinds]
    return ("LANES",) if None in numbers else None


def wrong_with(model: Model, parent: Record, row: tuple[str, Draft], look: Look) -> Said | None:
    """What a task to be spawned waits for is not there, or waits in turn for the parent; or another
    bears the same id of its producer.
    """
    key, draft = row
    waits = [child for child in (parent.spawned.get(key, ""),) if not over(model, child, False)]
    if key not in parent.spawned:
        waits, lost = open_parents(model, draft.parents, draft.special.trigger)
        namesake = namesake_of(model, draft, look.names)
        if lost is not None:
            return "PARENT", key, lost
        if namesake is not None:
            return "EXISTS", key, namesake
    circle = look.walk.reaches(model, waits, parent.id) if look.walk is not None else None
    return None if circle is None else (circle, key)


def add(model: Model, graph: Graph, draft: Draft) -> int | None:
    """A new task of a DAG that runs already; the lane it enters."""
    model.submitted += 1
    return commit_one(model, create(model, graph, draft))


def state_of(model: Model, task: str) -> str:
    """What a spawned task is now."""
    record = model.find(task)
    return "GONE" if record is None else record.state.value


def over(model: Model, task: str, lenient: bool) -> bool:
    """Whether there is nothing to wait for: a dead one may live again."""
    state = state_of(model, task)
    return state in ("COMPLETED", "CANCELLED", "GONE") or (lenient and state == "DEAD_LETTERED")


def gather(
    model: Model, record: Record, call: Spawn, children: Sequence[str], *, lenient: bool
) -> list[str]:
    """Notes what a running task is to wait for; with the last part, all that is still to come."""
    if call.mark not in record.gathering:
        record.gathering.clear()
    record.gathers = "all_done" if lenient else "all_success"
    record.gathering |= {call.mark, *children}
    for child in children:
        model.tasks[child].flags.add("h" if lenient else "d")
    if call.part != "last" or record.gathering == {call.mark}:
        return []
    waits, record.gathering = record.gathering - {call.mark}, set()
    return sorted(waits)


def suspend(model: Model, record: Record, children: Sequence[str], *, lenient: bool) -> None:
    """A running task leaves its worker's hands until tasks that it spawned have ended."""
    owe(record)
    let_in(model, record)
    model.handoffs.pop((record.id, record.epoch), None)
    leave_hand(model, record)
    record.state, record.settled = State.PENDING, f"suspend {record.token}"
    record.suspended = "all_done" if lenient else "all_success"
    block(model, record, children)
