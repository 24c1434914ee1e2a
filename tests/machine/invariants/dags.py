"""G11 to G13: invariants of DAGs, read from the server alone, after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rqueue.task.state import FINAL, LEASED, State
from tests.machine.views.dags import ANY_DEPENDENCY
from tests.machine.views.shard import View

RUNS = {State.READY, *LEASED}
# Moves after which a DAG may be claimed from again.
OPENS = {"resume", "revive"}


@dataclass(slots=True)
class DagInvariants:
    """Records which dependencies were met, and by which rule."""

    # Tasks that were cancelled with dependents=unblock.
    waived: set[str] = field(default_factory=set)
    fired: set[tuple[str, int]] = field(default_factory=set)
    freed: Counter[tuple[str, int]] = field(default_factory=Counter)

    def check(self, verb: str, before: View, after: View) -> None:
        """Checks one step."""
        for task, waits in before.waits.items():
            parents = waits & set(before.tasks)
            found = after.tasks.get(task)
            over = (
                found is None
                or found["state"] in FINAL
                or ANY_DEPENDENCY in after.waits.get(task, ())
            )
            if parents and not over:
                self.check_dependencies(task, parents, before, after)
        check_gates(verb, before, after)
        check_counters(after)
        check_cycles(after)

    def check_dependencies(self, task: str, parents: set[str], before: View, after: View) -> None:
        """G11, G12: a dependency is removed only when its trigger is met, and a task is unblocked
        once in a life.
        """
        was, found = before.tasks[task], after.tasks[task]
        life = task, found["life"]
        gone = {
            parent: (after.tasks[parent]["state"], trigger_of(before, parent, task))
            for parent in parents - after.waits.get(task, set())
        }
        # With trigger one_failed the first failure ends all waits; it may have come before the
        # commit.
        if was["fired"] or (State.DEAD_LETTERED, "one_failed") in gone.values():
            self.fired.add(life)
        for parent, (state, trigger) in gone.items():
            met = state == State.COMPLETED or (trigger != "all_success" and state in FINAL)
            chosen = was["suspended"] or parent in self.waived
            spared = life in self.fired or (chosen and state == State.CANCELLED)
            assert met or spared, f"G12: {task} does not wait for {parent}"
        if found["state"] in RUNS and not was["suspended"]:
            self.freed[life] += 1
            assert self.freed[life] == 1, f"G11: {task} was unblocked twice in one life"
            failure = any(trigger_of(before, p, task) == "one_failed" for p in parents)
            assert not failure or life in self.fired, f"G11: {task} runs and no parent failed"


def trigger_of(view: View, parent: str, task: str) -> str:
    """The trigger of a dependency."""
    return view.end_dependents.get(parent, {}).get(task, "all_success")


def check_gates(verb: str, before: View, after: View) -> None:
    """No task of a DAG that is paused or cancelled is claimed."""
    for task, found in after.tasks.items():
        token = before.tasks.get(task, {}).get("token", "")
        dag = before.dags.get(found["dag"], {})
        shut = ("paused" in dag or "closing" in dag) and verb not in OPENS
        assert token == found["token"] or not shut, (
            f"{verb} leased {task} of a DAG that is held back"
        )


def check_cycles(view: View) -> None:
    """G13: no task depends on itself, also indirectly."""
    clear: set[str] = set()
    for task in view.waits:
        path, stack = set[str](), [(task, False)]
        while stack:
            one, left = stack.pop()
            assert left or one not in path, f"{task} waits for itself: {sorted(path)}"
            if left:
                path.discard(one)
                clear.add(one)
            elif one not in clear:
                path.add(one)
                stack += [(one, True), *((each, False) for each in view.waits.get(one, ()))]


def check_counters(view: View) -> None:
    """The counters of a DAG equal a recount, and its status follows from them."""
    for dag, found in view.dags.items():
        states = [view.tasks[task]["state"] for task in view.members.get(dag, [])]
        number = {name: int(found[name]) for name in ("total", "open", "dead", "cancelled")}
        recount = {
            "total": len(states),
            "open": sum(state not in FINAL for state in states),
            "dead": states.count(State.DEAD_LETTERED),
            "cancelled": states.count(State.CANCELLED),
        }
        assert number == recount, f"{dag}: counters {number}, recount {recount}"
        if found["status"] != "writing":
            check_status(dag, found, recount)
    for task, found in view.tasks.items():
        within = view.members.get(found["dag"], [])
        assert not found["dag"] or within.count(task) == 1, f"{task} is not in its DAG once"


def check_status(dag: str, found: Mapping[str, Any], number: Mapping[str, int]) -> None:
    """G13: failed while a task is dead; ended when none is left, and only then."""
    ended = number["open"] == 0 and number["dead"] == 0
    assert ("finished" in found) == ended, f"{dag} is {found}, and {number} are left"
    assert number["open"] or found["status"] not in ("pending", "running"), f"{dag} hangs: {found}"
    assert not number["dead"] or found["status"] == "failed", f"{dag} has dead tasks: {found}"
    failed = number["dead"] or "closing" in found
    assert found["status"] != "failed" or failed, f"{dag} failed without a dead task: {found}"


def check_at_rest(view: View) -> None:
    """When nothing can happen any more, all DAGs have ended, except for those that wait for a dead
    task.
    """
    for dag, found in view.dags.items():
        over = "finished" in found or found["status"] == "failed"
        waits = any(reaches_dead(view, task) for task in view.members.get(dag, []))
        assert over or waits, f"{dag} hangs: {found}"
    for task, found in view.tasks.items():
        over = found["state"] in FINAL or reaches_dead(view, task)
        assert over, f"{task} hangs as {found['state']}, waiting for {view.waits.get(task)}"
    left = (view.unfinished, view.cancelling, view.telling, view.unblocking, view.held)
    assert not any(left), f"left over: {left}"


def reaches_dead(view: View, task: str) -> bool:
    """Whether a task depends on a dead one, also indirectly."""
    waits = view.waits.get(task, set()) & set(view.tasks)
    return any(
        view.tasks[parent]["state"] == State.DEAD_LETTERED or reaches_dead(view, parent)
        for parent in waits
    )
