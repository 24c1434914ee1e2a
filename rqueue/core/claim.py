"""Claims, and the mailboxes in which waiting claims get their tasks.

Each claiming client numbers its claims, so that a claim may be sent again. A mailbox is a list into
which moves write deliveries; result waiters read theirs in the same way.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import from_json

from rqueue.core.leases import completing
from rqueue.errors import ScriptFault
from rqueue.store.lanes import lanes_of
from rqueue.store.replies import text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqueue.core.leases import Settled
    from rqueue.store.library import Argument
    from rqueue.store.runner import Reply
    from rqueue.store.shard import Shard
    from rqueue.task.lane import Offer


class Grant(NamedTuple):
    """A leased task, as the claim move returns it."""

    task: str
    token: str
    attempts: int
    reclaims: int
    created_ms: int
    more: bytes
    definition: bytes
    # Whether it waited in another state before READY; `created_ms` is then not its creation time.
    waited: bool = False
    # Workers that failed it, in the notation of task/attempt/blame.py.
    failed_by: tuple[str, ...] = ()


@dataclass(slots=True)
class Answer:
    """The tasks a claim returned, and how long the claim waits at the server for more."""

    grants: list[Grant]
    wait_ms: int
    stale: bool = False


@dataclass(slots=True)
class Exchanged:
    """Result of an exchange: a word per completed task, the claimed tasks, whether waiting claims
    remain to be answered, and the server's time.
    """

    words: list[str]
    answer: Answer
    more: bool
    now_ms: int


class Delivery(NamedTuple):
    """The words of a delivery; where it carries complete tasks, their rows and the
    server's time of sending.
    """

    words: list[str]
    sent_ms: int = 0
    rows: Sequence[Sequence[str]] = ()


class WaitingClaim:
    """One claiming client: its name, the number of its last claim, its lanes, and its mailbox.

    A number is used once. When a reply is lost, the claim is repeated under the same number; a late
    copy of an older claim changes nothing.
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
        self.mailbox = new_mailbox()
        self.lanes = shard.lanes
        self.rules = shard.rules()
        self.served = self.lanes.served(offer, self.rules)

    async def claim(self, n: int, *, wait_ms: int = 0, start: bool = False) -> Answer:
        """Claims up to `n` tasks; without any, the claim waits at the server for `wait_ms`."""
        args = {
            **self.request_args(n, wait_ms),
            "start": int(start),
            "memo_ms": 0 if self.lasts else self.shard.terms.memo_ms,
        }
        while True:
            answer = self.read(await self.shard.run("task/claim", {**args, **self.known_lanes()}))
            if answer is not None:
                return answer

    async def exchange(
        self, done: Sequence[Settled], n: int, *, wait_ms: int = 0, begin: int | None = None
    ) -> Exchanged:
        """Completes the tasks in `done` and claims up to `n` started tasks in one round trip. The
        first `begin` of them begin immediately, the others wait for a slot.
        """
        begins = n if begin is None else begin
        args = {**self.request_args(n, wait_ms), **completing(self.shard), "begin": begins}
        while True:
            reply = await self.shard.run("task/exchange", {**args, **self.known_lanes()}, done)
            _, (_, more, *found), claimed, now_ms = reply
            answer = self.read(claimed)
            if answer is not None:
                words = [text(word) for word in found]
                return Exchanged(words, answer, more=int(more) != 0, now_ms=int(now_ms))

    def delivered_with(self, delivery: Delivery) -> list[Grant]:
        """The complete tasks in a delivery for the current claim; empty for any other claim."""
        if delivery.words[:2] != ["tasks", str(self.seq)]:
            return []
        return [grant([word.encode() for word in row]) for row in delivery.rows]

    def request_args(self, n: int, wait_ms: int) -> dict[str, Argument]:
        """The arguments that stay the same when this claim is sent again. Takes the next number."""
        self.seq += 1
        return {
            "waiter": self.name,
            "seq": self.seq,
            "consumer": self.consumer,
            "bits": secrets.token_urlsafe(16),
            "n": n,
            "box": self.mailbox,
            "wait_ms": wait_ms,
            "delivery_ms": self.shard.terms.delivery_ms,
        }

    def known_lanes(self) -> dict[str, Argument]:
        """The known lanes that this client may serve, by the current rules."""
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
        """The answer of a claim; None where the client's lanes were out of date and have been
        updated.
        """
        word, *rest = reply
        match text(word):
            case "OK":
                return Answer([grant(row) for row in rest[2:]], int(rest[1]))
            case "STALE":
                return Answer([], 0, stale=True)
            case "LANES":
                self.lanes = self.shard.lanes = lanes_of(rest[1:])
                self.served = self.lanes.served(self.offer, self.rules)
                return None
            case _:
                raise ScriptFault("task/claim", reply)


def grant(row: list[bytes]) -> Grant:
    """The grant in a row of the reply; for a plain task nothing follows the definition."""
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
    """A stored counter; bytes that are no number count as 0, so that the other tasks are served."""
    return int(word) if word.isdigit() else 0


def new_mailbox() -> str:
    """A new mailbox name: an old half-open read must not take the next delivery."""
    return secrets.token_hex(8)


async def read_mailbox(
    shard: Shard, mailbox: str, wait_sec: float, *others: str
) -> Delivery | None:
    """The next delivery in the mailbox, or in one of the others; None when none came in time.

    When the connection fails, the caller takes a new mailbox and reads again what it waits for.
    """
    keys = [shard.keys.mail(one) for one in (mailbox, *others)]
    words: list[Argument] = ["BLPOP", *keys, wait_sec]
    found = await shard.runner.connection.wait(words, wait_sec, what="mail")
    return None if found is None else opened(found[1])


def opened(delivery: bytes) -> Delivery:
    """A delivery as it was written; tasks that cannot be read are left to be claimed."""
    line, _, whole = delivery.partition(b"\n")
    words = text(line).split(" ")
    sent, _, rows = whole.partition(b" ")
    try:
        return Delivery(words, int(sent), from_json(rows)) if rows else Delivery(words)
    except ValueError:
        return Delivery(words)
