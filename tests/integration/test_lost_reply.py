"""Every call whose reply is lost is sent again, gets the same answer, and has one effect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from rqueue import Handle, Lease
from rqueue.model.note import Note
from rqueue.policy.capability import Offer
from rqueue.services.inbox import Inbox
from rqueue.services.janitor import Janitor
from rqueue.services.promoter import Promoter
from rqueue.services.reaper import Reaper
from rqueue.services.sweeper import Sweeper
from rqueue.store import reviews
from rqueue.store.claims import Waiter
from rqueue.store.leading import lead, yield_lead
from rqueue.store.leases import Settled
from rqueue.store.notes import note
from rqueue.store.urgency import Urgency, rescore
from tests.house import House
from tests.integration import (
    archive_cases,
    fleet_cases,
    gate_cases,
    graph_cases,
    notice_cases,
)
from tests.integration.proxy import How, Proxy, far_house
from tests.servers import Server

ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
HEX = re.compile(r"[0-9a-f]{16,}")
READS = {
    "task/read", "task/outputs", "task/dependents", "queue/counts", "queue/in_hand", "queue/look",
    "queue/walk",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """What is there before, and the call whose reply is lost."""

    given: Callable[[House], Awaitable[Any]]
    when: Callable[[House, Any], Awaitable[Any]]


async def nothing(house: House) -> None: ...


async def ready(house: House) -> Handle:
    return await house.queue.enqueue("code", {"n": 1}, tags=["a"], external_id="own")


async def two_ready(house: House) -> list[Handle]:
    return await house.queue.enqueue_many([{"type": "code"}, {"type": "code"}])


async def waiting(house: House) -> Handle:
    return await house.queue.enqueue("code", {"n": 1}, delay=3600)


async def due(house: House) -> Handle:
    handle = await waiting(house)
    await house.make_due(handle.id)
    return handle


async def claimed(house: House) -> Lease:
    return await house.claimed()


async def running(house: House) -> Lease:
    return await house.running(max_attempts=3)


async def dead(house: House) -> Lease:
    lease = await house.running()
    await lease.fail("error", "no", permanent=True)
    return lease


async def suspect(house: House) -> Lease:
    lease = await house.running(max_attempts=9)
    await lease.fail("error", "no")
    await house.queue.run_now(lease.id)
    (again,) = await house.queue.claim(worker="w2")
    return again


async def poisoned(house: House) -> Lease:
    lease = await suspect(house)
    await lease.fail("error", "no")
    return lease


async def silent(house: House) -> Lease:
    await house.reaper.tick()
    lease = await house.running()
    await house.age(lease, 90)
    return lease


async def family(house: House) -> Handle:
    parent = await house.queue.enqueue("code")
    for _ in range(3):
        await house.queue.enqueue("code", depends_on=[parent.id])
    return parent


async def parent_running(house: House) -> Lease:
    await family(house)
    (lease,) = await house.queue.claim(worker="w1")
    await lease.start()
    return lease


async def paused(house: House) -> None:
    await two_ready(house)
    await house.queue.pause()


async def overdue(house: House) -> Handle:
    return await house.queue.enqueue("code", deadline="2020-01-01T00:00:00Z", on_deadline="cancel")


async def torn(house: House) -> None:
    await house.running()
    await house.queue.enqueue("code")
    await house.client.delete(house.keys.lane(1))
    await house.client.zadd(house.keys.delayed(), {"GONE": 1e15})
    await house.client.xadd(house.keys.ready(), {"task": "GONE"})


async def deserted(house: House) -> None:
    await house.queue.claim(worker="w1", types=["code"])
    await house.client.zadd(house.keys.workers(), {"w1": 1})


async def led(house: House, _: Any = None) -> tuple[str, int]:
    term = await lead(house.queue.shard, "one", ttl_ms=60_000)
    return term.owner, term.epoch


async def keyed(house: House) -> Handle:
    return await house.queue.enqueue("code", {"n": 1}, idempotency_key="k", delay=3600)


async def resubmit(house: House, _: Any, how: str) -> bool:
    again = await house.queue.enqueue(
        "code", {"n": 2}, idempotency_key="k", if_exists=how, delay=60
    )
    return again.created


async def many(house: House, _: Any) -> list[bool]:
    calls = [house.queue.call("code", n, tags=["a"] if n % 2 else []) for n in range(20)]
    return [handle.created for handle in await house.queue.enqueue_many(calls)]


async def claim(house: House, _: Any, n: int = 1, wait: float = 0) -> list[str]:
    leases = await house.queue.claim(worker="w2", n=n, wait=wait)
    return [lease.task.state for lease in leases]


async def result(house: House, lease: Lease) -> Any:
    await lease.complete("done")
    return await Handle(lease.id, True, house.queue).result(timeout=5)


async def urgent(house: House, handle: Handle) -> list[str]:
    return await rescore(house.queue.shard, [Urgency(handle.id.ulid, 5_000_000, 0)])


async def noted(house: House, lease: Lease) -> tuple[str, ...]:
    said = Note(progress=1, line="once", usd=0.5)
    await note(house.queue.shard, lease.held, said, seq=1)
    return (await house.task(lease.id)).logs


async def turned(house: House, _: Any) -> tuple[list[str], int]:
    waiter = Waiter(house.queue.shard, "w2", Offer.of(None), name="w2", lasts=True)
    (grant,) = (await waiter.turn([], 1)).answer.grants
    done = await waiter.turn([Settled(grant.task, grant.token, b"")], 1)
    return done.words, len(done.answer.grants)


async def posted(house: House) -> None:
    await house.client.xadd(house.keys.inbox(), {"task": '{"type":"code"}'})


async def decided(house: House, lease: Lease, how: Any, **said: Any) -> str:
    return (await house.queue.resolve(lease.id, how, **said)).state


async def retried(house: House) -> int:
    return len((await house.queue.resolve_many("retry")).done)


async def escalated(house: House) -> list[str]:
    await decided(house, await dead(house), "escalate")
    return [review.entry for review in await reviews.page(house.queue.shard)]


async def let_go(house: House, entries: list[str]) -> list[Any]:
    await reviews.reviewed(house.queue.shard, entries)
    return await reviews.page(house.queue.shard)


def an_inbox(house: House) -> Inbox:
    queue = house.queue
    return Inbox(queue.shard, queue.settings, clock=queue.clock, reader="one")


CASES: dict[str, list[Case]] = {
    "task/submit": [
        Case(nothing, lambda house, _: house.queue.enqueue("code", {"n": 1})),
        Case(nothing, many),
        Case(nothing, lambda house, _: family(house)),
        Case(keyed, lambda house, before: resubmit(house, before, "keep")),
        Case(keyed, lambda house, before: resubmit(house, before, "replace")),
        Case(keyed, lambda house, before: resubmit(house, before, "debounce")),
        Case(nothing, lambda house, _: house.queue.enqueue("code", created_by="agent:coder")),
        Case(gate_cases.agent, gate_cases.refused),
    ],
    "task/claim": [
        Case(two_ready, claim),
        Case(two_ready, lambda house, before: claim(house, before, 2)),
        Case(nothing, lambda house, before: claim(house, before, 1, 0.1)),
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
        Case(ready, lambda house, handle: house.queue.cancel(handle.id, "why")),
        Case(family, lambda house, handle: house.queue.cancel(handle.id, "why")),
        Case(family, lambda house, one: house.queue.cancel(one.id, dependents="unblock")),
        Case(two_ready, lambda house, _: swept(house.queue.cancel_many())),
    ],
    "task/reschedule": [
        Case(ready, lambda house, handle: house.queue.reschedule(handle.id, delay=60)),
        Case(waiting, lambda house, handle: house.queue.reschedule(handle.id, delay=60)),
    ],
    "task/set_priority": [
        Case(ready, lambda house, handle: house.queue.set_priority(handle.id, 1))
    ],
    "task/edit": [Case(ready, lambda house, handle: house.queue.edit(handle.id, {"n": 2}))],
    "task/revive": [
        Case(dead, lambda house, lease: house.queue.revive(lease.id)),
        Case(poisoned, lambda house, lease: house.queue.revive(lease.id)),
        Case(dead, lambda house, lease: house.queue.revive(lease.id, payload={"n": 2}, delay=60)),
        Case(dead, lambda house, lease: decided(house, lease, "retry", cause="agent_bug")),
        Case(dead, lambda house, _: retried(house)),
    ],
    "task/discard": [
        Case(dead, lambda house, lease: house.queue.discard(lease.id, "why")),
        Case(dead, lambda house, _: swept(house.queue.purge())),
        Case(dead, lambda house, lease: decided(house, lease, "delete", cause="invalid_task")),
    ],
    "task/escalate": [
        Case(dead, lambda house, lease: decided(house, lease, "escalate", note="who?")),
    ],
    "queue/reviewed": [Case(escalated, let_go)],
    "task/run_now": [Case(waiting, lambda house, handle: house.queue.run_now(handle.id))],
    "task/promote": [
        Case(due, lambda house, _: ticked(house.promoter)),
    ],
    "task/recall": [Case(ready, lambda house, _: ticked(house.promoter))],
    "task/expire": [Case(overdue, lambda house, _: ticked(house.promoter))],
    "task/unblock": [Case(parent_running, lambda house, _: ticked(house.promoter))],
    "task/reap": [Case(silent, lambda house, _: ticked(house.reaper))],
    "task/watch": [Case(running, result)],
    "task/note": [Case(running, noted)],
    "task/turn": [Case(two_ready, turned)],
    "queue/receive": [Case(posted, lambda house, _: ticked(an_inbox(house)))],
    "queue/received": [Case(posted, lambda house, _: ticked(an_inbox(house)))],
    "queue/pause": [Case(ready, lambda house, _: house.queue.pause(type="code"))],
    "queue/resume": [Case(paused, lambda house, _: house.queue.resume())],
    "queue/see": [Case(silent, lambda house, _: ticked(house.reaper))],
    "queue/lead": [Case(nothing, led), Case(led, led)],
    "queue/yield": [Case(led, lambda house, _: yield_lead(house.queue.shard, "one"))],
    "queue/mend": [Case(torn, lambda house, _: ticked(Sweeper(house.queue.shard)))],
    "queue/prune": [Case(torn, lambda house, _: ticked(Sweeper(house.queue.shard)))],
    "queue/sweep": [Case(torn, lambda house, _: ticked(Sweeper(house.queue.shard)))],
    "queue/dismiss": [Case(deserted, lambda house, _: ticked(Janitor(house.queue.shard)))],
    "queue/tidy": [Case(deserted, lambda house, _: ticked(Janitor(house.queue.shard)))],
    "task/rescore": [Case(ready, urgent)],
}
MORE = (archive_cases, fleet_cases, gate_cases, graph_cases, notice_cases)
for more in MORE:
    CASES |= {name: [Case(*row) for row in rows] for name, rows in more.CASES.items()}
# Driven by what only a repair, a clock that steps back or a long fan-out brings.
ELSEWHERE = {"queue/resend", "queue/restamp", "queue/answer"}
ROWS = [(script, number) for script, cases in CASES.items() for number in range(len(cases))]


async def swept(work: Awaitable[Any]) -> Any:
    return (done := await work).found, done.done


async def ticked(service: Promoter | Reaper | Sweeper | Janitor | Inbox) -> None:
    """A tick's numbers say what this call moved; only its effect must be the same."""
    await service.tick()


