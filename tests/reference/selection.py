"""Selection of the tasks of a claim, in exact order, past all gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rqueue.budgets.accounts import DAY
from rqueue.task.limits import QUEUE
from tests.reference import budgets
from tests.reference.gates import (
    capacities_of,
    count_selected,
    is_paused,
    limits_for,
    slowdown_capacity,
    type_capacities,
)
from tests.reference.turns import ClaimTurns, TenantRules, TenantSelection, update_turns

if TYPE_CHECKING:
    from rqueue.task.lane import Lane
    from tests.reference.budgets import WorkerFunds
    from tests.reference.model import Model
    from tests.reference.records import LimitWords, Record

MINUTE_MS = 60_000
DRAIN_MS = 30_000


@dataclass(frozen=True, slots=True)
class Claimant:
    """The worker that claims: its conversation, whether tasks are started, how many begin at once,
    and the limits and tenant rules that apply.
    """

    waiter: str
    consumer: str
    bits: str
    started: bool = False
    begin: int | None = None
    limits: tuple[LimitWords, ...] = ()
    tenant_rules: Mapping[int, TenantRules] = field(default_factory=dict)


class Selection:
    """One pass of a claim over the lanes that it may serve."""

    def __init__(self, model: Model, claimant: Claimant, served: Mapping[int, Lane]) -> None:
        self.model, self.claimant, self.served = model, claimant, served
        self.tenant_lanes, self.claim_turns = dict[int, TenantSelection](), ClaimTurns(model)
        self.live: dict[int, Lane] = {}
        self.has_plain = False
        self.heads: dict[int, Record | None] = {}
        self.picks: list[Record] = []
        self.funds: WorkerFunds | None = None
        self.unaffordable: list[Record] = []

    def pick(self, n: int) -> list[Record]:
        """Returns the next tasks for this worker, up to `n`."""
        model, claimant = self.model, self.claimant
        if (
            n < 1
            or claimant.waiter in model.drained
            or runs_exclusively(model, claimant.consumer, self.served)
        ):
            return []
        self.prepare(n)
        while len(self.picks) < n:
            record = self.best()
            verdict = "drain" if record is None else self.verdict(record)
            if record is None or verdict == "drain":
                break
            if verdict == "skip":
                del self.live[record.lane]
                continue
            if verdict != "next":
                self.take(record)
            if verdict == "run":
                # An exclusive task is the only one of its claim.
                break
            if len(self.picks) < n:
                self.advance(record.lane)
        return self.picks

    def prepare(self, n: int) -> None:
        """Finds the open lanes and their capacity."""
        model, claimant = self.model, self.claimant
        unpaused = {n: lane for n, lane in self.served.items() if not is_paused(model, n, lane)}
        self.type_capacities = type_capacities(model, unpaused)
        limits = limits_for(claimant.limits, {lane.type for lane in unpaused.values()})
        self.capacities = capacities_of(model, limits)
        self.live = {n: lane for n, lane in unpaused.items() if self.admits(lane)}
        self.funds = budgets.worker_funds(model, claimant.consumer)
        if self.funds is not None:
            self.live = budgets.affordable(model, self.funds, self.live, n)
        update_turns(model)
        tenant_capacities: dict[str, float] = {}
        for number in sorted(self.live.keys() & claimant.tenant_rules.keys()):
            self.tenant_lanes[number] = TenantSelection(
                model, number, claimant.tenant_rules[number], (self.claim_turns, tenant_capacities)
            )
            self.heads[number] = self.tenant_lanes[number].head()
        self.has_plain = bool(self.live.keys() - self.tenant_lanes.keys())

    def advance(self, lane: int) -> None:
        """Finds the next head of a lane with tenants; where tenants take turns, of all
        such lanes.
        """
        if lane in self.tenant_lanes:
            for number in self.group() if self.tenant_lanes[lane].fair else [lane]:
                self.heads[number] = self.tenant_lanes[number].head()

    def group(self) -> list[int]:
        """The open lanes whose tenants take turns with each other."""
        found = [n for n in self.live if n in self.tenant_lanes and self.tenant_lanes[n].fair]
        return [n for n in found if self.admits(self.live[n])]

    def admits(self, lane: Lane) -> bool:
        """Whether the gates of a lane admit one more task."""
        capacities = self.capacities
        return (
            min(
                self.type_capacities[lane.type],
                capacities.get(lane.type, 1),
                capacities.get(QUEUE, 1),
            )
            >= 1
        )

    def best(self) -> Record | None:
        """Returns the best head of the lanes by effective priority. Lanes whose tenants take turns
        count as one: it offers the first task of the tenant whose turn it is, and competes by the
        best task of tenants that may continue.
        """
        plain = {n: lane for n, lane in self.live.items() if n not in self.tenant_lanes}
        passed = [*self.picks, *self.unaffordable]
        heads = [record for record in in_order(self.model, plain) if record not in passed][:1]
        keyed = {n: head for n, head in self.heads.items() if n in self.live and head is not None}
        heads += [head for n, head in keyed.items() if not self.tenant_lanes[n].fair]
        by_turns = [keyed[n] for n in self.group() if n in keyed]
        found = [(self.effective(record), record.id) for record in heads]
        if by_turns:
            head = min(by_turns, key=self.turn_order)
            leads = [self.tenant_lanes[one.lane].best_first() for one in by_turns if self.has_plain]
            values = [self.effective(one) for one in (head, *leads) if one is not None]
            found.append((min(values), head.id))
        return self.model.tasks[min(found)[1]] if found else None

    def turn_order(self, head: Record) -> tuple[object, ...]:
        """The sort key of heads of lanes with turns: the progress of the turns, the tenant; for one
        tenant the priority.
        """
        return *self.tenant_lanes[head.lane].place(head.tenant), self.effective(head), head.id

    def effective(self, record: Record) -> float:
        """The effective priority of a task of the lanes."""
        return effective(self.model, record, self.served[record.lane])

    def verdict(self, record: Record) -> Literal["pick", "run", "drain", "skip", "next"]:
        """Whether a head is picked, picked exclusively, or skipped for the next one; or whether the
        worker drains for it, or its lane is skipped.
        """
        lane = self.live[record.lane]
        if not self.admits(lane):
            return "skip"
        if record.lane in self.tenant_lanes and not self.tenant_lanes[record.lane].may_pass(
            record.tenant
        ):
            return "next"
        if self.is_unaffordable(record):
            return self.skip_unaffordable(record)
        found: Literal["pick", "run", "drain", "skip"] = "pick"
        if lane.exclusive:
            picked = len(self.picks)
            found = may_run_exclusively(
                self.model, self.claimant.consumer, record.lane, picked=picked
            )
        if self.funds is not None and found in ("pick", "run"):
            self.funds.left -= record.price[0]
        return found

    @property
    def worker_short(self) -> bool:
        """Whether the worker's own budget excluded a task."""
        return self.funds is not None and self.funds.short and self.funds.account != DAY

    def is_unaffordable(self, record: Record) -> bool:
        """Whether a head cannot be paid for."""
        funds = self.funds
        tight = funds is not None and funds.tight and self.live[record.lane].cost
        return bool(funds is not None and tight and record.price[0] > funds.left)

    def skip_unaffordable(self, record: Record) -> Literal["skip", "next"]:
        """Skips an unaffordable head: the next one may be affordable, but after a hundred the lane
        is skipped.
        """
        if self.funds is not None:
            budgets.mark_short(self.model, self.funds)
        self.unaffordable.append(record)
        if record.lane in self.tenant_lanes:
            self.tenant_lanes[record.lane].pass_over()
        unaffordable = sum(one.lane == record.lane for one in self.unaffordable)
        return "next" if unaffordable < budgets.MAX_UNAFFORDABLE else "skip"

    def take(self, record: Record) -> None:
        """Picks a head."""
        type = self.live[record.lane].type
        self.picks.append(record)
        self.type_capacities[type] -= 1
        count_selected(self.capacities, type)
        if record.lane in self.tenant_lanes:
            self.tenant_lanes[record.lane].pick()

    def end(self, given: Sequence[Record]) -> None:
        """Records which of the picks were leased. The gates of all picks are checked again, so that
        claims that wait for the last capacity are answered when it is free.
        """
        types = {self.served[record.lane].type for record in self.picks}
        capacities_of(self.model, limits_for(self.claimant.limits, types))
        for type in types:
            slowdown_capacity(self.model, type)
        for tenant_lane in self.tenant_lanes.values():
            tenant_lane.end({record.id for record in given})
        self.claim_turns.end([n for n, one in self.tenant_lanes.items() if one.fair])
        # All lanes are counted before: a tenant may be in several.
        for tenant_lane in self.tenant_lanes.values():
            tenant_lane.close_full()
        update_turns(self.model)


