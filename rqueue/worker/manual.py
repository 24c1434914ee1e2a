"""Manual leases for tests, HTTP and the shell; a worker settles in batches instead."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rqueue.core import leases
from rqueue.core.claim import Answer, Grant, WaitingClaim, new_mailbox, read_mailbox
from rqueue.core.leases import HeldLease, Parked, Settled
from rqueue.core.notes import note
from rqueue.core.reader import claimed_task
from rqueue.errors import InvalidTask, LeaseLost, RQueueError, StoreUnavailable, TaskError
from rqueue.producer.arguments import word_of
from rqueue.store.replies import lease_fault
from rqueue.task.attempt.outcome import Cause, Failed, Reason
from rqueue.task.codec import encode
from rqueue.task.fields import within_a_year
from rqueue.task.ids import TaskId
from rqueue.task.task import Note, model_of
from rqueue.worker.context.inputs import filled, refers, store_result

if TYPE_CHECKING:
    from rqueue.store.shard import Shard
    from rqueue.task.lane import Offer
    from rqueue.task.state import State
    from rqueue.task.task import Task
    from rqueue.worker.settle import Settler


# Keeps a reference, so that the tasks are not garbage collected while they run.
LEAVING: set[asyncio.Task[None]] = set()


class Lease:
    """A leased task. Every call sends the token and raises LeaseLost if the lease is no longer
    held.
    """

    def __init__(self, grant: Grant, worker: str, settler: Settler) -> None:
        self.grant = grant
        self.worker = worker
        self.settler = settler
        self.id = TaskId.from_ulid(grant.task)
        self.token = grant.token
        self.held = HeldLease(grant.task, grant.token)

    def __repr__(self) -> str:
        return f"Lease({self.id}, {self.token.split(':')[0]})"

    @cached_property
    def task(self) -> Task:
        """The task as it was claimed; one that cannot be read has `unreadable` set."""
        return claimed_task(self.grant)

    @property
    def payload(self) -> Any:
        """The payload, with the outputs of other tasks that it refers to."""
        return self.task.payload

    async def fill(self) -> bool:
        """Fills the task's references. If one is missing, fails the attempt permanently and returns
        False.
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
        """Starts the work: CLAIMED to RUNNING."""
        self.raise_for("task/start", await leases.start(self.settler.shard, [self.held]))

    async def validate(self) -> None:
        """Reports that the output is being checked: RUNNING to VALIDATING."""
        self.raise_for("task/validate", await leases.validate(self.settler.shard, [self.held]))

    async def renew(self) -> None:
        """Renews the lease. A task that has exceeded its timeout or its claim time is failed
        instead, and LeaseLost is raised.
        """
        (word,) = await leases.renew(self.settler.shard, self.worker, [self.held])
        if word in (Reason.CLAIM_EXPIRED, Reason.TIMEOUT):
            await self.settler.fail(
                self, Failed(Reason(word), f"{word}: the lease was not renewed")
            )
            raise LeaseLost(self.id, self.token)
        self.raise_for("task/renew", [word])

    async def spend(
        self,
        usd: float = 0.0,
        *,
        tokens_in: int = 0,
        tokens_out: int = 0,
        model: str | None = None,
    ) -> None:
        """Adds to the task's cost, for a model if one is named. Raises BudgetExceeded if that is
        more than its limit or than its budgets have left; fail the attempt then with the reason
        `budget_exceeded`.
        """
        named = model_of(model)
        report = Note(usd=usd, tokens_in=tokens_in, tokens_out=tokens_out, model=named)
        await note(self.settler.shard, self.held, report)

    async def complete(self, result: object = None) -> None:
        """Completes the task: stores its result and unblocks its dependents."""
        settler = self.settler
        limit = max(settler.max_result_bytes, settler.shelf.rules.max_result_bytes)
        data = b"" if result is None else encode(result, field="result", max_bytes=limit)
        if len(data) > settler.max_result_bytes:
            data = await store_result(settler.shelf, self.id, data)
        row = Settled(self.grant.task, self.token, data)
        self.raise_for("task/complete", await leases.complete(self.settler.shard, [row]))

    async def fail(
        self,
        reason: str = Reason.ERROR,
        message: str = "",
        *,
        permanent: bool = False,
        retry_after: float | None = None,
    ) -> State:
        """Ends the attempt as failed; the policy decides whether it is retried. With the reason
        `rate_limit` the task is parked: no attempt is spent, the message is not kept, and other
        tasks of its type wait too.

        Returns RETRYING or DEAD_LETTERED.
        """
        cause = Cause.WITHIN if retry_after is None else Cause.REQUESTED
        outcome = Failed(reason_named(reason), message, permanent, retry_after, cause)
        return await self.settler.fail(self, outcome)

    async def park(self, seconds: float, reason: str = Reason.RATE_LIMIT) -> None:
        """Parks the task for a while without spending an attempt. Other tasks of its type are not
        delayed; use `fail` with `rate_limit` if they should be.
        """
        delay_ms = within_a_year("seconds", seconds)
        why = reason_named(reason)
        row = Parked(self.grant.task, self.token, delay_ms, why, self.task.type)
        self.raise_for("task/park", await leases.park(self.settler.shard, [row]))

    async def release(self) -> None:
        """Releases the task: READY again at its old place, no attempt spent."""
        self.raise_for("task/release", await leases.release(self.settler.shard, [self.held]))

    def raise_for(self, move: str, words: list[str]) -> None:
        """Raises the error of a reply that is not OK."""
        fault = lease_fault(move, self.id, self.token, words[0])
        if fault is not None:
            raise fault


