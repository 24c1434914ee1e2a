"""Ends failed attempts as the policy decides: the same decision for worker and reaper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.client.parking import CLAIMED, Aside, Limited
from rqueue.current import Current
from rqueue.model.state import State
from rqueue.policy.verdict import Report, rule, rules_of
from rqueue.store import leases
from rqueue.store.leases import Verdict
from rqueue.store.replies import lease_fault

if TYPE_CHECKING:
    from rqueue.artifacts.shelf import Shelf
    from rqueue.client.lease import Lease
    from rqueue.clock import Clock
    from rqueue.model.attempt import Failed
    from rqueue.settings import Settings
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard


class Settler:
    """What a lease needs to end its attempt: the shard, the rules and, in `aside`, the dice.
    `shelf` is where results go that are too large.
    """

    def __init__(
        self, shard: Shard, reader: Reader, settings: Settings, clock: Clock, *, shelf: Shelf
    ) -> None:
        self.shard = shard
        self.shelf = shelf
        self.aside = Aside(shard, reader, settings)
        self.current = Current(settings)
        self.clock = clock
        self.max_result_bytes = settings.max_result_bytes

    async def fail(self, lease: Lease, outcome: Failed) -> State:
        """Ends a held attempt as failed, or sets its task aside where its service is limited;
        raises LeaseLost where it is not held.
        """
        if self.aside.takes(outcome) and await self.parked(lease, outcome):
            return State.RETRYING
        task = lease.task
        report = Report(lease.worker, outcome.message, self.clock.now())
        rules = rules_of(task.spec, self.current)
        ruling = rule(task, outcome, report, rules, random=self.aside.random)
        # By hand nobody knows what goes on: any process may still speak of the run.
        row = Verdict(lease.grant.task, lease.token, *ruling, owes="1")
        (word,) = await leases.fail(self.shard, [row])
        fault = lease_fault("task/fail", lease.id, lease.token, word)
        if fault is not None:
            raise fault
        return State(word)

    async def parked(self, lease: Lease, outcome: Failed) -> bool:
        """Whether the task was set aside. If not it is to fail: it was too often, or the lease is
        lost, as it is to a park when a failure that came after one is sent again.
        """
        row = Limited(lease.grant.task, lease.token, lease.task.type, outcome)
        (word,) = await self.aside.park([row])
        if word == CLAIMED:
            # Only what has begun can be set aside; what asked a service has.
            await lease.start()
            (word,) = await self.aside.park([row])
        return word == "OK"