def may_run_exclusively(
    model: Model, consumer: str, lane: int, *, picked: int
) -> Literal["run", "drain", "skip"]:
    """Whether an exclusive task may be picked now, or the worker drains for it."""
    if picked == 0 and not model.leased(consumer):
        model.draining.pop(lane, None)
        return "run"
    until_ms, by = model.draining.get(lane, (0, consumer))
    if by != consumer and until_ms > model.now_ms:
        return "skip"
    model.draining[lane] = (model.now_ms + DRAIN_MS, consumer)
    return "drain"


def runs_exclusively(model: Model, consumer: str, served: Mapping[int, Lane]) -> bool:
    """Whether the worker runs an exclusive task; forgets one that has ended."""
    if consumer not in model.exclusive and not any(lane.exclusive for lane in served.values()):
        return False
    record = model.find(model.exclusive.get(consumer, ""))
    if record is not None and record.leased and record.owner == consumer:
        return True
    model.exclusive.pop(consumer, None)
    return False


def in_order(model: Model, lanes: dict[int, Lane]) -> list[Record]:
    """The READY tasks of these lanes by effective priority."""
    ready = [record for record in model.ready() if record.lane in lanes]
    return sorted(ready, key=lambda r: (effective(model, r, lanes[r.lane]), r.id))


def effective(model: Model, record: Record, lane: Lane) -> float:
    """The present priority of a stored score."""
    return record.score - lane.micro_rate * (model.now_ms / MINUTE_MS)
