"""Ends failed attempts as the policy decides: the same decision for worker and reaper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.model.attempt import AttemptRecord, Failed, Reason
from rqueue.model.state import State
from rqueue.policy.retry import Again, Bury, Facts, RetryRules, decide
from rqueue.store import leases
from rqueue.store.leases import Verdict
from rqueue.store.replies import lease_fault

if TYPE_CHECKING:
    from random import Random

    from rqueue.client.lease import Lease
    from rqueue.clock import Clock
    from rqueue.model.spec import TaskSpec
    from rqueue.settings import Settings
    from rqueue.store.shard import Shard

# Error texts are cut: a traceback of megabytes must not fill the server.
MAX_ERROR = 8192


class Settler:
    """What a lease needs to end its attempt: the shard, the rules and the dice."""

    def __init__(self, shard: Shard, settings: Settings, clock: Clock, random: Random) -> None:
        self.shard = shard
        self.settings = settings
        self.clock = clock
        self.random = random
        self.max_result_bytes = settings.max_result_bytes

    async def fail(self, lease: Lease, outcome: Failed) -> State:
        """Ends a held attempt as failed; raises LeaseLost where it is not held."""
        facts = Facts(lease.grant.attempts, lease.grant.reclaims)
        spec = lease.task.spec
        decision = decide(outcome, facts, self.rules(spec), self.random)
        record = AttemptRecord(
            attempt=decision.attempts,
            epoch=lease.task.epoch,
            agent=lease.worker,
            reason=outcome.reason,
            error=storable(outcome.message),
            at=self.clock.now(),
        )
        row = Verdict(
            lease.grant.task,
            lease.token,
            delay_of(decision),
            decision.attempts,
            decision.reclaims,
            reason_of(decision, outcome.reason),
            record.model_dump_json(exclude_defaults=True),
        )
        (word,) = await leases.fail(self.shard, [row])
        fault = lease_fault("task/fail", lease.id, lease.token, word)
        if fault is not None:
            raise fault
        return State(word)

    def rules(self, spec: TaskSpec) -> RetryRules:
        """What the task and the queue allow."""
        return rules_of(spec, self.settings)


def storable(text: str) -> str:
    """An error's text as every store can keep it: whatever a handler raised, its end is kept."""
    cut = text[:MAX_ERROR].replace("\0", "\ufffd")
    return cut.encode(errors="replace").decode()


def rules_of(spec: TaskSpec, settings: Settings) -> RetryRules:
    """The retry rules of a task: its own where it says so, else its queue's."""
    preset = settings.retry or settings.preset.retry
    return RetryRules(
        policy=spec.retry or preset,
        max_attempts=spec.max_attempts,
        lost_worker_counts=settings.lost_worker_counts,
        max_reclaims=settings.max_reclaims,
    )


def delay_of(decision: Again | Bury) -> str:
    """The delay as scripts read it: milliseconds, or nothing for dead."""
    return str(round(decision.delay_sec * 1000)) if isinstance(decision, Again) else ""


def reason_of(decision: Again | Bury, reason: Reason) -> str:
    """The word that is kept with the task."""
    return decision.reason if isinstance(decision, Bury) else str(reason)
