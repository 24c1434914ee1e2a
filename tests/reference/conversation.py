"""A claiming conversation: what is asked, what was given, and since when it is parked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.reference.records import Lease, LimitWords
    from tests.reference.turning import KeyRules


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a conversation; `lanes` are the numbers it may serve at `version`, `keys` the
    rules of those that have keys.
    """

    waiter: str
    seq: int
    consumer: str
    bits: str
    n: int
    lanes: tuple[int, ...]
    version: int
    box: str
    start: bool = False
    wait_ms: int = 0
    delivery_ms: int = 2000
    begin: int | None = None
    limits: tuple[LimitWords, ...] = ()
    keys: Mapping[int, KeyRules] = field(default_factory=dict)


@dataclass(slots=True)
class WaitingClaim:
    """A conversation: its last claim, what that gave, and since when it is parked."""

    claim: Claim
    given: list[Lease]
    mailed: list[Lease] = field(default_factory=list)
    short: int = 0
    begin: int | None = None
    until_ms: int = 0
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A leased task as its holder is told of it."""

    task: str
    token: str
    attempts: int
    reclaims: int
    definition: bytes
    failed_by: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a claim gave: OK, STALE (a late copy) or LANES (its lanes are out of date)."""

    word: Literal["OK", "STALE", "LANES"]
    wait_ms: int = 0
    grants: tuple[Grant, ...] = ()
