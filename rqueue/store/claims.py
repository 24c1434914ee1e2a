"""Claiming: one conversation a waiter, each claim with a rising number, safe to send again."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rqueue.errors import ScriptFault
from rqueue.store.lanes import Lanes, lanes_of
from rqueue.store.replies import text

if TYPE_CHECKING:
    from rqueue.policy.capability import Offer
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


@dataclass(slots=True)
class Answer:
    """What a claim gave, and how long it waits at the server for the rest."""

    grants: list[Grant]
    wait_ms: int
    stale: bool = False


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
        self.served = self.lanes.served(offer)

    async def claim(self, n: int, *, wait_ms: int = 0, start: bool = False) -> Answer:
        """Up to `n` tasks; with none to give, the claim stays at the server for `wait_ms`."""
        self.seq += 1
        args: dict[str, Argument] = {
            "waiter": self.name,
            "seq": self.seq,
            "consumer": self.consumer,
            "bits": secrets.token_urlsafe(16),
            "n": n,
            "start": int(start),
            "box": self.box,
            "park_ms": wait_ms,
            "handoff_ms": self.shard.terms.handoff_ms,
            "memo_ms": 0 if self.lasts else self.shard.terms.memo_ms,
        }
        while True:
            args["version"] = self.lanes.version
            args["lanes"], args["profile"] = self.served.lanes, self.served.profile
            word, *rest = await self.shard.run("task/claim", args)
            match text(word):
                case "OK":
                    return Answer([grant(row) for row in rest[2:]], int(rest[1]))
                case "STALE":
                    return Answer([], 0, stale=True)
                case "LANES":
                    self.lanes = lanes_of(rest[1:])
                    self.served = self.lanes.served(self.offer)
                case _:
                    raise ScriptFault("task/claim", [word, *rest])


def grant(row: list[bytes]) -> Grant:
    """A row of the reply; a plain task has nothing behind its definition."""
    task, token, created, definition, *rest = row
    attempts, reclaims, more = rest or (b"0", b"0", b"")
    return Grant(
        task=task.decode(),
        token=token.decode(),
        attempts=int(attempts),
        reclaims=int(reclaims),
        created_ms=int(created.split(b"-")[0]),
        more=more,
        definition=definition,
    )


def new_box() -> str:
    """A box nobody has listened to: an old half-open read must not take the next mail."""
    return secrets.token_hex(8)
