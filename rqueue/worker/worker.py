"""A worker: claims tasks and runs them. One round trip settles the finished tasks and claims for
the free slots.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from rqueue.clock import ended
from rqueue.core import leases
from rqueue.core.leases import HeldLease, Settled
from rqueue.core.timers import finish_unblocking
from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.producer.arguments import number_of
from rqueue.task.attempt.classify import log_fields
from rqueue.task.attempt.outcome import Failed, Reason
from rqueue.worker.executor import Executor
from rqueue.worker.heartbeat import Heartbeat
from rqueue.worker.registration import Registrar
from rqueue.worker.session import Session, WaitState
from rqueue.worker.slots import LOST, PREFETCH_SEC, RELEASED, Pace, Prefetch, Running, Slots

if TYPE_CHECKING:
    from rqueue.core.claim import Delivery, Exchanged, Grant
    from rqueue.task.lane import Offer
    from rqueue.worker.executor import Parts
    from rqueue.worker.shared_slots import SharedSlots


LOG = logging.getLogger("rqueue.worker")
# The upper bound of one claim; the next exchange claims more.
MAX_CLAIM = 500
MOST_SLOTS = 100_000
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.1, 5.0
CHECK_SEC = 0.1
# The minimum time that a stopped attempt gets to end.
LEAST_GRACE_SEC = 1.0
# With many running attempts the interval between two checks grows, so that checking stays cheap.
CHECKS_PER_SEC = 20_000
# A worker that ends and has nothing else to do waits this long for Redis.
REDIS_WAIT_SEC = 1.0


class Worker:
    """Runs the tasks of one queue. `run` returns after `drain` or `stop` was called."""

    def __init__(self, parts: Parts, offer: Offer, *, name: str, shared_slots: SharedSlots) -> None:
        self.parts = parts
        self.wake = asyncio.Event()
        self.shard = parts.shard
        self.name = name
        self.session = Session(parts.shard, name, offer)
        self.slots = Slots(shared_slots, self.attempt, self.wake.set)
        self.held: dict[str, str] = {}
        self.done: list[Settled] = []
        self.executor = Executor(parts, name, self.held, offer)
        self.beat = Heartbeat(
            parts.shard,
            name,
            self.held,
            every_sec=parts.settings.lease_sec / 3,
            lost=self.on_lease_lost,
        )
        self.loop: asyncio.AbstractEventLoop | None = None
        self.draining = False
        self.ending = asyncio.Event()
        self.stopping = False
        self.withdrawn = False
        self.pace = Pace()
        self.answered = False
        self.prefetch = Prefetch(parts.shard)
        self.begins = 0
        self.waiting_claim = WaitState(self.slots, self.wake.set)
        self.registrar = Registrar(self)

    async def run(self) -> None:
        """Works until `drain` or `stop` is called. Retries without limit while Redis is
        unavailable.
        """
        loop = asyncio.get_running_loop()
        self.loop = loop
        beat = self.beat
        async with AsyncExitStack() as stack:
            for lifespan in self.parts.hooks.lifespans:
                await stack.enter_async_context(lifespan(self.executor.state))
            beat.start()
            background = [
                loop.create_task(restarting(body))
                for body in (
                    self.registrar.keep,
                    self.listen,
                    partial(watch_attempts, self),
                    partial(housekeep, self),
                )
            ]
            try:
                await work_to_the_end(self)
            finally:
                for task in background:
                    task.cancel()
                await asyncio.gather(*background, return_exceptions=True)
                await self.slots.aclose()
                await self.registrar.leave()
                await asyncio.to_thread(beat.stop)
                await self.executor.aclose()

    def resize(self, concurrency: int) -> None:
        """Changes how many tasks run at the same time."""
        self.slots.shared_slots.size = number_of("concurrency", concurrency, most=MOST_SLOTS)
        self.slots.shared_slots.fill()
        self.wake.set()

    def drain(self) -> None:
        """Stops claiming; `run` returns when the running tasks have ended."""
        self.draining = True
        self.ending.set()
        self.wake.set()

    def stop(self) -> None:
        """Stops the running attempts and releases their tasks without spending an attempt; then
        `run` returns.
        """
        self.stopping, self.withdrawn = True, False
        self.drain()

    async def work(self) -> None:
        """The main loop: one exchange after another while there is something to settle or
        to claim.
        """
        pause = FIRST_PAUSE_SEC
        while True:
            self.wake.clear()
            if self.withdrawn and not self.slots.busy and not self.unsettled:
                return
            try:
                if self.draining and not self.withdrawn:
                    await withdraw(self)
                await self.fail()
                if self.done or self.session.unconfirmed or self.may_claim():
                    await self.exchange()
                pause = FIRST_PAUSE_SEC
            except RQueueError as error:
                self.handle_error(error)
                self.slots.shared_slots.set_unreachable(self.slots)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SEC)
                continue
            if not self.unsettled and (self.slots.busy if self.draining else not self.may_claim()):
                await self.wake.wait()

    def handle_error(self, error: RQueueError) -> None:
        """Logs an error of an exchange and continues; running tasks are not affected. Raises it
        when the first exchange was refused by Redis, since the configuration is wrong then.
        """
        if not self.answered and not isinstance(error, StoreUnavailable):
            raise error
        LOG.warning("redis unavailable, running tasks continue", extra={"error": str(error)})

    @property
    def unsettled(self) -> int:
        """How many attempts have ended and are not settled yet."""
        return len(self.done) + len(self.executor.failed)

    def may_claim(self) -> bool:
        """Whether there are free slots and no waiting claim that covers them."""
        return not self.waiting_claim.waiting and self.capacity() > 0

    def capacity(self) -> int:
        """How many tasks to claim: one for each free slot, and those that will start within a
        moment.
        """
        if self.draining:
            return 0
        return min(self.slots.shared_slots.capacity(self.slots, self.pace.prefetch), MAX_CLAIM)

    async def fail(self) -> None:
        """Settles the failed attempts."""
        failed = len(self.executor.failed)
        if failed:
            await self.executor.settle()
            self.pace.count(failed)

    async def exchange(self) -> None:
        """One exchange: settles the completed tasks, claims for the free slots and runs what was
        claimed.
        """
        capacity = self.capacity()
        self.begins = min(capacity, self.slots.shared_slots.free)
        with self.slots.shared_slots.claiming(self.slots):
            answer = (reply := await self.send_exchange(capacity)).answer
        self.answered = True
        self.waiting_claim.begin(answer.wait_ms / 1000)
        self.take(answer.grants)
        if reply.more:
            # If this fails, the promoter answers the remaining waiting claims.
            with suppress(RQueueError):
                await finish_unblocking(self.shard)

    async def send_exchange(self, capacity: int) -> Exchanged:
        """Sends one exchange. Results that could not be sent are kept for the next one."""
        # The list may grow during the call; later results belong to the next exchange.
        done, self.done = self.done, []
        self.executor.stats.claims(capacity)
        try:
            reply, lost = await self.session.exchange(done, capacity, min(capacity, self.begins))
        except RQueueError:
            self.done = done + self.done
            raise
        self.pace.count(len(done))
        self.executor.completed(done, reply.words)
        for lease in lost:
            self.lose(lease, LOST)
        return reply

    def take(self, grants: list[Grant]) -> None:
        """Runs claimed tasks. A grant that is held already was delivered twice and is skipped."""
        fresh = [grant for grant in grants if self.held.get(grant.task) != grant.token]
        for grant in fresh:
            # The task was lost and claimed again here: its first attempt may not continue.
            if grant.task in self.slots.running:
                self.slots.running[grant.task].stop(LOST)
            self.held[grant.task] = grant.token
        self.prefetch.note(fresh, self.begins)
        self.begins -= len(fresh)
        self.executor.stats.claimed(fresh, self.session.now_ms)
        self.slots.add(fresh)

    async def attempt(self, running: Running) -> None:
        """Runs one attempt to its end."""
        try:
            began = not running.stopped
            outcome = await self.executor.run(running) if began else self.executor.stopped(running)
        except BaseException as error:
            # An error of the code around a handler fails the attempt too.
            outcome = self.executor.broken(running, error)
        if not running.stuck:
            self.ended(running, outcome)
        self.wake.set()

    def ended(self, running: Running, outcome: bytes | Failed | None) -> None:
        """Keeps the outcome of an attempt for the next exchange."""
        grant = running.grant
        self.executor.settle_hooks.keep(running, outcome)
        self.prefetch.tokens.pop(grant.task, None)
        if outcome is None or running.stopped in (LOST, RELEASED):
            self.drop(grant)
            self.pace.count(running.stopped not in (LOST, RELEASED))
        elif isinstance(outcome, Failed):
            self.executor.fail(
                grant, outcome, exclusive=self.slots.shared_slots.exclusive_since(running.began)
            )
        else:
            self.done.append(Settled(grant.task, grant.token, outcome))
        self.wake.set()

    async def listen(self) -> None:
        """Reads the mailbox: tasks for a waiting claim, lost leases, and drain requests."""
        while True:
            delivery = await self.session.next_delivery(self.parts.settings.claim_wait_sec)
            if delivery is not None:
                self.take_delivery(delivery)
                # The delivered tasks start before the next blocking read.
                await asyncio.sleep(0)
                self.waiting_claim.end()

    def take_delivery(self, delivery: Delivery) -> None:
        """Runs the delivered tasks and stops those whose lease was lost. A draining worker leaves
        delivered tasks to others.
        """
        match delivery.words:
            case ["fenced", task, token]:
                self.lose(HeldLease(task, token), LOST)
            case ["drain", run]:
                self.registrar.on_drain(run)
        if not self.draining:
            self.take(self.session.delivered(delivery))

    def drop(self, lease: Grant | HeldLease | Settled) -> None:
        """Forgets a lease, unless the same task is held under another token."""
        if self.held.get(lease.task) == lease.token:
            del self.held[lease.task]
            self.prefetch.tokens.pop(lease.task, None)

    async def release(self, grants: list[Grant]) -> None:
        """Releases tasks. If Redis is unavailable, they are retried when their leases expire."""
        if not grants:
            return
        self.pace.forget()
        for grant in grants:
            self.drop(grant)
        with suppress(RQueueError):
            await leases.release(self.shard, [HeldLease(g.task, g.token) for g in grants])

    def on_lease_lost(self, lease: HeldLease, why: str) -> None:
        """Calls `lose` from the heartbeat's thread."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.lose, lease, why)

    def lose(self, lease: HeldLease, why: str) -> None:
        """Stops the attempt of a lease that is no longer held, or removes it from the queue of
        ready tasks.
        """
        running = self.slots.running.get(lease.task)
        if running is not None and running.grant.token == lease.token:
            # A suspended task left its lease by itself; the reply of its spawn call contains
            # its state.
            if not running.stopped and not (running.may_suspend and why == LOST):
                self.executor.lost(lease, why)
                running.stop(why)
        elif why == LOST and self.slots.forget(lease):
            # A finished attempt is settled by the next exchange, whose reply reports the lost
            # lease.
            self.executor.lost(lease, why)
            self.drop(lease)


