"""The lanes of a shard, and their form as arguments of a claim."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.task.lane import Lane, Offer, lane_of, serves
from rqueue.task.limits import Rules, tenant_rules

if TYPE_CHECKING:
    from rqueue.store.shard import Shard

# For how long a worker takes nothing else before an exclusive task, unless it claims again.
DRAIN_MS = 30_000
META = frozenset({"next", "version"})
NO_RULES = Rules()


@dataclass(frozen=True, slots=True)
class Lanes:
    """All lanes of a shard at one version."""

    version: str = "0"
    numbers: dict[Lane, int] = field(default_factory=dict)

    def served(self, offer: Offer, rules: Rules = NO_RULES) -> Served:
        """The lanes that an offer may serve, as the claim move reads them, each with its limits."""
        found = [
            lane_words(number, lane, rules)
            for number, lane in sorted(self.by_number().items())
            if serves(offer, lane)
        ]
        body = json.dumps(found, separators=(",", ":"))
        return Served(body, short_name(body))

    def by_number(self) -> dict[int, Lane]:
        """The lanes by their numbers."""
        return {number: lane for lane, number in self.numbers.items()}


def lane_words(number: int, lane: Lane, rules: Rules) -> list[object]:
    """A lane as the claim move reads it: its limits are one more word, if it has any, the rules of
    its tenants another, and its cost class the last.
    """
    words: list[object] = [
        number,
        lane.micro_rate,
        lane.type,
        DRAIN_MS if lane.exclusive else False,
    ]
    limits = [
        limit.words() for limit in rules.limits if limit.key is None and limit.applies_to(lane.type)
    ]
    if not lane.keyed:
        if lane.cost:
            return [*words, limits or False, False, lane.cost]
        return [*words, limits] if limits else words
    keys = tenant_rules(lane.type, *rules)
    # Tenants without turns are checked again when their limits change.
    known = json.dumps([keys["each"], keys["own"]])
    words += [limits or False, {"name": short_name(known), **keys}]
    return [*words, lane.cost] if lane.cost else words


def short_name(text: str) -> str:
    """A short unique name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Served:
    """A set of lanes as JSON, and the name of that profile."""

    lanes: str
    profile: str


def lanes_of(flat: list[bytes]) -> Lanes:
    """The lanes in a flat list of the hash's fields and values."""
    pairs = dict(zip(flat[::2], flat[1::2], strict=True))
    version = pairs.get(b"version", b"0").decode()
    numbers = {
        lane_of(name.decode()): int(number)
        for name, number in pairs.items()
        if name.decode() not in META
    }
    return Lanes(version, numbers)


async def read_lanes(shard: Shard) -> Lanes:
    """The lanes as they are now."""
    client = shard.runner.connection
    found = await client.call(lambda redis: redis.hgetall(shard.keys.lanes()), what="lanes")
    return lanes_of([as_bytes(word) for pair in found.items() for word in pair])


def as_bytes(word: bytes | str) -> bytes:
    """A word of a reply in bytes mode, which redis-py types as either."""
    return word if isinstance(word, bytes) else word.encode()
