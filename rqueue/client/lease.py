"""A lease by hand, as tests, HTTP and shell use it; a worker's own loop settles in batches."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rqueue.artifacts.results import stow
from rqueue.client.door import word_of
from rqueue.client.inputs import filled, refers
from rqueue.errors import InvalidTask, LeaseLost, TaskError
from rqueue.model.attempt import Cause, Failed, Reason
from rqueue.model.checked import within_a_year
from rqueue.model.codec import encode
from rqueue.model.ids import TaskId
from rqueue.model.note import Note, model_of
from rqueue.store import leases
from rqueue.store.claims import Grant
from rqueue.store.leases import Held, Parking, Settled
from rqueue.store.notes import note
from rqueue.store.replies import lease_fault
from rqueue.store.stored import claimed

if TYPE_CHECKING:
    from rqueue.client.claimer import HandClaim
    from rqueue.client.settler import Settler
    from rqueue.model.state import State
    from rqueue.model.task import Task


class Lease:
    """A task in hand. Every call shows the token; one that is no longer held raises LeaseLost."""

    def __init__(self, grant: Grant, worker: str, settler: Settler) -> None:
        self.grant = grant
        self.worker = worker
        self.settler = settler
        self.id = TaskId.from_ulid(grant.task)
        self.token = grant.token
        self.held = Held(grant.task, grant.token)

    def __repr__(self) -> str:
        return f"Lease({self.id}, {self.token.split(':')[0]})"

    @cached_property
    def task(self) -> Task:
        """The task as it was claimed; where it cannot be read, it says so."""
        return claimed(self.grant)

    @property
    def payload(self) -> Any:
        """The producer's input, with the outputs of other tasks that it is given."""
        return self.task.payload

    async def fill(self) -> bool:
        """Gives the task what it is to have of others. Where that is not there, the attempt has
        failed for good: False.
        """
        if not refers(self.grant.definition) or self.task.unreadable is not None:
            return True
        try:
            self.task = await filled(self.settler.shard, self.settler.shelf, self.task)
        except InvalidTask as error:
            with suppress(TaskError):
                await self.fail(Reason.ERROR, str(error), permanent=True)
            return False
        return True

    async def start(self) -> None:
        """Says that the work begins: CLAIMED to RUNNING."""
        self.judge("task/start", await leases.start(self.settler.shard, [self.held]))

    async def validate(self) -> None:
        """Says that the output is being checked: RUNNING to VALIDATING."""
        self.judge("task/validate", await leases.validate(self.settler.shard, [self.held]))

    async def renew(self) -> None:
        """Keeps the lease for its time anew. What has run or waited too long is failed instead,
        and raises LeaseLost.
        """
        (word,) = await leases.renew(self.settler.shard, self.worker, [self.held])
        if word in (Reason.CLAIM_EXPIRED, Reason.TIMEOUT):
            await self.settler.fail(
                self, Failed(Reason(word), f"{word}: the lease was not renewed")
            )
            raise LeaseLost(self.id, self.token)
        self.judge("task/renew", [word])

    async def spend(
        self,
        usd: float = 0.0,
        *,
        tokens_in: int = 0,
        tokens_out: int = 0,
        model: str | None = None,
    ) -> None:
        """Adds to what the task has cost, for a model where one is named. Raises BudgetExceeded
        where that is more than it may, or than its budgets have left: fail the attempt then, with
        the reason `budget_exceeded`.
        """
        named = model_of(model)
        said = Note(usd=usd, tokens_in=tokens_in, tokens_out=tokens_out, model=named)
        await note(self.settler.shard, self.held, said)

    async def complete(self, result: object = None) -> None:
        """Ends the task well: its result is stored, and what waited for it goes on."""
        settler = self.settler
        limit = max(settler.max_result_bytes, settler.shelf.rules.max_result_bytes)
        data = b"" if result is None else encode(result, field="result", max_bytes=limit)
        if len(data) > settler.max_result_bytes:
            data = await stow(settler.shelf, self.id, data)
        row = Settled(self.grant.task, self.token, data)
        self.judge("task/complete", await leases.complete(self.settler.shard, [row]))

    async def fail(
        self,
        reason: str = Reason.ERROR,
        message: str = "",
        *,
        permanent: bool = False,
        retry_after: float | None = None,
    ) -> State:
        """Ends the attempt as failed; the policy decides whether it is tried again. With the reason
        `rate_limit` the task is set aside as a worker's is: no attempt is spent, nothing is kept of
        the message, and others of its type wait, too.

        Returns RETRYING or DEAD_LETTERED.
        """
        cause = Cause.WITHIN if retry_after is None else Cause.ASKED
        outcome = Failed(reason_named(reason), message, permanent, retry_after, cause)
        return await self.settler.fail(self, outcome)

    async def park(self, seconds: float, reason: str = Reason.RATE_LIMIT) -> None:
        """Sets the task aside for a while; no attempt is spent, and others of its type go on: where
        they should not, since a service is limited, `fail` with `rate_limit`.
        """
        delay_ms = within_a_year("seconds", seconds)
        why = reason_named(reason)
        row = Parking(self.grant.task, self.token, delay_ms, why, self.task.type)
        self.judge("task/park", await leases.park(self.settler.shard, [row]))

    async def release(self) -> None:
        """Gives the task back unused: READY again at its old place, no attempt spent."""
        self.judge("task/release", await leases.release(self.settler.shard, [self.held]))

    def judge(self, script: str, words: list[str]) -> None:
        """Raises what the answer means, if it is not OK."""
        fault = lease_fault(script, self.id, self.token, words[0])
        if fault is not None:
            raise fault


async def handed_out(claim: HandClaim, n: int, wait_sec: float, *, settler: Settler) -> list[Lease]:
    """The leases of up to `n` tasks, at once if there are any, else those that come in time; each
    task has what it is given of others.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_sec
    while grants := await claim.claim(n, max(0.0, until - loop.time())):
        leases = [Lease(grant, claim.waiter.consumer, settler) for grant in grants]
        whole = [lease for lease in leases if await lease.fill()]
        if whole:
            return whole
        claim = claim.again()
    return []


def taken_up(task: Task, token: str, worker: str | None, settler: Settler) -> Lease:
    """The lease of a task that was read, for who has its token; its holder's where none is named.

    The task is read first and the token judged by each call: whatever changed since means LOST.
    """
    holder = worker or (task.claim.agent_id if task.claim else "")
    created_ms = round(task.created_at.timestamp() * 1000)
    counted = (task.attempts, task.reclaims, created_ms)
    lease = Lease(Grant(task.id.ulid, token, *counted, b"", b""), holder, settler)
    lease.task = task
    return lease


def reason_named(word: str) -> Reason:
    """The reason of this name; raises InvalidTask with all of them where there is none."""
    return word_of("reason", word, Reason)
