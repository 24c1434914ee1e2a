"""A worker: claims tasks, runs them, and settles what has finished and fills what is free in one
round trip.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

from rqueue.errors import RQueueError, StoreUnavailable
from rqueue.model.attempt import Failed, Reason
from rqueue.services.desk import LOST, RELEASED, Desk
from rqueue.services.heartbeat import Heartbeat
from rqueue.services.slots import Running, Slots
from rqueue.store import leases
from rqueue.store.claims import Grant, Turned, Waiter, new_box
from rqueue.store.leases import Held, Settled
from rqueue.store.mail import read_mail
from rqueue.store.queue import answer_all

if TYPE_CHECKING:
    from rqueue.policy.capability import Offer
    from rqueue.services.desk import Parts

LOG = logging.getLogger("rqueue.worker")
# A worker claims ahead what it will start within this time, and gives back what it did not.
AHEAD_SEC = 0.05
MOST_AHEAD = 500
LOOK_SEC = 0.1
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.1, 5.0
# A parked claim is renewed before its time is up.
PARK_SHARE = 0.8


def worker_name() -> str:
    """A name that no other worker has: where it runs, and a random end."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


class Worker:
    """Runs the tasks of one queue. `run` returns after `drain` or `stop` was called."""

    def __init__(self, parts: Parts, offer: Offer, *, name: str, concurrency: int) -> None:
        self.parts = parts
        self.shard = parts.shard
        self.name = name
        self.waiter = Waiter(parts.shard, name, offer, name=name, lasts=True)
        self.slots = Slots(concurrency, self.attempt)
        self.held: dict[str, str] = {}
        self.done: list[Settled] = []
        self.desk = Desk(parts, name)
        self.beat = Heartbeat(
            parts.shard,
            name,
            self.held,
            every_sec=parts.settings.lease_sec / 3,
            lost=self.told_lost,
        )
        self.loop: asyncio.AbstractEventLoop | None = None
        self.wake = asyncio.Event()
        self.draining = False
        self.stopping = False
        self.left = False
        self.parked = False
        self.rate = 0.0
        self.since, self.lately = time.monotonic(), 0
        self.parked_until = 0.0
        self.finished = 0

    # The life of a worker.

    async def run(self) -> None:
        """Works until it is told to stop; a server that is away is waited for, for ever."""
        loop = asyncio.get_running_loop()
        self.loop = loop
        beat = self.beat
        async with AsyncExitStack() as stack:
            for lifespan in self.parts.hooks.lifespans:
                await stack.enter_async_context(lifespan(self.desk.state))
            self.desk.threads = ThreadPoolExecutor(max_workers=max(self.slots.size, 1))
            beat.start()
            background = [
                loop.create_task(self.listen()),
                loop.create_task(self.look(beat)),
            ]
            try:
                await self.work()
            finally:
                for task in background:
                    task.cancel()
                await asyncio.gather(*background, return_exceptions=True)
                await asyncio.to_thread(beat.stop)
                self.desk.threads.shutdown(wait=False, cancel_futures=True)

    def resize(self, concurrency: int) -> None:
        """Runs so many tasks at once from now on."""
        self.slots.size = concurrency
        self.slots.fill()
        self.wake.set()

    def drain(self) -> None:
        """Claims nothing more; `run` returns when what is in hand has ended."""
        self.draining = True
        self.wake.set()

    def stop(self) -> None:
        """Ends what runs and gives it back at once, no attempt spent; then `run` returns."""
        self.stopping, self.left = True, False
        self.drain()

    async def leave(self) -> None:
        """Takes back the parked claim first: what is given back would be brought to it."""
        turned = await self.turned(self.done, 0)
        given = [grant for grant in turned.answer.grants if grant.task not in self.held]
        given += self.slots.ready
        self.slots.ready.clear()
        if self.stopping:
            running = list(self.slots.running.values())
            given += [one.grant for one in running]
            for one in running:
                one.stop(RELEASED)
        self.parked, self.left = False, True
        await self.release(given)

    # The hot loop.

    async def work(self) -> None:
        """One turn after the other: at once while there is something to settle or to fill."""
        pause = FIRST_PAUSE_SEC
        while True:
            self.wake.clear()
            if self.left and not self.slots.busy and not self.unsettled:
                return
            try:
                if self.draining and not self.left:
                    await self.leave()
                if self.desk.failed:
                    await self.desk.settle(self.held)
                if self.done or self.may_claim():
                    await self.turn()
                pause = FIRST_PAUSE_SEC
            except StoreUnavailable as error:
                LOG.warning("%s; what is in hand goes on", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SEC)
                continue
            if not self.unsettled and (self.slots.busy if self.draining else not self.may_claim()):
                await self.wake.wait()

    @property
    def unsettled(self) -> int:
        """What has finished and is not yet told."""
        return len(self.done) + len(self.desk.failed)

    def may_claim(self) -> bool:
        """Whether there is room that no parked claim covers."""
        return self.room() > 0 and time.monotonic() >= self.parked_until

    def room(self) -> int:
        """How many tasks to ask for: the free slots, and what starts within a moment."""
        if self.draining:
            return 0
        ahead = min(int(self.rate * AHEAD_SEC), MOST_AHEAD)
        return max(self.slots.size + ahead - self.slots.busy, 0)

    async def turn(self) -> None:
        """Settles what is done and fills what is free."""
        self.pace(len(self.done))
        answer = (await self.turned(self.done, self.room())).answer
        self.parked = answer.wait_ms > 0
        self.parked_until = time.monotonic() + answer.wait_ms / 1000 * PARK_SHARE
        self.take(answer.grants)

    async def turned(self, done: list[Settled], room: int) -> Turned:
        """One call of the conversation; what could not be told stays to be told."""
        self.done = []
        park_ms = self.shard.terms.park_ms if room else 0
        try:
            turned = await self.waiter.turn(done, room, wait_ms=park_ms)
        except RQueueError:
            # Sent again under the same number: what it gave is told then.
            self.waiter.seq -= 1
            self.done = done + self.done
            raise
        self.settled(done, turned.words)
        if turned.more:
            await answer_all(self.shard)
        return turned

    def settled(self, done: list[Settled], words: list[str]) -> None:
        """Forgets the leases of what has ended."""
        for row, word in zip(done, words, strict=True):
            self.held.pop(row.task, None)
            if word != "OK":
                self.desk.figures.lost += 1
                LOG.warning("task_%s had ended by other hands when it was completed", row.task)

    def pace(self, finished: int) -> None:
        """Learns how many tasks a second are finished, by what a moment brought."""
        self.finished += finished
        self.lately += finished
        seconds = time.monotonic() - self.since
        if seconds >= AHEAD_SEC:
            self.rate = (self.rate + self.lately / seconds) / 2
            self.since, self.lately = time.monotonic(), 0

    def take(self, grants: list[Grant]) -> None:
        """Runs what was claimed; one that is in hand already came a second time."""
        fresh = [grant for grant in grants if self.held.get(grant.task) != grant.token]
        for grant in fresh:
            self.held[grant.task] = grant.token
        self.slots.give(fresh)

    async def attempt(self, running: Running) -> None:
        """Runs one task and keeps its outcome for the next turn."""
        grant = running.grant
        try:
            outcome = await self.desk.run(running)
        except asyncio.CancelledError:
            outcome = self.desk.stopped(running)
        if outcome is None or running.stopped in (LOST, RELEASED):
            self.held.pop(grant.task, None)
        elif isinstance(outcome, Failed):
            self.desk.failed.append((grant, outcome))
        else:
            self.done.append(Settled(grant.task, grant.token, outcome))
        self.wake.set()

    # What happens beside it.

    async def listen(self) -> None:
        """Reads the mail: work that was brought to a parked claim, or news of lanes."""
        while True:
            try:
                line = await read_mail(self.shard, self.waiter.box, self.parts.settings.park_sec)
            except RQueueError:
                # A half-open read may still take the next mail: nobody writes to that box again.
                self.waiter.box = new_box()
                line = ["lost"]
                await asyncio.sleep(FIRST_PAUSE_SEC)
            if line is not None or time.monotonic() >= self.parked_until:
                self.parked_until = 0.0
                self.wake.set()

    async def look(self, beat: Heartbeat) -> None:
        """Stops what runs too long, and gives back what found no slot in time."""
        while True:
            beat.turn()
            for running in self.slots.overdue():
                running.stop(Reason.TIMEOUT)
            await self.release(self.slots.take_back(2 * AHEAD_SEC))
            await asyncio.sleep(LOOK_SEC)

    async def release(self, grants: list[Grant]) -> None:
        """Gives tasks back; out of reach, they come back when their leases expire."""
        if not grants:
            return
        self.rate = 0.0
        for grant in grants:
            self.held.pop(grant.task, None)
        with suppress(RQueueError):
            await leases.release(self.shard, [Held(g.task, g.token) for g in grants])

    def told_lost(self, task: str, why: str) -> None:
        """`lose`, from the heartbeat's thread."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.lose, task, why)

    def lose(self, task: str, why: str) -> None:
        """A lease is no longer held: its code is stopped."""
        running = self.slots.running.get(task)
        if running is not None:
            running.stop(why)
        elif why == LOST:
            self.held.pop(task, None)
