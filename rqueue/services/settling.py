"""How failed attempts of a worker are settled: set aside, tried again, or dead."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rqueue.client.parking import SPENT
from rqueue.current import Current
from rqueue.model.attempt import Failed, Reason
from rqueue.model.state import State
from rqueue.policy.blame import suspects
from rqueue.policy.models import model_for
from rqueue.policy.verdict import Report, owes, rule, rules_of
from rqueue.services.account import Account
from rqueue.services.aftermath import Aftermath
from rqueue.services.attempt import described
from rqueue.services.ledger import Ledger
from rqueue.services.parker import Parker
from rqueue.store import leases
from rqueue.store.leases import Verdict
from rqueue.store.stored import claimed

if TYPE_CHECKING:
    from rqueue.services.desk import Parts
    from rqueue.store.claims import Grant

# As it failed, as a plain error, as one that is dead.
MOST_ASKED = 3


class Settling:
    """The half of a worker's desk that ends what has failed. `held` is the worker's own table."""

    models: Collection[str]

    def __init__(self, parts: Parts, worker: str, held: dict[str, str]) -> None:
        self.parts = parts
        self.worker = worker
        self.held = held
        self.failed: list[tuple[Grant, Failed]] = []
        self.ledger = Ledger(worker, parts.settings.name)
        rule = parts.settings.bad_workers
        self.account = Account(worker, rule, self.ledger.completed_by_type)
        self.aftermath = Aftermath(parts.hooks)
        self.current = Current(parts.settings)
        self.parker = Parker(parts)

    def ran(self, grant: Grant, type: str) -> None:
        """Keeps of an attempt what its settle is told with: its type, and who failed it before."""
        self.ledger.types[grant.task] = type
        if grant.failed_by:
            self.account.retried[grant.task] = grant.failed_by

    def fail(self, grant: Grant, outcome: Failed, *, alone: bool) -> None:
        """Keeps how an attempt failed, and whether it ran alone, for the next settle."""
        self.failed.append((grant, replace(outcome, alone=alone or outcome.alone)))

    async def settle(self) -> None:
        """Ends failed attempts as the policy decides, all in one call, after those were set aside
        whose services are limited.
        """
        limited = self.parker.limited(self.failed)
        if limited:
            words = await self.parker.park(limited)
            found = zip(limited, words, strict=True)
            aside = [(row, word) for row, word in found if word != SPENT]
            self.ended([row for row, _ in aside])
            self.ledger.parked([row for row, _ in aside], [word for _, word in aside])
            self.aftermath.failed([row for row, _ in aside], [State.RETRYING] * len(aside))
        judged = [self.judged(grant, outcome) for grant, outcome in self.failed]
        failed = [(grant, outcome) for grant, outcome, _ in judged]
        if not failed:
            return
        words = await leases.fail(self.parts.shard, [row for *_, row in judged])
        self.ended(failed)
        pills = {row.task for *_, row in judged if row.poison}
        self.ledger.failed(failed, words, pills)
        self.aftermath.failed(failed, words)

    def ended(self, failed: Sequence[tuple[Grant, Failed]]) -> None:
        """Forgets attempts that are settled; others may have failed meanwhile."""
        gone = {grant.token + grant.task for grant, _ in failed}
        self.failed[:] = [row for row in self.failed if row[0].token + row[0].task not in gone]
        for grant, _ in failed:
            self.parker.spent.discard(grant.token)
            self.account.retried.pop(grant.task, None)
            if self.held.get(grant.task) == grant.token:
                del self.held[grant.task]

    def judged(
        self, grant: Grant, outcome: Failed, asked: int = 1
    ) -> tuple[Grant, Failed, Verdict]:
        """A failed attempt with its verdict. One that cannot be judged is a plain error instead,
        and dead where its policy cannot say when it comes again.
        """
        try:
            return grant, outcome, self.verdict(grant, outcome)
        except Exception as error:
            # Whatever it is, it is this task's: it must not hold the others, nor end the worker.
            if asked == MOST_ASKED:
                raise
            message = f"how it failed cannot be judged: {described(error)}"
            plain = Failed(Reason.ERROR, message, permanent=asked == MOST_ASKED - 1)
            return self.judged(grant, plain, asked + 1)

    def verdict(self, grant: Grant, outcome: Failed) -> Verdict:
        """What becomes of a failed attempt."""
        task = claimed(grant)
        model = model_for(task.spec, task.attempts, self.models)
        used = None if isinstance(model, Failed) else model
        in_a_row = self.account.in_a_row(task.type, grant.task)
        report = Report(self.worker, outcome.message, self.parts.clock.now(), used, in_a_row)
        self.account.failed(task.type, grant.task, suspects(outcome, in_a_row))
        rules = rules_of(task.spec, self.current)
        ruling = rule(task, outcome, report, rules, random=self.parts.random)
        return Verdict(grant.task, grant.token, *ruling, owes=owes(outcome))