async def restarting(body: Callable[[], Awaitable[None]]) -> None:
    """Runs a background loop of a worker and restarts it after an exception. Without the loop the
    worker would silently miss deliveries or timeouts.
    """
    while True:
        try:
            await body()
        except Exception as error:
            # Any exception restarts the loop. A cancel is not an Exception and ends it.
            LOG.error("background loop failed, restarting", extra=log_fields(error))
        await asyncio.sleep(CHECK_SEC)


async def watch_attempts(worker: Worker) -> None:
    """Reports the event loop as alive, stops attempts that exceed their timeout, and gives up those
    that do not stop.
    """
    grace_sec = max(worker.parts.settings.timeout_grace_sec, LEAST_GRACE_SEC)
    while True:
        worker.beat.mark_alive()
        for running in worker.slots.overdue():
            running.stop(Reason.TIMEOUT)
        for running in worker.slots.unresponsive(grace_sec):
            give_up(worker, running)
        await asyncio.sleep(CHECK_SEC + len(worker.slots.running) / CHECKS_PER_SEC)


def give_up(worker: Worker, running: Running) -> None:
    """Settles an attempt whose code continues after it was stopped. A coroutine that ignores its
    cancel keeps its slot, but not its task.
    """
    worker.slots.give_up(running)
    worker.executor.stats.stuck(running.grant, running.stopped)
    # Without a token the task was completed before it ran.
    worker.ended(running, worker.executor.stopped(running) if running.grant.token else None)