async def claim_leases(
    claim: ManualClaim, n: int, wait_sec: float, *, settler: Settler
) -> list[Lease]:
    """The leases of up to `n` tasks, immediately if there are any, else the first within
    `wait_sec`. The references of each are filled.
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


def lease_of(task: Task, token: str, worker: str | None, settler: Settler) -> Lease:
    """The lease of a task that was read, for the holder of its token; `worker` defaults to the
    current holder.

    The token is checked by each call, so a change since the read raises LeaseLost.
    """
    holder = worker or (task.claim.agent_id if task.claim else "")
    created_ms = round(task.created_at.timestamp() * 1000)
    counted = (task.attempts, task.reclaims, created_ms)
    lease = Lease(Grant(task.id.ulid, token, *counted, b"", b""), holder, settler)
    lease.task = task
    return lease


def reason_named(word: str) -> Reason:
    """The reason of this name; raises InvalidTask, which lists all reasons."""
    return word_of("reason", word, Reason)


class ManualClaim:
    """One manual claim under a waiter name of its own, so that many may run under one
    worker name.
    """

    def __init__(self, shard: Shard, worker: str, offer: Offer) -> None:
        self.shard = shard
        name = f"{worker}/{secrets.token_hex(8)}"
        self.waiter = WaitingClaim(shard, worker, offer, name=name, lasts=False)
        # All grants so far: those that the caller does not get must be released.
        self.given: dict[str, Grant] = {}

    def again(self) -> ManualClaim:
        """Another claim for the same worker and offer."""
        return ManualClaim(self.shard, self.waiter.consumer, self.waiter.offer)

    async def send_claim(self, n: int, *, wait_ms: int = 0) -> Answer:
        """Sends a claim and remembers its grants."""
        answer = await self.waiter.claim(n, wait_ms=wait_ms)
        self.given |= {grant.task: grant for grant in answer.grants}
        return answer

    async def claim(self, n: int, wait_sec: float) -> list[Grant]:
        """Up to `n` tasks, immediately if there are any, else the first within `wait_sec`."""
        try:
            answer = await self.send_claim(n)
            if answer.grants or wait_sec <= 0:
                return answer.grants
            return await self.wait(n, asyncio.get_running_loop().time() + wait_sec)
        except (asyncio.CancelledError, StoreUnavailable):
            # Tasks granted to a cancelled caller would be unavailable until their leases expire.
            LEAVING.add(task := asyncio.get_running_loop().create_task(self.leave()))
            task.add_done_callback(LEAVING.discard)
            raise

    async def wait(self, n: int, until: float) -> list[Grant]:
        """Waits for tasks and reads the mailbox until the time is over."""
        loop = asyncio.get_running_loop()
        while (left := until - loop.time()) > 0:
            wait_ms = min(round(left * 1000) + 1, self.shard.terms.claim_wait_ms)
            answer = await self.send_claim(n, wait_ms=wait_ms)
            if not answer.grants:
                await self.listen(min(left, wait_ms / 1000))
                await self.send_claim(n)
            elif answer.wait_ms:
                await self.send_claim(0)
            if self.given:
                return list(self.given.values())
        return []

    async def listen(self, wait_sec: float) -> None:
        """Waits for a delivery; the next claim returns its grants."""
        try:
            await read_mailbox(self.shard, self.waiter.mailbox, wait_sec)
        except StoreUnavailable:
            self.waiter.mailbox = new_mailbox()

    async def leave(self) -> None:
        """Withdraws the waiting claim and releases its grants."""
        try:
            # Repeats the last claim: its reply may have been lost when the caller was cancelled.
            self.waiter.seq -= 1
            await self.send_claim(0)
            await self.send_claim(0)
            if self.given:
                held = [HeldLease(grant.task, grant.token) for grant in self.given.values()]
                await leases.release(self.shard, held)
        except RQueueError:
            # Redis is unavailable: the grants expire by themselves.
            return
