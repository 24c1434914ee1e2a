"""Moves of a lease's holder: start, renew, and every way to settle, fenced by the lease's token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rqueue.core.timers import finish_unblocking
from rqueue.store.replies import ok, text
from rqueue.store.shard import ANSWER_LIMITS, TRIES, UNBLOCK_LIMIT

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


class HeldLease(NamedTuple):
    """A lease: the task and the token that its holder presents."""

    task: str
    token: str


class Settled(NamedTuple):
    """A lease and the result that completes it."""

    task: str
    token: str
    result: bytes


class Verdict(NamedTuple):
    """A failed lease, with what was decided.

    No delay means dead. `breaker` is what the failure reports to the breaker of its type, "" for
    nothing; `failed_by` is "" where no worker is blamed; `owes` is "1" where its code may continue
    and report a cost later.
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


class LostLease(NamedTuple):
    """A lease of a lost worker, with what was decided; `exclusive` is the lane it moves
    to, if any.
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
    failed_by: str
    poison: str
    exclusive: str


class Parked(NamedTuple):
    """A lease whose task is parked, and for how long no other task of its type can be claimed; 0:
    others can.
    """

    task: str
    token: str
    delay: int
    reason: str
    type: str
    slow_ms: int = 0


async def words(
    shard: Shard,
    move: str,
    rows: Iterable[Sequence[Argument]],
    args: dict[str, Argument],
) -> list[str]:
    """The word for each row of a settling move."""
    return [text(word) for word in ok(move, "", await shard.run(move, args, rows))]


async def words_and_answers(
    shard: Shard, move: str, rows: Iterable[Sequence[Argument]], args: dict[str, Argument]
) -> list[str]:
    """`words` for a move that frees work: the waiting claims that the move could not
    answer are answered now.
    """
    more, *found = await words(shard, move, rows, args)
    if more != "0":
        await finish_unblocking(shard)
    return found


async def start(shard: Shard, leases: Sequence[HeldLease]) -> list[str]:
    """CLAIMED to RUNNING: OK, LOST or STATE:<found> for each."""
    return await words(shard, "task/start", leases, {})


async def validate(shard: Shard, leases: Sequence[HeldLease]) -> list[str]:
    """RUNNING to VALIDATING: OK, LOST or STATE:<found> for each."""
    return await words(shard, "task/validate", leases, {})


async def renew(shard: Shard, consumer: str, leases: Sequence[HeldLease]) -> list[str]:
    """Renews leases: OK, LOST, claim_expired or timeout for each."""
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
    """The arguments that every completing move takes."""
    return {
        "archive": int(shard.terms.archive),
        "ttl": shard.terms.result_ttl_ms,
        "limit": UNBLOCK_LIMIT,
        "tries": TRIES,
        "events": shard.terms.events,
    }


async def fail(shard: Shard, leases: Sequence[Verdict]) -> list[str]:
    """Leased to RETRYING or DEAD_LETTERED, as decided; or LOST."""
    args: dict[str, Argument] = {
        "archive": int(shard.terms.archive),
        "keep": shard.terms.keep_failures,
        "events": shard.terms.events,
        **ANSWER_LIMITS,
    }
    return await words_and_answers(shard, "task/fail", leases, args)


async def park(shard: Shard, leases: Sequence[Parked], *, most: int | None = None) -> list[str]:
    """RUNNING or VALIDATING to RETRYING, no attempt spent: OK, LOST or STATE:<found>, which is
    SPENT for a task that was parked as often as it may be.
    """
    args: dict[str, Argument] = {
        "events": shard.terms.events,
        "parks": "" if most is None else most,
        **ANSWER_LIMITS,
    }
    return await words_and_answers(shard, "task/park", leases, args)


async def release(shard: Shard, leases: Sequence[HeldLease]) -> list[str]:
    """Leased to READY, no attempt spent: OK or LOST for each."""
    return await words_and_answers(shard, "task/release", leases, {**ANSWER_LIMITS})


async def reap(shard: Shard, leases: Sequence[LostLease], *, idle_ms: int) -> list[str]:
    """Reclaims leases that were not renewed: READY, RETRYING, DEAD_LETTERED, or HELD
    where the lease was renewed.
    """
    args: dict[str, Argument] = {
        "idle_ms": idle_ms,
        "archive": int(shard.terms.archive),
        "keep": shard.terms.keep_failures,
        "events": shard.terms.events,
        "tries": TRIES,
        "max_lanes": shard.terms.max_lanes,
    }
    return await words_and_answers(shard, "task/reap", leases, args)