async def housekeep(worker: Worker) -> None:
    """Releases tasks that found no slot in time, and reports prefetched tasks that have started.
    Separate from `watch_attempts`, which must not wait for Redis.
    """
    while True:
        await worker.release(worker.slots.remove_overdue(2 * PREFETCH_SEC))
        with suppress(RQueueError):
            await worker.prefetch.report_started(worker.slots.running)
        await asyncio.sleep(CHECK_SEC)


async def work_to_the_end(worker: Worker) -> None:
    """Works until everything is settled or released. If Redis is unavailable at the end, the
    remaining tasks are retried when their leases expire.
    """
    working = asyncio.create_task(worker.work())
    ending = asyncio.create_task(worker.ending.wait())
    try:
        await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        since = time.monotonic()
        while not working.done():
            if not waits_for_server(worker):
                since = time.monotonic()
            elif time.monotonic() - since > REDIS_WAIT_SEC:
                log_unsettled(worker)
                return
            await asyncio.wait({working}, timeout=CHECK_SEC)
        working.result()
    finally:
        await ended([working, ending])


def waits_for_server(worker: Worker) -> bool:
    """Whether the only work left of an ending worker is a call to Redis. Until the grace period is
    over, finished attempts still count, so it waits for them.
    """
    if worker.stopping:
        return not worker.withdrawn or bool(worker.held)
    return not worker.slots.busy and not worker.held


def log_unsettled(worker: Worker) -> None:
    """Logs how many leases are left behind, if any."""
    if worker.held:
        LOG.warning(
            "redis unavailable at shutdown, tasks are retried when their leases expire",
            extra={"leases": len(worker.held)},
        )


async def withdraw(worker: Worker) -> None:
    """Withdraws the waiting claim first: released tasks would be delivered to it."""
    reply = await worker.send_exchange(0)
    stopping = worker.stopping
    given = [grant for grant in reply.answer.grants if grant.task not in worker.held]
    given += worker.slots.ready
    worker.slots.ready.clear()
    if stopping:
        worker.executor.runners.subprocesses.kill()
        running = list(worker.slots.running.values())
        given += [one.grant for one in running]
        for one in running:
            one.stop(RELEASED)
    worker.waiting_claim.forget()
    worker.slots.shared_slots.retire(worker.slots)
    await worker.release(given)
    # `stop` may have been called meanwhile; then it runs once more.
    worker.withdrawn = worker.stopping == stopping
