"""The worker's side: claim, and every settle of what was claimed, fenced by the token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rqueue.store.passage import go_on
from rqueue.store.replies import ok, text
from rqueue.store.shard import FREED, TOLD, TRIES

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard


class Held(NamedTuple):
    """A lease: the task and the token that its holder shows."""

    task: str
    token: str


class Settled(NamedTuple):
    """A lease and the result that ends it."""

    task: str
    token: str
    result: bytes


class Verdict(NamedTuple):
    """A lease that ends as failed, as decided; no delay means dead. What it says to the breaker
    of its type is "" where it says nothing; `failed_by` is "" where nobody is to be named; `owes`
    is "1" where its code may go on and say later what it has cost.
    """

    task: str
    token: str
    delay: str
    attempts: int
    reclaims: int
    reason: str
    record: str
    type: str
    breaker: str
    failed_by: str = ""
    poison: str = ""
    owes: str = ""


class Reaping(NamedTuple):
    """A lost lease, as decided; `alone` is the lane it moves to, if any."""

    task: str
    token: str
    delay: str
    attempts: int
    reclaims: int
    reason: str
    record: str
    type: str
    breaker: str
    failed_by: str
    poison: str
    alone: str


class Parking(NamedTuple):
    """A lease that is set aside for a while, and how long nothing else of its type is handed
    out; 0: others go on.
    """

    task: str
    token: str
    delay: int
    reason: str
    type: str
    slow_ms: int = 0


async def words(
    shard: Shard,
    script: str,
    rows: Iterable[Sequence[Argument]],
    args: dict[str, Argument],
) -> list[str]:
    """The word for each row of a settle."""
    return [text(word) for word in ok(script, "", await shard.run(script, args, rows))]


async def words_and_answers(
    shard: Shard, script: str, rows: Iterable[Sequence[Argument]], args: dict[str, Argument]
) -> list[str]:
    """`words` of a script that brings work: who waits and could not be answered by it, is now."""
    more, *found = await words(shard, script, rows, args)
    if more != "0":
        await go_on(shard)
    return found


async def start(shard: Shard, leases: Sequence[Held]) -> list[str]:
    """CLAIMED to RUNNING: OK, LOST or STATE:<found> for each."""
    return await words(shard, "task/start", leases, {})


async def validate(shard: Shard, leases: Sequence[Held]) -> list[str]:
    """RUNNING to VALIDATING: OK, LOST or STATE:<found> for each."""
    return await words(shard, "task/validate", leases, {})


async def renew(shard: Shard, consumer: str, leases: Sequence[Held]) -> list[str]:
    """Keeps leases: OK, LOST, claim_expired or timeout for each."""
    terms = shard.terms
    args: dict[str, Argument] = {
        "consumer": consumer,
        "claim_ms": terms.claim_ms,
        "timeout_ms": terms.timeout_ms,
        "grace_ms": terms.grace_ms,
    }
    return (await words(shard, "task/renew", leases, args))[1:]


async def complete(shard: Shard, leases: Sequence[Settled]) -> list[str]:
    """RUNNING or VALIDATING to COMPLETED: OK, LOST or STATE:<found> for each."""
    return await words_and_answers(shard, "task/complete", leases, completing(shard))


def completing(shard: Shard) -> dict[str, Argument]:
    """How this queue's tasks are completed, as the scripts read it."""
    return {
        "archive": int(shard.terms.archive),
        "ttl": shard.terms.result_ttl_ms,
        "limit": TOLD,
        "tries": TRIES,
        "events": shard.terms.events,
    }


async def fail(shard: Shard, leases: Sequence[Verdict]) -> list[str]:
    """In hand to RETRYING or DEAD_LETTERED, as each was decided; or LOST."""
    args: dict[str, Argument] = {
        "archive": int(shard.terms.archive),
        "keep": shard.terms.keep_failures,
        "events": shard.terms.events,
        **FREED,
    }
    return await words_and_answers(shard, "task/fail", leases, args)


async def park(shard: Shard, leases: Sequence[Parking], *, most: int | None = None) -> list[str]:
    """RUNNING or VALIDATING to RETRYING, no attempt spent: OK, LOST or STATE:<found>, which is
    SPENT for one that was set aside as often as it may be.
    """
    args: dict[str, Argument] = {
        "events": shard.terms.events,
        "parks": "" if most is None else most,
        **FREED,
    }
    return await words_and_answers(shard, "task/park", leases, args)


async def release(shard: Shard, leases: Sequence[Held]) -> list[str]:
    """In hand to READY, no attempt spent: OK or LOST for each."""
    return await words_and_answers(shard, "task/release", leases, {**FREED})


async def reap(shard: Shard, leases: Sequence[Reaping], *, idle_ms: int) -> list[str]:
    """Takes silent leases: READY, RETRYING, DEAD_LETTERED, or HELD where it was renewed."""
    args: dict[str, Argument] = {
        "idle_ms": idle_ms,
        "archive": int(shard.terms.archive),
        "keep": shard.terms.keep_failures,
        "events": shard.terms.events,
        "tries": TRIES,
        "max_lanes": shard.terms.max_lanes,
    }
    return await words_and_answers(shard, "task/reap", leases, args)
