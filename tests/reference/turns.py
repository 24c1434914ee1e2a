"""Turns between tenants, over all lanes of a shard, and tenants without turns while their gates are
closed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.reference.gates import capacity_of, count_begun, opens_at, slowdown_capacity

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.records import LimitWords, Record


@dataclass(slots=True)
class TurnClock:
    """The progress of all turns, and of the tenants that are further."""

    now: int = 0
    tenants: dict[str, int] = field(default_factory=dict)

    def begins(self, tenant: str) -> int:
        """Where the turns of a tenant begin that enters a lane."""
        return max(self.now, self.tenants.get(tenant, 0))


@dataclass(slots=True)
class LaneTurns:
    """The tenants of a lane: the progress of those that may get a turn, until when others are
    closed, and the name of the rules that closed them.
    """

    turns: dict[str, int] = field(default_factory=dict)
    closed: dict[str, float] = field(default_factory=dict)
    rules: str = ""


class ClaimTurns:
    """The turns of one claim over all its lanes: `at` is the progress of the tenants that got
    tasks.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.now, self.served = model.turn_clock.now, -1
        self.at: dict[str, int] = {}

    def move(self, tenant: str, at: int, step: int, turn: int) -> int:
        """Gives a tenant a turn; returns by how much it advances. A tenant that is behind advances
        by the turns it missed, by its weight, but at most to one step past the others.
        """
        behind = max(0, self.now - at)
        to = min(at + step * (1 + behind // turn), at + behind + step)
        self.at[tenant], self.now = to, max(self.now, at)
        return to - at

    def end(self, lanes: Collection[int]) -> None:
        """Stores the progress of tenants that got tasks in all these lanes; the others stay where
        they are.
        """
        if self.served < 0:
            return
        turn_clock = self.model.turn_clock
        turn_clock.now = max(turn_clock.now, self.served)
        further = {
            tenant: max(at, turn_clock.tenants.get(tenant, 0)) for tenant, at in self.at.items()
        }
        turn_clock.tenants = {
            k: at for k, at in (turn_clock.tenants | further).items() if at > turn_clock.now
        }
        for number in lanes:
            turns = self.model.lane_turns[number].turns
            turns |= {tenant: max(came, self.at.get(tenant, 0)) for tenant, came in turns.items()}


def update_turns(model: Model) -> None:
    """Updates which tenants of each lane may get a turn. A new tenant starts at the current
    progress.
    """
    waiting: dict[int, set[str]] = {n: set() for lane, n in model.lanes.items() if lane.keyed}
    for record in model.ready() if waiting else ():
        if record.lane in waiting:
            waiting[record.lane].add(record.tenant)
    for number, tenants in waiting.items():
        line = model.lane_turns.setdefault(number, LaneTurns())
        open_tenants = tenants - line.closed.keys()
        line.turns = {
            tenant: line.turns.get(tenant, model.turn_clock.begins(tenant))
            for tenant in open_tenants
        }


def by_tenant(model: Model, number: int) -> dict[str, list[Record]]:
    """The tasks of a lane that may be claimed, in order, by tenant."""
    found: dict[str, list[Record]] = {}
    for task in model.lane(number):
        found.setdefault(model.tasks[task].tenant, []).append(model.tasks[task])
    return found


# The rules of a lane with tenants, by the names of the claim move.
TenantRules = Mapping[str, Any]
# State shared by the lanes of one claim: its turns, and the remaining capacity of each gate of a
# tenant.
Shared = tuple[ClaimTurns, dict[str, float]]
# Tenants that are reopened in one call at most.
REOPEN_LIMIT = 1000


@dataclass(slots=True)
class FullGates:
    """Types, or `*`, and tenants whose limit of leased tasks was found full."""

    types: set[str] = field(default_factory=set)
    tenants: set[str] = field(default_factory=set)


class TenantSelection:
    """One claim's pass over a lane with tenants. `shared` has the turns and the capacities of
    tenants' gates, for all lanes of the claim.
    """

    def __init__(self, model: Model, number: int, rules: TenantRules, shared: Shared) -> None:
        self.model, self.number, self.rules = model, number, rules
        self.claim_turns, self.capacities = shared
        self.lane_turns = model.lane_turns.setdefault(number, LaneTurns())
        reopen_due(model, number, rules["name"])
        update_turns(model)
        self.tasks = by_tenant(model, number)
        self.start = dict(self.lane_turns.turns)
        # By tenant the picked tasks, the progress of its turns before, and its advance.
        self.picked: dict[str, list[tuple[str, int, int]]] = {tenant: [] for tenant in self.tasks}
        self.unchecked = sorted(self.start, key=self.begin)
        self.candidates: list[str] = []
        self.checked: list[str] = []
        # Tenants whose first task is another one than when the claim began.
        self.advanced: set[str] = set()
        self.current = ""

    @property
    def fair(self) -> bool:
        """Whether tenants take turns, or only have limits."""
        return bool(self.rules["fair"])

    def step(self, tenant: str) -> int:
        """How far one task advances a tenant."""
        found: int = self.rules["steps"].get(tenant, self.rules["step"])
        return found

    def begin(self, tenant: str) -> tuple[int, str]:
        """The sort key of tenants: the progress of their turns, or their first task."""
        if self.fair:
            return self.start[tenant], tenant
        return self.tasks[tenant][0].score, self.tasks[tenant][0].id

    def place(self, tenant: str) -> tuple[int, str]:
        """The same, with what this claim has given them in any lane."""
        at, name = self.begin(tenant)
        return (max(at, self.claim_turns.at.get(tenant, at)), name) if self.fair else (at, name)

    def best_first(self) -> Record | None:
        """The task by which the lane competes with others: the best first task of tenants that may
        continue, so that an urgent task does not wait for its tenant's turn.
        """
        firsts = [self.tasks[tenant][0] for tenant in self.start if self.tasks[tenant]]
        # Among equals those come first whose gates were checked: the others need no check then.
        firsts.sort(key=lambda one: (one.score, one.tenant not in self.advanced, one.id))
        return next((record for record in firsts if self.can_continue(record.tenant)), None)

    def can_continue(self, tenant: str) -> bool:
        """Whether a tenant may get a task, regardless of turns. One that may not counts
        as checked.
        """
        self.find_capacities(tenant)
        if not self.may_pass(tenant) and tenant not in self.checked:
            self.unchecked.remove(tenant)
            self.checked.append(tenant)
        return self.may_pass(tenant)

    def head(self) -> Record | None:
        """The next task of tenants that may get one."""
        while True:
            one = min(self.candidates, key=self.place, default=None)
            if self.unchecked and (one is None or self.begin(self.unchecked[0]) < self.place(one)):
                self.check(self.unchecked.pop(0))
            elif one is None:
                return None
            elif self.may_pass(one) and self.tasks[one]:
                self.current = one
                return self.tasks[one][0]
            else:
                self.candidates.remove(one)

    def check(self, tenant: str) -> None:
        """Adds a tenant to the candidates and finds its capacities."""
        self.checked.append(tenant)
        self.candidates.append(tenant)
        self.find_capacities(tenant)

    def find_capacities(self, tenant: str) -> None:
        """Finds the capacities of a tenant's gates, once in a claim."""
        for limit in self.limits(tenant):
            if limit[0] not in self.capacities:
                self.capacities[limit[0]] = capacity_of(self.model, limit)
        if f"@{tenant}" in self.model.slowed and f"@{tenant}" not in self.capacities:
            self.capacities[f"@{tenant}"] = slowdown_capacity(self.model, f"@{tenant}")

    def limits(self, tenant: str) -> list[LimitWords]:
        """The limits of a tenant."""
        rules = self.rules["own"].get(tenant, self.rules["each"])
        return [(f"{scope}@{tenant}", rate, per, most) for scope, rate, per, most in rules]

    def gates(self, tenant: str) -> list[str]:
        """The gates of a tenant's task."""
        found = [limit[0] for limit in self.limits(tenant)]
        return [*found, f"@{tenant}"] if f"@{tenant}" in self.capacities else found

    def may_pass(self, tenant: str) -> bool:
        """Whether the gates of a tenant admit one more task."""
        return all(self.capacities[gate] >= 1 for gate in self.gates(tenant))

    def pick(self) -> None:
        """Picks the head."""
        tenant, moved = self.current, 0
        at, _ = self.place(tenant)
        if self.fair:
            moved = self.claim_turns.move(tenant, at, self.step(tenant), self.rules["step"])
        self.picked[tenant].append((self.tasks[tenant].pop(0).id, at, moved))
        self.advanced.add(tenant)
        for gate in self.gates(tenant):
            self.capacities[gate] -= 1
        if not self.tasks[tenant] and not self.fair:
            self.candidates.remove(tenant)

    def pass_over(self) -> None:
        """Skips the head; the next task of its tenant may be picked."""
        tenant = self.current
        self.tasks[tenant].pop(0)
        self.advanced.add(tenant)
        if not self.tasks[tenant] and not self.fair:
            self.candidates.remove(tenant)

    def end(self, given: Collection[str]) -> None:
        """Counts leased tasks at the gates of their tenants; a task that was held back costs no
        turn.
        """
        for tenant in self.checked:
            passed = [at for task, at, _ in self.picked[tenant] if task in given]
            self.count(tenant, len(passed))
            if self.fair:
                back = sum(moved for task, _, moved in self.picked[tenant] if task not in given)
                self.claim_turns.at |= {tenant: self.claim_turns.at[tenant] - back} if back else {}
                self.claim_turns.served = max([self.claim_turns.served, *passed])

    def close_full(self) -> None:
        """Closes the tenants that were checked and whose gates are closed."""
        for tenant in self.checked:
            self.close(tenant)

    def count(self, tenant: str, number: int) -> None:
        """Counts leased tasks at the gates of a tenant."""
        slow = self.model.slowed.get(f"@{tenant}")
        for limit in self.limits(tenant) if number else ():
            count_begun(self.model, limit, number)
        if number and slow is not None:
            slow.count(self.model.now_ms, number)

    def close(self, tenant: str) -> None:
        """Closes a tenant while its gates admit nothing."""
        opens = [opens_at(self.model, limit) for limit in self.limits(tenant)]
        if f"@{tenant}" in self.model.slowed and slowdown_capacity(self.model, f"@{tenant}") < 1:
            opens.append(self.model.slowed[f"@{tenant}"].opens_ms(self.model.now_ms))
        until = max((at for at in opens if at is not None), default=None)
        if until is None:
            return
        self.lane_turns.closed[tenant], self.lane_turns.rules = until, self.rules["name"]
        if until == math.inf:
            self.model.full_gates.tenants.add(tenant)
        else:
            known = self.model.wakes.get(str(self.number), until)
            self.model.wakes[str(self.number)] = int(min(known, until))


def reopen_due(model: Model, number: int, rules: str = "") -> None:
    """Reopens tenants whose time has come, or that were closed by other rules."""
    line = model.lane_turns.get(number, LaneTurns())
    if not line.closed:
        return
    if rules and line.rules != rules:
        line.closed, line.rules = dict.fromkeys(line.closed, 0.0), rules
    due = sorted((at, tenant) for tenant, at in line.closed.items() if at <= model.now_ms)
    for _, tenant in due[:REOPEN_LIMIT]:
        del line.closed[tenant]


def wake_lane(model: Model, number: int) -> None:
    """Reopens due tenants of a lane; the lane is woken again for the next one."""
    reopen_due(model, number)
    following = min(model.lane_turns.get(number, LaneTurns()).closed.values(), default=math.inf)
    if following < math.inf:
        model.wakes[str(number)] = int(following)


def wake_gates_of(model: Model, record: Record) -> None:
    """Wakes gates for a task that leaves its lease without a completion: claims that wait for its
    capacity, or for the probe of a breaker, are answered by answer_freed or by the promoter.
    """
    if record.leased:
        model.wakes |= dict.fromkeys(model.full_gates.types, 0)
        model.full_gates.types.clear()
        probes = {type: breaker.probe for type, breaker in model.breakers.items()}
        mine = [type for type, probe in probes.items() if probe == (record.id, record.token)]
        model.wakes |= dict.fromkeys(mine, 0)
        for number in reopen_tenant(model, record):
            model.wakes[str(number)] = 0


def reopen_tenant(model: Model, record: Record) -> set[int]:
    """Reopens the tenant of a task that leaves its lease. Returns its lanes."""
    if not record.tenant or record.tenant not in model.full_gates.tenants:
        return set()
    model.full_gates.tenants.discard(record.tenant)
    lane_turns = [
        (number, line) for number, line in model.lane_turns.items() if record.tenant in line.closed
    ]
    for _, line in lane_turns:
        del line.closed[record.tenant]
    return {number for number, _ in lane_turns}


def tenant_is_open(model: Model, number: int, rules: TenantRules) -> bool:
    """Whether some tenant of a lane may get a turn now."""
    return TenantSelection(model, number, rules, (ClaimTurns(model), {})).head() is not None
