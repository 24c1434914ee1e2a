"""Rules for budgets: prices, ceilings of the day, of workers and of DAGs, and reported costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from rqueue.budgets.accounts import DAY, WORKER
from rqueue.task.fields import cost_class
from rqueue.task.lane import Lane
from tests.machine.work_rules import BASES, KEYS, WORKERS, WorkMachine
from tests.reference.records import Draft, Lease

# Two of one cost class, and one of the next.
PRICES = st.sampled_from([(300_000, 0), (500_000, 600_000), (900_000, 0)])
CEILINGS = st.sampled_from([0, 700_000, 1_500_000])
AMOUNTS = st.sampled_from([0, 100_000, 300_000, 800_000])
# The tokens that each report contains besides its cost.
TOKENS = 7
tasks, leases = WorkMachine.tasks, WorkMachine.leases


class BudgetMachine(WorkMachine):
    """The rules. `peaks` is the highest ceiling of an account since it has one, or its spending and
    reservations from before; `over` is what attempts reported beyond their reservations.
    """

    def __init__(self) -> None:
        super().__init__()
        self.notes: Counter[Lease] = Counter()
        self.peaks: dict[str, int] = {}
        self.over = 0

    def priced(self, price: tuple[int, int], base: int, key: str = "") -> Draft:
        lane = Lane("a", 0.0, cost=cost_class(price[0]), keyed=bool(key))
        return replace(self.draft(lane, base, key), price=price)

    @rule(target=tasks, prices=st.lists(PRICES, min_size=1, max_size=3), base=BASES)
    def submit_priced(self, prices: list[tuple[int, int]], base: int) -> object:
        return self.send([self.priced(price, base) for price in prices])

    @rule(
        target=tasks,
        many=st.lists(st.tuples(PRICES, KEYS), min_size=1, max_size=4),
        base=BASES,
    )
    def submit_priced_of_keys(self, many: list[tuple[tuple[int, int], str]], base: int) -> object:
        return self.send([self.priced(price, base, key) for price, key in many])

    @rule(target=tasks, price=PRICES, base=BASES, parent=tasks)
    def submit_priced_child(self, price: tuple[int, int], base: int, parent: str) -> object:
        return self.send([replace(self.priced(price, base), parents=(parent,))])

    @rule(ceiling=CEILINGS, afresh=st.booleans())
    def set_day(self, ceiling: int, afresh: bool) -> None:
        self.set_account(DAY, ceiling, afresh)

    @rule(at=WORKERS, ceiling=st.one_of(st.none(), CEILINGS), afresh=st.booleans())
    def set_worker(self, at: int, ceiling: int | None, afresh: bool) -> None:
        self.set_account(WORKER + self.workers[at].consumer, ceiling, afresh)

    def set_account(self, name: str, ceiling: int | None, afresh: bool) -> None:
        self.shard.set_budget(name, ceiling, afresh=afresh)
        if ceiling is None:
            self.peaks.pop(name, None)
            return
        # Tasks leased before may still spend, also if the account had no ceiling then.
        row, leased = self.shard.view.accounts[name], self.shard.model.leased()
        held = sum(max(0, r.reserved or 0) for r in leased if name in (DAY, WORKER + r.owner))
        committed = int(row["spent"]) + max(int(row["reserved"]), held)
        self.peaks[name] = max(ceiling, committed, 0 if afresh else self.peaks.get(name, 0))

    @precondition(lambda self: any(r.dag for r in self.shard.model.tasks.values()))
    @rule(data=st.data(), ceiling=st.one_of(st.none(), CEILINGS))
    def set_dag(self, data: st.DataObject, ceiling: int | None) -> None:
        dags = sorted(dag for dag, g in self.shard.model.dags.items() if g.status != "writing")
        self.shard.dag_budget(data.draw(st.sampled_from(dags)), ceiling)

    @precondition(lambda self: self.shard.model.leased())
    @rule(data=st.data(), amount=AMOUNTS, by_hand=st.booleans())
    def spend(self, data: st.DataObject, amount: int, by_hand: bool) -> None:
        held = sorted((record.id, record.token) for record in self.shard.model.leased())
        self.report(data.draw(st.sampled_from(held)), amount, by_hand)

    @rule(held=leases, amount=AMOUNTS, by_hand=st.booleans())
    def spend_stale(self, held: Lease, amount: int, by_hand: bool) -> None:
        self.report(held, amount, by_hand)

    def report(self, lease: Lease, amount: int, by_hand: bool) -> None:
        """An attempt reports a cost, by its worker or by hand. It is counted once, also if it is
        sent twice.
        """
        self.notes[lease] += 1
        # Attempts of one task have separate report numbers.
        epoch = lease[1].partition(":")[0]
        seq = f"hand{lease[0]}-{epoch}-{self.notes[lease]}" if by_hand else self.notes[lease]
        record = self.shard.model.tasks[lease[0]]
        before = record.notes.micro_usd
        covered = max(0, record.reserved or 0) if record.held_by(lease[1]) else 0
        word = self.shard.note(lease, seq, amount, TOKENS)
        assert word == "LOST" or record.notes.micro_usd == before + amount, "a cost is not counted"
        if record.notes.micro_usd > before:
            self.over += max(0, amount - covered)
        view = self.shard.view
        assert self.shard.note(lease, seq, amount, TOKENS) == word
        assert not self.shard.view.differences(view), "a note was counted twice"

    @invariant()
    def no_account_is_overspent(self) -> None:
        """No account has spent more than its ceiling and what attempts reported beyond theirs."""
        for name, peak in self.peaks.items():
            spent = int(self.shard.view.accounts.get(name, {}).get("spent", "0"))
            assert spent <= peak + self.over, f"{name} spent {spent} of {peak}, {self.over} over"
