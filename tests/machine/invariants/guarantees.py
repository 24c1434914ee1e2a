"""The guarantees of reliability.md (b), read from the server alone, after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rqueue.budgets.accounts import DAY, WORKER
from rqueue.task.state import FINAL, LEASED, State
from tests.machine.views.shard import View
from tests.reference.records import Special

MAX_ATTEMPTS = 3
Task = Mapping[str, Any]
# Moves after which a task may have another lease at once: they end a lease, and a waiting claim may
# get the task in the same call.
REISSUES = {"release", "recall", "reap"}


@dataclass(slots=True)
class Guarantees:
    """Records what must not happen twice, and checks each step."""

    claims: set[tuple[str, str]] = field(default_factory=set)
    ended: set[tuple[str, int]] = field(default_factory=set)
    started: set[tuple[str, int]] = field(default_factory=set)

    def check(self, verb: str, before: View, after: View, now_ms: int) -> None:
        """Checks all guarantees for one step."""
        for task, found in after.tasks.items():
            was = before.tasks.get(task, {"state": None, "token": "", "epoch": 0, "life": 1})
            self.one_outcome(verb, task, was, found)
            self.one_owner(verb, task, was, found)
            self.fair_attempts(verb, was, found)
            if was["token"] != found["token"] and found["holder"]:
                owner = found["holder"][2]
                assert owner not in before.drained, f"G22: {owner} was given {task} when it drained"
            if found["state"] in (State.RUNNING, State.VALIDATING):
                self.started.add((task, found["life"]))
        not_early(verb, before, after, now_ms)
        conservation(after)
        reachable(after)

    def one_outcome(self, verb: str, task: str, was: Task, found: Task) -> None:
        """G2: one final state in a life, which only revive and discard leave; G20: none leaves
        CANCELLED.
        """
        if was["state"] == found["state"]:
            return
        if was["state"] in FINAL:
            name = "G20" if was["state"] == State.CANCELLED else "G2"
            assert (verb, was["state"]) in (
                ("revive", State.DEAD_LETTERED),
                ("discard", State.DEAD_LETTERED),
            ), f"{name}: {verb} moved {task} out of {was['state']}"
        elif found["state"] in FINAL:
            assert (task, found["life"]) not in self.ended, f"G2: {task} ended twice in one life"
            self.ended.add((task, found["life"]))
        if found["state"] == State.COMPLETED:
            assert was["state"] in (State.RUNNING, State.VALIDATING), "G2: completed, never started"

    def one_owner(self, verb: str, task: str, was: Task, found: Task) -> None:
        """G3, G5 and G20: a new token only where the last lease has ended, and none after a cancel;
        each token is new, epochs rise.
        """
        if was["token"] == found["token"]:
            return
        assert was["state"] != State.CANCELLED, f"G20: {verb} leased {task} after its cancel"
        assert (task, found["token"]) not in self.claims, f"G5: {task} has an old token again"
        self.claims.add((task, found["token"]))
        assert found["epoch"] == was["epoch"] + 1, f"G5: the epoch of {task} did not rise by one"
        assert was["state"] not in LEASED or verb in REISSUES, (
            f"G3: {verb} leased {task} a second time"
        )

    def fair_attempts(self, verb: str, was: Task, found: Task) -> None:
        """G8: attempts are bounded, and only fail and reap spend them."""
        assert found["attempts"] <= MAX_ATTEMPTS, "G8: more attempts than allowed"
        if verb not in ("fail", "reap", "revive"):
            assert found["attempts"] == was.get("attempts", 0), f"G8: {verb} spent an attempt"
        if was["state"] == State.CLAIMED and verb == "reap":
            assert found["attempts"] == was["attempts"], "G8: a claim that never started was spent"

    def unique(self, view: View, specials: Mapping[str, Special]) -> None:
        """G10: at most one task for an idempotency key is live."""
        live: Counter[str] = Counter()
        for task, found in view.tasks.items():
            special = specials[task]
            over = special.unique == "until_start" and (task, found["life"]) in self.started
            if special.idem is not None and found["state"] not in FINAL and not over:
                live[special.idem] += 1
                assert view.keys.get(special.idem, ("",))[0] == task, "G10: the key names another"
        assert all(number == 1 for number in live.values()), f"G10: {live}"


def unchanged(guarantee: str, before: View, after: View) -> None:
    """G4 and G9: a stale or repeated call changes nothing."""
    assert not after.differences(before), f"{guarantee}: {after.differences(before)}"


def not_early(verb: str, before: View, after: View, now_ms: int) -> None:
    """G14: no task runs before its time, except by run_now."""
    for task, due_ms in before.delayed.items():
        state = after.tasks[task]["state"]
        if state == State.READY or state in LEASED:
            assert due_ms <= now_ms or verb == "run_now", f"G14: {verb} let {task} run early"


def within_budget(given: Collection[str], after: View) -> None:
    """With the reservations for leased tasks no account is overdrawn."""
    for task in given:
        found = after.tasks[task]
        for name in (DAY, f"{WORKER}{found['holder'][2]}", found["dag"]):
            row = after.accounts.get(name, {})
            if row.get("ceiling"):
                left = int(row["ceiling"]) - int(row["spent"]) - int(row["reserved"])
                assert left >= 0, f"{name} is overdrawn by {-left} with {task}"


def conservation(view: View) -> None:
    """G23: each submitted task exists once, and the counters equal a recount."""
    states = Counter((found["lane"], found["state"]) for found in view.tasks.values())
    recount = {f"{n}:{s}": count for (n, s), count in states.items() if s != State.READY}
    back = [*view.held.values(), *view.unpaid.values()]
    held = Counter(view.tasks[task]["lane"] for tasks in back for task in tasks)
    recount |= {f"{lane}:READY": count for lane, count in held.items()}
    counted = {name: number for name, number in view.counters.items() if ":" in name}
    assert counted == recount, f"G23: counters {counted}, recount {recount}"
    seen = len(view.tasks) - sum(len(view.members.get(dag, [])) for dag in view.writing)
    assert view.counters.get("submitted", 0) == seen, "G23: a task is lost or doubled"
    assert view.counters.get("outbox", 0) == sum(map(len, view.outbox)), "G23: outbox"


def reachable(view: View) -> None:
    """G24: every task is in the index of its state, and in no other."""
    by_state: dict[str, set[str]] = {state: set() for state in State}
    for task, found in view.tasks.items():
        by_state[found["state"]].add(task)
    held = by_state["CLAIMED"] | by_state["RUNNING"] | by_state["VALIDATING"]
    queued = [task for order in view.order.values() for task in order]
    back = [*view.held.values(), *view.unpaid.values()]
    queued += [task for tasks in back for task in tasks]
    assert Counter(queued) == Counter(by_state["READY"]), "G24: lanes are not the READY tasks"
    for number, order in view.order.items():
        assert all(view.tasks[task]["lane"] == number for task in order), "G24: in a wrong lane"
    assert view.stream == Counter(held | by_state["READY"]), "G24: stream entries"
    owners = Counter((task, view.tasks[task]["holder"][2]) for task in held)
    assert view.pending == owners, f"G24: pending list {view.pending}, owners {owners}"
    created = by_state["CREATED"]
    timed = {task for task, waits in view.waits.items() if "@time" in waits} - created
    assert set(view.delayed) == by_state["RETRYING"] | timed, "G24: delayed"
    assert view.blocked == by_state["PENDING"] == set(view.waits) - created, "G24: blocked"
    assert view.dead == by_state["DEAD_LETTERED"], "G24: dead"
    assert not view.orphans, f"G24: orphans {view.orphans}"
    edges(view)


def edges(view: View) -> None:
    """G24: dependencies and dependents match, and no task waits for one that has ended and has been
    resolved.
    """
    known = {(parent, child) for parent, found in view.dependents.items() for child in found}
    known |= {(parent, child) for parent, found in view.end_dependents.items() for child in found}
    cancelled = {task for task, found in view.tasks.items() if found["lost"]} | set(view.cancelling)
    waited = {
        (parent, task)
        for task, waits in view.waits.items()
        for parent in waits & set(view.tasks)
        if task not in cancelled
    }
    assert waited == known, f"G24: edges of one side only {waited ^ known}"
    for parent, task in waited:
        over = view.tasks[parent]["state"] in (State.COMPLETED, State.CANCELLED)
        coming = f"children {parent}" in view.cancelling or parent in view.telling
        assert not over or coming, f"G24: {task} waits forever"
