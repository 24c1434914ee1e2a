"""A worker: claims tasks, runs them, and settles what has finished and fills what is free in one
round trip.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from rqueue.client.door import number_of
from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.model.attempt import Failed
from rqueue.services.ahead import Ahead
from rqueue.services.desk import Desk
from rqueue.services.heartbeat import Heartbeat
from rqueue.services.leaving import leave, work_to_the_end
from rqueue.services.pace import Pace
from rqueue.services.parking import Parking
from rqueue.services.registering import Registering
from rqueue.services.slots import LOST, RELEASED, Running, Slots
from rqueue.services.talk import Talk
from rqueue.services.tending import kept, look, tidy
from rqueue.store import leases
from rqueue.store.leases import Held, Settled
from rqueue.store.passage import go_on

if TYPE_CHECKING:
    from rqueue.policy.capability import Offer
    from rqueue.services.desk import Parts
    from rqueue.services.seats import Seats
    from rqueue.store.claims import Grant, Turned
    from rqueue.store.mail import Mail

LOG = logging.getLogger("rqueue.worker")
# One call gives at most so many; the next one goes on.
MOST_AT_ONCE = 500
MOST_SLOTS = 100_000
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.1, 5.0


class Worker:
    """Runs the tasks of one queue. `run` returns after `drain` or `stop` was called."""

    def __init__(self, parts: Parts, offer: Offer, *, name: str, seats: Seats) -> None:
        self.parts = parts
        self.wake = asyncio.Event()
        self.shard = parts.shard
        self.name = name
        self.talk = Talk(parts.shard, name, offer)
        self.slots = Slots(seats, self.attempt, self.wake.set)
        self.held: dict[str, str] = {}
        self.done: list[Settled] = []
        self.desk = Desk(parts, name, self.held, offer)
        self.beat = Heartbeat(
            parts.shard,
            name,
            self.held,
            every_sec=parts.settings.lease_sec / 3,
            lost=self.told_lost,
        )
        self.loop: asyncio.AbstractEventLoop | None = None
        self.draining = False
        self.ending = asyncio.Event()
        self.stopping = False
        self.left = False
        self.pace = Pace()
        self.heard = False
        self.ahead = Ahead(parts.shard)
        self.begins = 0
        self.parking = Parking(self.slots, self.wake.set)
        self.registering = Registering(self)

    async def run(self) -> None:
        """Works until it is told to stop; a server that is away is waited for, for ever."""
        loop = asyncio.get_running_loop()
        self.loop = loop
        beat = self.beat
        async with AsyncExitStack() as stack:
            for lifespan in self.parts.hooks.lifespans:
                await stack.enter_async_context(lifespan(self.desk.state))
            beat.start()
            background = [
                loop.create_task(kept(body))
                for body in (
                    self.registering.keep,
                    self.listen,
                    partial(look, self),
                    partial(tidy, self),
                )
            ]
            try:
                await work_to_the_end(self)
            finally:
                for task in background:
                    task.cancel()
                await asyncio.gather(*background, return_exceptions=True)
                await self.slots.aclose()
                await self.registering.leave()
                await asyncio.to_thread(beat.stop)
                await self.desk.aclose()

    def resize(self, concurrency: int) -> None:
        """Runs so many tasks at once from now on."""
        self.slots.seats.size = number_of("concurrency", concurrency, most=MOST_SLOTS)
        self.slots.seats.fill()
        self.wake.set()

    def drain(self) -> None:
        """Claims nothing more; `run` returns when what is in hand has ended."""
        self.draining = True
        self.ending.set()
        self.wake.set()

    def stop(self) -> None:
        """Ends what runs and gives it back at once, no attempt spent; then `run` returns."""
        self.stopping, self.left = True, False
        self.drain()

    async def work(self) -> None:
        """One turn after the other: at once while there is something to settle or to fill."""
        pause = FIRST_PAUSE_SEC
        while True:
            self.wake.clear()
            if self.left and not self.slots.busy and not self.unsettled:
                return
            try:
                if self.draining and not self.left:
                    await leave(self)
                await self.fail()
                if self.done or self.talk.unconfirmed or self.may_claim():
                    await self.turn()
                pause = FIRST_PAUSE_SEC
            except RQueueError as error:
                self.excuse(error)
                self.slots.seats.lose(self.slots)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SEC)
                continue
            if not self.unsettled and (self.slots.busy if self.draining else not self.may_claim()):
                await self.wake.wait()

    def excuse(self, error: RQueueError) -> None:
        """Goes on in spite of an error. Refused at the start, a worker ends; later it is for the
        server's people to mend, and what is in hand goes on meanwhile.
        """
        if not self.heard and not isinstance(error, StoreUnavailable):
            raise error
        LOG.warning("server away; what is in hand goes on", extra={"error": str(error)})

    @property
    def unsettled(self) -> int:
        """What has finished and is not yet told."""
        return len(self.done) + len(self.desk.failed)

    def may_claim(self) -> bool:
        """Whether there is room that no parked claim covers."""
        return not self.parking.parked and self.room() > 0

    def room(self) -> int:
        """How many tasks to ask for: the free slots, and what starts within a moment."""
        if self.draining:
            return 0
        return min(self.slots.seats.room(self.slots, self.pace.ahead), MOST_AT_ONCE)

    async def fail(self) -> None:
        """Settles the attempts that have failed."""
        failed = len(self.desk.failed)
        if failed:
            await self.desk.settle()
            self.pace.count(failed)

    async def turn(self) -> None:
        """Settles what is done and fills what is free."""
        room = self.room()
        self.begins = min(room, self.slots.seats.free)
        with self.slots.seats.asking(self.slots):
            answer = (turned := await self.turned(room)).answer
        self.heard = True
        self.parking.begin(answer.wait_ms / 1000)
        self.take(answer.grants)
        if turned.more:
            # The promoter tells and answers who is left, should this fail.
            with suppress(RQueueError):
                await go_on(self.shard)

    async def turned(self, room: int) -> Turned:
        """One call of the conversation; what could not be told stays to be told."""
        # It may grow while the call is under way: what comes then is for the next one.
        done, self.done = self.done, []
        self.desk.ledger.claims(room)
        try:
            turned, lost = await self.talk.turn(done, room, min(room, self.begins))
        except RQueueError:
            self.done = done + self.done
            raise
        self.pace.count(len(done))
        self.desk.completed(done, turned.words)
        for lease in lost:
            self.lose(lease, LOST)
        return turned

    def take(self, grants: list[Grant]) -> None:
        """Runs what was claimed; one that is in hand already came a second time."""
        fresh = [grant for grant in grants if self.held.get(grant.task) != grant.token]
        for grant in fresh:
            # One that was lost and comes back here: its first code has no right to go on.
            if grant.task in self.slots.running:
                self.slots.running[grant.task].stop(LOST)
            self.held[grant.task] = grant.token
        self.ahead.note(fresh, self.begins)
        self.begins -= len(fresh)
        self.desk.ledger.claimed(fresh, self.talk.now_ms)
        self.slots.give(fresh)

    async def attempt(self, running: Running) -> None:
        """Runs one task to its end."""
        try:
            began = not running.stopped
            outcome = await self.desk.run(running) if began else self.desk.stopped(running)
        except BaseException as error:
            # Whatever went wrong around a handler is a failure of its attempt, too.
            outcome = self.desk.broken(running, error)
        if not running.stuck:
            self.ended(running, outcome)
        self.wake.set()

    def ended(self, running: Running, outcome: bytes | Failed | None) -> None:
        """Keeps how an attempt ended for the next turn."""
        grant = running.grant
        self.desk.aftermath.keep(running, outcome)
        self.ahead.tokens.pop(grant.task, None)
        if outcome is None or running.stopped in (LOST, RELEASED):
            self.drop(grant)
            self.pace.count(running.stopped not in (LOST, RELEASED))
        elif isinstance(outcome, Failed):
            self.desk.fail(grant, outcome, alone=self.slots.seats.alone_since(running.began))
        else:
            self.done.append(Settled(grant.task, grant.token, outcome))
        self.wake.set()

    async def listen(self) -> None:
        """Reads the mail: work that was brought to a parked claim, or news of lanes."""
        while True:
            mail = await self.talk.mail(self.parts.settings.park_sec)
            if mail is not None:
                self.take_mail(mail)
                # What was brought begins first: the next read can wait for it, not it for the read.
                await asyncio.sleep(0)
                self.parking.end()

    def take_mail(self, mail: Mail) -> None:
        """Runs what was brought at once, and stops what was taken away; one that ends leaves it to
        be given to others.
        """
        match mail.words:
            case ["fenced", task, token]:
                self.lose(Held(task, token), LOST)
            case ["drain", run]:
                self.registering.hear(run)
        if not self.draining:
            self.take(self.talk.brought(mail))

    def drop(self, lease: Grant | Held | Settled) -> None:
        """Forgets a lease, unless the same task has come again under another."""
        if self.held.get(lease.task) == lease.token:
            del self.held[lease.task]
            self.ahead.tokens.pop(lease.task, None)

    async def release(self, grants: list[Grant]) -> None:
        """Gives tasks back; out of reach, they come back when their leases expire."""
        if not grants:
            return
        self.pace.forget()
        for grant in grants:
            self.drop(grant)
        with suppress(RQueueError):
            await leases.release(self.shard, [Held(g.task, g.token) for g in grants])

    def told_lost(self, lease: Held, why: str) -> None:
        """`lose`, from the heartbeat's thread."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.lose, lease, why)

    def lose(self, lease: Held, why: str) -> None:
        """A lease is no longer held: its code is stopped, or does not begin."""
        running = self.slots.running.get(lease.task)
        if running is not None and running.grant.token == lease.token:
            # One that leaves by itself hears from the server what became of its task.
            if not running.stopped and not (running.leaving and why == LOST):
                self.desk.lost(lease, why)
                running.stop(why)
        elif why == LOST and self.slots.forget(lease):
            # What has finished is on its way to be settled: the answer to that tells.
            self.desk.lost(lease, why)
            self.drop(lease)
