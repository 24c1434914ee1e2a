"""Every call whose reply is lost is sent again, returns the same, and has one effect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from rqueue import Handle, Lease
from rqueue.core.claim import WaitingClaim
from rqueue.core.leases import Settled
from rqueue.core.notes import note
from rqueue.dead import reviews
from rqueue.inbox.reader import Inbox
from rqueue.maintenance.janitor import Janitor
from rqueue.maintenance.promoter import Promoter
from rqueue.maintenance.reaper import Reaper
from rqueue.maintenance.rescorer import Urgency, rescore
from rqueue.maintenance.sweeper import Sweeper
from rqueue.process.scheduler import lead, yield_term
from rqueue.task.lane import Offer
from rqueue.task.task import Note
from tests.harness import Harness
from tests.integration import (
    archive_cases,
    dag_cases,
    fleet_cases,
    gate_cases,
    notice_cases,
)
from tests.integration.proxy import How, Proxy, proxied_harness
from tests.servers import Server

ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
HEX = re.compile(r"[0-9a-f]{16,}")
READS = {
    "queue/permitted", "task/read", "task/outputs", "task/dependents", "queue/counts",
    "scheduler/silent_leases", "queue/overview", "repair/walk",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """The state before, and the call whose reply is lost."""

    given: Callable[[Harness], Awaitable[Any]]
    when: Callable[[Harness, Any], Awaitable[Any]]


async def nothing(harness: Harness) -> None: ...


async def ready(harness: Harness) -> Handle:
    return await harness.queue.enqueue("code", {"n": 1}, tags=["a"], external_id="own")


async def two_ready(harness: Harness) -> list[Handle]:
    return await harness.queue.enqueue_many([{"type": "code"}, {"type": "code"}])


async def waiting(harness: Harness) -> Handle:
    return await harness.queue.enqueue("code", {"n": 1}, delay=3600)


async def due(harness: Harness) -> Handle:
    handle = await waiting(harness)
    await harness.make_due(handle.id)
    return handle


async def claimed(harness: Harness) -> Lease:
    return await harness.claimed()


async def running(harness: Harness) -> Lease:
    return await harness.running(max_attempts=3)


async def dead(harness: Harness) -> Lease:
    lease = await harness.running()
    await lease.fail("error", "no", permanent=True)
    return lease


async def suspect(harness: Harness) -> Lease:
    lease = await harness.running(max_attempts=9)
    await lease.fail("error", "no")
    await harness.queue.run_now(lease.id)
    (again,) = await harness.queue.claim(worker="w2")
    return again


async def poisoned(harness: Harness) -> Lease:
    lease = await suspect(harness)
    await lease.fail("error", "no")
    return lease


async def silent(harness: Harness) -> Lease:
    await harness.reaper.tick()
    lease = await harness.running()
    await harness.age(lease, 90)
    return lease


async def family(harness: Harness) -> Handle:
    parent = await harness.queue.enqueue("code")
    for _ in range(3):
        await harness.queue.enqueue("code", depends_on=[parent.id])
    return parent


async def parent_running(harness: Harness) -> Lease:
    await family(harness)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    return lease


async def paused(harness: Harness) -> None:
    await two_ready(harness)
    await harness.queue.pause()


async def overdue(harness: Harness) -> Handle:
    return await harness.queue.enqueue(
        "code", deadline="2020-01-01T00:00:00Z", on_deadline="cancel"
    )


async def damaged_indexes(harness: Harness) -> None:
    await harness.running()
    await harness.queue.enqueue("code")
    await harness.client.delete(harness.keys.lane(1))
    await harness.client.zadd(harness.keys.delayed(), {"GONE": 1e15})
    await harness.client.xadd(harness.keys.ready(), {"task": "GONE"})


async def silent_worker(harness: Harness) -> None:
    await harness.queue.claim(worker="w1", types=["code"])
    await harness.client.zadd(harness.keys.workers(), {"w1": 1})


async def leading(harness: Harness, _: Any = None) -> tuple[str, int]:
    term = await lead(harness.queue._internals.shard, "one", ttl_ms=60_000)
    return term.owner, term.epoch


async def keyed(harness: Harness) -> Handle:
    return await harness.queue.enqueue("code", {"n": 1}, idempotency_key="k", delay=3600)


async def resubmit(harness: Harness, _: Any, how: str) -> bool:
    again = await harness.queue.enqueue(
        "code", {"n": 2}, idempotency_key="k", if_exists=how, delay=60
    )
    return again.created


async def many(harness: Harness, _: Any) -> list[bool]:
    calls = [harness.queue.call("code", n, tags=["a"] if n % 2 else []) for n in range(20)]
    return [handle.created for handle in await harness.queue.enqueue_many(calls)]


async def claim(harness: Harness, _: Any, n: int = 1, wait: float = 0) -> list[str]:
    leases = await harness.queue.claim(worker="w2", n=n, wait=wait)
    return [lease.task.state for lease in leases]


async def result(harness: Harness, lease: Lease) -> Any:
    await lease.complete("done")
    return await Handle(lease.id, True, harness.queue._internals).result(timeout=5)


async def urgent(harness: Harness, handle: Handle) -> list[str]:
    return await rescore(harness.queue._internals.shard, [Urgency(handle.id.ulid, 5_000_000, 0)])


async def noted(harness: Harness, lease: Lease) -> tuple[str, ...]:
    report = Note(progress=1, line="once", usd=0.5)
    await note(harness.queue._internals.shard, lease.held, report, seq=1)
    return (await harness.task(lease.id)).logs


async def exchanged(harness: Harness, _: Any) -> tuple[list[str], int]:
    waiter = WaitingClaim(
        harness.queue._internals.shard, "w2", Offer.of(None), name="w2", lasts=True
    )
    (grant,) = (await waiter.exchange([], 1)).answer.grants
    done = await waiter.exchange([Settled(grant.task, grant.token, b"")], 1)
    return done.words, len(done.answer.grants)


async def inbox_entry(harness: Harness) -> None:
    await harness.client.xadd(harness.keys.inbox(), {"task": '{"type":"code"}'})


async def decided(harness: Harness, lease: Lease, how: Any, **fields: Any) -> str:
    return (await harness.queue.dead.decide(lease.id, how, **fields)).state


async def retried(harness: Harness) -> int:
    return len((await harness.queue.dead.decide_many("retry")).done)


async def escalated(harness: Harness) -> list[str]:
    await decided(harness, await dead(harness), "escalate")
    return [review.entry for review in await reviews.page(harness.queue._internals.shard)]


async def acknowledged(harness: Harness, entries: list[str]) -> list[Any]:
    await reviews.reviewed(harness.queue._internals.shard, entries)
    return await reviews.page(harness.queue._internals.shard)


def an_inbox(harness: Harness) -> Inbox:
    queue = harness.queue
    return Inbox(queue._internals.shard, queue.settings, clock=queue._internals.clock, reader="one")


CASES: dict[str, list[Case]] = {
    "task/submit": [
        Case(nothing, lambda harness, _: harness.queue.enqueue("code", {"n": 1})),
        Case(nothing, many),
        Case(nothing, lambda harness, _: family(harness)),
        Case(keyed, lambda harness, before: resubmit(harness, before, "keep")),
        Case(keyed, lambda harness, before: resubmit(harness, before, "replace")),
        Case(keyed, lambda harness, before: resubmit(harness, before, "debounce")),
        Case(nothing, lambda harness, _: harness.queue.enqueue("code", created_by="agent:coder")),
        Case(gate_cases.agent_role, gate_cases.refused),
    ],
    "task/claim": [
        Case(two_ready, claim),
        Case(two_ready, lambda harness, before: claim(harness, before, 2)),
        Case(nothing, lambda harness, before: claim(harness, before, 1, 0.1)),
    ],
    "task/start": [Case(claimed, lambda _, lease: lease.start())],
    "task/renew": [Case(running, lambda _, lease: lease.renew())],
    "task/validate": [Case(running, lambda _, lease: lease.validate())],
    "task/complete": [
        Case(running, lambda _, lease: lease.complete({"n": 1})),
        Case(parent_running, lambda _, lease: lease.complete()),
    ],
    "task/fail": [
        Case(running, lambda _, lease: lease.fail("error", "no")),
        Case(running, lambda _, lease: lease.fail("error", "no", permanent=True)),
        Case(suspect, lambda _, lease: lease.fail("error", "no")),
    ],
    "task/park": [Case(running, lambda _, lease: lease.park(60))],
    "task/release": [Case(running, lambda _, lease: lease.release())],
    "task/cancel": [
        Case(ready, lambda harness, handle: harness.queue.cancel(handle.id, "why")),
        Case(family, lambda harness, handle: harness.queue.cancel(handle.id, "why")),
        Case(family, lambda harness, one: harness.queue.cancel(one.id, dependents="unblock")),
        Case(two_ready, lambda harness, _: swept(harness.queue.purge(states=None))),
    ],
    "task/reschedule": [
        Case(ready, lambda harness, handle: harness.queue.reschedule(handle.id, delay=60)),
        Case(waiting, lambda harness, handle: harness.queue.reschedule(handle.id, delay=60)),
    ],
    "task/set_priority": [
        Case(ready, lambda harness, handle: harness.queue.set_priority(handle.id, 1))
    ],
    "task/edit": [Case(ready, lambda harness, handle: harness.queue.edit(handle.id, {"n": 2}))],
    "task/revive": [
        Case(dead, lambda harness, lease: harness.queue.dead.retry(lease.id)),
        Case(poisoned, lambda harness, lease: harness.queue.dead.retry(lease.id)),
        Case(
            dead,
            lambda harness, lease: harness.queue.dead.edit(lease.id, {"n": 2}, delay=60),
        ),
        Case(dead, lambda harness, lease: decided(harness, lease, "retry", cause="agent_bug")),
        Case(dead, lambda harness, _: retried(harness)),
    ],
    "task/discard": [
        Case(dead, lambda harness, lease: harness.queue.dead.discard(lease.id, "why")),
        Case(dead, lambda harness, _: swept(harness.queue.purge())),
        Case(dead, lambda harness, lease: decided(harness, lease, "delete", cause="invalid_task")),
    ],
    "task/escalate": [
        Case(dead, lambda harness, lease: decided(harness, lease, "escalate", note="who?")),
    ],
    "archive/acknowledge_reviews": [Case(escalated, acknowledged)],
    "task/run_now": [Case(waiting, lambda harness, handle: harness.queue.run_now(handle.id))],
    "task/promote": [
        Case(due, lambda harness, _: ticked(harness.promoter)),
    ],
    "task/recall": [Case(ready, lambda harness, _: ticked(harness.promoter))],
    "task/expire": [Case(overdue, lambda harness, _: ticked(harness.promoter))],
    "task/unblock": [Case(parent_running, lambda harness, _: ticked(harness.promoter))],
    "task/reap": [Case(silent, lambda harness, _: ticked(harness.reaper))],
    "task/watch": [Case(running, result)],
    "task/note": [Case(running, noted)],
    "task/exchange": [Case(two_ready, exchanged)],
    "inbox/receive": [Case(inbox_entry, lambda harness, _: ticked(an_inbox(harness)))],
    "inbox/acknowledge": [Case(inbox_entry, lambda harness, _: ticked(an_inbox(harness)))],
    "queue/pause": [Case(ready, lambda harness, _: harness.queue.pause(type="code"))],
    "queue/resume": [Case(paused, lambda harness, _: harness.queue.resume())],
    "scheduler/observe": [Case(silent, lambda harness, _: ticked(harness.reaper))],
    "scheduler/lead": [Case(nothing, leading), Case(leading, leading)],
    "scheduler/yield": [
        Case(leading, lambda harness, _: yield_term(harness.queue._internals.shard, "one"))
    ],
    "repair/mend": [
        Case(damaged_indexes, lambda harness, _: ticked(Sweeper(harness.queue._internals.shard)))
    ],
    "repair/prune": [
        Case(damaged_indexes, lambda harness, _: ticked(Sweeper(harness.queue._internals.shard)))
    ],
    "repair/sweep": [
        Case(damaged_indexes, lambda harness, _: ticked(Sweeper(harness.queue._internals.shard)))
    ],
    "worker/dismiss": [
        Case(silent_worker, lambda harness, _: ticked(Janitor(harness.queue._internals.shard)))
    ],
    "repair/tidy": [
        Case(silent_worker, lambda harness, _: ticked(Janitor(harness.queue._internals.shard)))
    ],
    "task/rescore": [Case(ready, urgent)],
}
MORE = (archive_cases, fleet_cases, gate_cases, dag_cases, notice_cases)
for more in MORE:
    CASES |= {name: [Case(*row) for row in rows] for name, rows in more.CASES.items()}
# Called only for repairs, a clock that steps back, or a long fan-out.
ELSEWHERE = {"archive/resend", "scheduler/restamp", "queue/answer"}
ROWS = [(move, number) for move, cases in CASES.items() for number in range(len(cases))]


async def swept(work: Awaitable[Any]) -> Any:
    return (done := await work).found, done.done


async def ticked(service: Promoter | Reaper | Sweeper | Janitor | Inbox) -> None:
    """The numbers of a tick are those of this call; only its effect must be the same."""
    await service.tick()


@pytest.fixture
async def proxied(valkey: Server) -> AsyncIterator[tuple[Harness, Proxy]]:
    async with proxied_harness(valkey) as found:
        yield found


@pytest.mark.parametrize("how", ["close", "hang"])
@pytest.mark.parametrize(("move", "number"), ROWS)
async def test_a_call_with_a_lost_reply_is_repeated_and_has_one_effect(
    proxied: tuple[Harness, Proxy], move: str, number: int, how: How
) -> None:
    harness, proxy = proxied
    case = CASES[move][number]
    sha = harness.queue._internals.shard.runner.moves[move].function.encode()
    expected = plain(await case.when(harness, await case.given(harness)))
    effect = await shape(harness)
    await harness.client.flushall()
    before = await case.given(harness)

    proxy.lose(lambda words: sha in words[:2], how)
    answer = plain(await case.when(harness, before))

    assert proxy.lost == 1
    assert answer == expected
    assert await shape(harness) == effect


def plain(answer: Any) -> Any:
    """A reply without the values that differ from call to call."""
    return answer.created if isinstance(answer, Handle) else answer


async def shape(harness: Harness) -> dict[str, Any]:
    """The stored data, without ids and times."""
    found: dict[str, Any] = {"counts": await harness.queue.counts()}
    keys: Counter[str] = Counter()
    for key, value in (await harness.dump()).items():
        keys[HEX.sub("#", ULID.sub("*", key))] += 1
        if isinstance(value, tuple):
            found[key] = (len(value[0]), [owner for _, owner in value[1]])
        elif isinstance(value, list | set):
            found.setdefault(HEX.sub("#", ULID.sub("*", key)), []).append(len(value))
        elif key.endswith("}:stats"):
            found[key] = value
    return {**found, "keys": keys}


async def test_every_script_that_writes_has_a_case(proxied: tuple[Harness, Proxy]) -> None:
    moves = set(proxied[0].queue._internals.shard.runner.moves)

    reads = READS.union(*(each.READS for each in MORE))

    assert moves == set(CASES) | reads | ELSEWHERE