@pytest.fixture
async def far(valkey: Server) -> AsyncIterator[tuple[House, Proxy]]:
    async with far_house(valkey) as found:
        yield found


@pytest.mark.parametrize("how", ["close", "hang"])
@pytest.mark.parametrize(("script", "number"), ROWS)
async def test_a_lost_reply_is_asked_for_again_and_nothing_is_done_twice(
    far: tuple[House, Proxy], script: str, number: int, how: How
) -> None:
    house, proxy = far
    case = CASES[script][number]
    sha = house.queue.shard.runner.scripts[script].sha.encode()
    expected = plain(await case.when(house, await case.given(house)))
    effect = await shape(house)
    await house.client.flushall()
    before = await case.given(house)

    proxy.lose(lambda words: sha in words[:2], how)
    answer = plain(await case.when(house, before))

    assert proxy.lost == 1
    assert answer == expected
    assert await shape(house) == effect


def plain(answer: Any) -> Any:
    """An answer without what differs from call to call."""
    return answer.created if isinstance(answer, Handle) else answer


async def shape(house: House) -> dict[str, Any]:
    """What is there, without ids and times."""
    found: dict[str, Any] = {"counts": await house.queue.counts()}
    keys: Counter[str] = Counter()
    for key, value in (await house.dump()).items():
        keys[HEX.sub("#", ULID.sub("*", key))] += 1
        if isinstance(value, tuple):
            found[key] = (len(value[0]), [owner for _, owner in value[1]])
        elif isinstance(value, list | set):
            found.setdefault(HEX.sub("#", ULID.sub("*", key)), []).append(len(value))
        elif key.endswith("}:stats"):
            found[key] = value
    return {**found, "keys": keys}


async def test_every_script_that_writes_is_among_them(far: tuple[House, Proxy]) -> None:
    scripts = set(far[0].queue.shard.runner.scripts)

    reads = READS.union(*(each.READS for each in MORE))

    assert scripts == set(CASES) | reads | ELSEWHERE
