"""Spawning: a running task adds tasks to its DAG, and may wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.task.state import State
from tests.reference.budgets import allow_late_report, release_reservation
from tests.reference.claiming import answer_freed
from tests.reference.dags.graph import (
    CycleSearch,
    add_dependencies,
    ensure_dag,
    open_parents,
    request_ranking,
)
from tests.reference.dags.submission import MoveReply, commit_one, create, duplicate_of
from tests.reference.dependents import lanes
from tests.reference.settling import find_leased, settled_by
from tests.reference.turns import wake_gates_of

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import Draft, Graph, Record


@dataclass(frozen=True, slots=True)
class Spawn:
    """A spawn call: tasks by the keys of the parent. `forbidden` names the principal that may not
    create them, and its role.
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
        """The name of a wait that is built in several calls, unique to the attempt."""
        return f"@{self.gather} {self.token}"

    def keys(self) -> dict[str, Draft]:
        """The draft of each key: the first one given for it."""
        found: dict[str, Draft] = {}
        for key, draft in self.rows:
            found.setdefault(key, draft)
        return found


@dataclass(frozen=True, slots=True)
class SpawnCheck:
    """State of the checks of one call: the cycle search, if the parent is to wait for the tasks,
    and their external ids.
    """

    cycles: CycleSearch | None
    names: dict[str, str] = field(default_factory=dict)


def spawn(model: Model, call: Spawn) -> list[object]:
    """Adds the tasks of new keys, all or none. Returns OK, whether the parent is SUSPENDED or GOING
    on, and the task of each key; or why nothing was added.
    """
    parent = model.find(call.parent)
    suspended = settled_by(model, (call.parent, call.token), "suspend")
    if parent is None or not (suspended or may_spawn(model, call, parent)):
        return ["LOST"]
    fresh = [draft for key, draft in call.keys().items() if key not in parent.spawned]
    if suspended and fresh:
        return ["LOST"]
    refused = None if suspended else refusal(model, call, parent, fresh)
    if refused is not None:
        return list(refused)
    graph = ensure_dag(model, parent)
    touched = lanes([add(model, graph, draft) for draft in fresh])
    parent.spawned = {key: draft.id for key, draft in call.keys().items()} | parent.spawned
    children = [parent.spawned[key] for key, _ in call.rows]
    if fresh:
        request_ranking(model, graph)
    states = [word for child in children for word in (child, state_of(model, child))]
    freed = False
    if call.wait and not suspended:
        freed = suspended = wait_for_children(model, call, parent, children)
    answer_freed(model, touched, freed=freed)
    return ["OK", 0, "SUSPENDED" if suspended else "GOING", *states]


def may_spawn(model: Model, call: Spawn, parent: Record) -> bool:
    """Whether the caller holds the lease of a running task, and its wait was not replaced."""
    if find_leased(model, (call.parent, call.token)) is None or parent.state is not State.RUNNING:
        return False
    return call.part not in ("next", "last") or call.mark in parent.gathering


def wait_for_children(model: Model, call: Spawn, parent: Record, children: Sequence[str]) -> bool:
    """Makes a task wait for its children that have not ended. Returns whether it is suspended."""
    on_failure = model.dags[parent.dag].facts.get("on_failure")
    lenient = call.wait == "done" or on_failure == "continue"
    found = [child for child in children if not is_over(model, child, lenient)]
    if call.part:
        found = gather(model, parent, call, found, lenient=lenient)
    elif found:
        parent.gathering.clear()
    if found:
        suspend(model, parent, found, lenient=lenient)
    return bool(found)


def refusal(model: Model, call: Spawn, parent: Record, fresh: Sequence[Draft]) -> MoveReply | None:
    """Why no task can be added; None if it can."""
    check = SpawnCheck(CycleSearch(call.steps) if call.wait else None)
    for row in call.keys().items():
        wrong = dependency_refusal(model, parent, row, check)
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


def dependency_refusal(
    model: Model, parent: Record, row: tuple[str, Draft], check: SpawnCheck
) -> MoveReply | None:
    """Why a task cannot be spawned: a dependency does not exist, or depends on the parent, or its
    external id is taken.
    """
    key, draft = row
    waits = [child for child in (parent.spawned.get(key, ""),) if not is_over(model, child, False)]
    if key not in parent.spawned:
        waits, lost = open_parents(model, draft.parents, draft.special.trigger)
        duplicate = duplicate_of(model, draft, check.names)
        if lost is not None:
            return "PARENT", key, lost
        if duplicate is not None:
            return "EXISTS", key, duplicate
    circle = check.cycles.reaches(model, waits, parent.id) if check.cycles is not None else None
    return None if circle is None else (circle, key)


def add(model: Model, graph: Graph, draft: Draft) -> int | None:
    """Adds a new task to a running DAG. Returns the lane it enters."""
    model.submitted += 1
    return commit_one(model, create(model, graph, draft))


def state_of(model: Model, task: str) -> str:
    """The state of a spawned task."""
    record = model.find(task)
    return "GONE" if record is None else record.state.value


def is_over(model: Model, task: str, lenient: bool) -> bool:
    """Whether a child has ended for this wait; a dead one may be retried."""
    state = state_of(model, task)
    return state in ("COMPLETED", "CANCELLED", "GONE") or (lenient and state == "DEAD_LETTERED")


def gather(
    model: Model, record: Record, call: Spawn, children: Sequence[str], *, lenient: bool
) -> list[str]:
    """Records what a running task will wait for; with the last part, returns all that has not
    ended.
    """
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
    """Suspends a running task until tasks that it spawned have ended."""
    allow_late_report(record)
    wake_gates_of(model, record)
    model.deliveries.pop((record.id, record.epoch), None)
    release_reservation(model, record)
    record.state, record.settled = State.PENDING, f"suspend {record.token}"
    record.suspended = "all_done" if lenient else "all_success"
    add_dependencies(model, record, children)
