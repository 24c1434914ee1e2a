"""Claiming: one conversation a waiter, each claim with a rising number, safe to send again."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rqueue.errors import ScriptFault
from rqueue.store.lanes import Lanes, lanes_of
from rqueue.store.leases import completing
from rqueue.store.replies import text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqueue.policy.capability import Offer
    from rqueue.store.leases import Settled
    from rqueue.store.mail import Mail
    from rqueue.store.runner import Reply
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard


class Grant(NamedTuple):
    """A leased task as the claim script tells of it."""

    task: str
    token: str
    attempts: int
    reclaims: int
    created_ms: int
    more: bytes
    definition: bytes
    # Whether it was something else before it was READY; `created_ms` is then not its beginning.
    waited: bool = False
    # Who has failed it, as policy.blame writes it.
    failed_by: tuple[str, ...] = ()


@dataclass(slots=True)
class Answer:
    """What a claim gave, and how long it waits at the server for the rest."""

    grants: list[Grant]
    wait_ms: int
    stale: bool = False


@dataclass(slots=True)
class Turned:
    """A word for each task that was to be completed, what was claimed, whether more who wait are
    to be answered, and the server's time.
    """

    words: list[str]
    answer: Answer
    more: bool
    now_ms: int


class Waiter:
    """One claiming conversation: its name, its number, the lanes it knows, where its mail goes.

    A number is used once: a reply that was lost is asked for again under the same number, and a
    late copy of an older one changes nothing.
    """

    def __init__(
        self, shard: Shard, consumer: str, offer: Offer, *, name: str, lasts: bool
    ) -> None:
        self.shard = shard
        self.consumer = consumer
        self.offer = offer
        self.name = name
        self.lasts = lasts
        self.seq = 0
        self.box = new_box()
        self.lanes = Lanes()
        self.rules = shard.rules()
        self.served = self.lanes.served(offer, self.rules)

    async def claim(self, n: int, *, wait_ms: int = 0, start: bool = False) -> Answer:
        """Up to `n` tasks; with none to give, the claim stays at the server for `wait_ms`."""
        args = {
            **self.asked(n, wait_ms),
            "start": int(start),
            "memo_ms": 0 if self.lasts else self.shard.terms.memo_ms,
        }
        while True:
            answer = self.read(await self.shard.run("task/claim", {**args, **self.known()}))
            if answer is not None:
                return answer

    async def turn(
        self, done: Sequence[Settled], n: int, *, wait_ms: int = 0, begin: int | None = None
    ) -> Turned:
        """Completes what is done and claims up to `n` tasks, started, in one round trip; the first
        `begin` of them begin at once, the others wait for a slot.
        """
        begins = n if begin is None else begin
        args = {**self.asked(n, wait_ms), **completing(self.shard), "begin": begins}
        while True:
            reply = await self.shard.run("task/turn", {**args, **self.known()}, done)
            _, (_, more, *found), claimed, now_ms = reply
            answer = self.read(claimed)
            if answer is not None:
                words = [text(word) for word in found]
                return Turned(words, answer, more=int(more) != 0, now_ms=int(now_ms))

    def mailed(self, mail: Mail) -> list[Grant]:
        """The tasks that came whole with mail for the claim that waits now."""
        if mail.words[:2] != ["tasks", str(self.seq)]:
            return []
        return [grant([word.encode() for word in row]) for row in mail.rows]

    def asked(self, n: int, wait_ms: int) -> dict[str, Argument]:
        """What is the same each time this claim is sent; a number is used once."""
        self.seq += 1
        return {
            "waiter": self.name,
            "seq": self.seq,
            "consumer": self.consumer,
            "bits": secrets.token_urlsafe(16),
            "n": n,
            "box": self.box,
            "park_ms": wait_ms,
            "handoff_ms": self.shard.terms.handoff_ms,
        }

    def known(self) -> dict[str, Argument]:
        """The lanes this waiter knows and may serve, by the rules of now."""
        rules = self.shard.rules()
        if rules is not self.rules:
            self.rules = rules
            self.served = self.lanes.served(self.offer, rules)
        return {
            "version": self.lanes.version,
            "lanes": self.served.lanes,
            "profile": self.served.profile,
        }

    def read(self, reply: Reply) -> Answer | None:
        """The answer of a claim; None where the lanes were old, which it knows now."""
        word, *rest = reply
        match text(word):
            case "OK":
                return Answer([grant(row) for row in rest[2:]], int(rest[1]))
            case "STALE":
                return Answer([], 0, stale=True)
            case "LANES":
                self.lanes = lanes_of(rest[1:])
                self.served = self.lanes.served(self.offer, self.rules)
                return None
            case _:
                raise ScriptFault("task/claim", reply)


def grant(row: list[bytes]) -> Grant:
    """A row of the reply; a plain task has nothing behind its definition."""
    task, token, created, definition, *rest = row
    attempts, reclaims, more, *failed_by = rest or (b"0", b"0", b"")
    return Grant(
        task=task.decode(),
        token=token.decode(),
        attempts=number(attempts),
        reclaims=number(reclaims),
        created_ms=number(created.split(b"-")[0]),
        more=more,
        definition=definition,
        waited=b"-" not in created,
        failed_by=tuple(b" ".join(failed_by).decode(errors="replace").split()),
    )


def number(word: bytes) -> int:
    """A counter as it is stored; broken bytes count as nothing, so that neighbours are served."""
    return int(word) if word.isdigit() else 0


def new_box() -> str:
    """A box nobody has listened to: an old half-open read must not take the next mail."""
    return secrets.token_hex(8)
