"""Who works on a shard: registered, drained, gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rqueue.errors import ScriptFault, WorkerNotFound
from rqueue.model.worker import Registration
from rqueue.policy.fleet import Known, Run, offers_of, unserved
from rqueue.store.queue import tally
from rqueue.store.replies import ok, text
from rqueue.store.values import words

if TYPE_CHECKING:
    from rqueue.model.lane import Lane
    from rqueue.store.queue import Tally
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# More are not looked at: those that were heard of last.
LIMIT = 1000


async def register(shard: Shard, worker: str, run: str, said: Registration) -> bool:
    """Says what a worker offers; whether it is to drain."""
    args: dict[str, Argument] = {
        "worker": worker,
        "run": run,
        "facts": said.text(),
        "lease_ms": shard.terms.lease_ms,
    }
    reply = await shard.run("worker/register", args)
    match [text(word) for word in reply]:
        case ["OK"]:
            return False
        case ["DRAINING"]:
            return True
        case _:
            raise ScriptFault("worker/register", reply)


async def leave(shard: Shard, worker: str, run: str) -> None:
    """Says that a worker has ended."""
    args: dict[str, Argument] = {"worker": worker, "run": run}
    ok("worker/leave", worker, await shard.run("worker/leave", args))


async def drain(shard: Shard, worker: str, *, why: str = "") -> int:
    """Tells those that run under a name to drain; how many they are. `why` is what they are blamed
    for, if they are. Raises WorkerNotFound.
    """
    args: dict[str, Argument] = {
        "worker": worker,
        "cap": shard.terms.events,
        "why": why,
        **shard.by_hand(),
    }
    reply = await shard.run("worker/drain", args)
    if text(reply[0]) == "GONE":
        raise WorkerNotFound(worker)
    return int(ok("worker/drain", worker, reply)[0])


async def read_fleet(shard: Shard, *, limit: int = LIMIT) -> list[Known]:
    """Who works here, those first that were heard of last."""
    now, *rows = ok("worker/list", "", await shard.run("worker/list", {"limit": limit}))
    return [known_in(row, int(now)) for row in rows]


def known_in(row: list[Any], now_ms: int) -> Known:
    """A worker as it is kept."""
    name, seen, flat = row
    kept = {words(field): words(value) for field, value in zip(flat[::2], flat[1::2], strict=True)}
    runs = [
        run_in(field.removeprefix("run:"), value, kept, now_ms)
        for field, value in sorted(kept.items())
        if field.startswith("run:")
    ]
    silent_ms = max(0, now_ms - int(float(seen)))
    blamed = kept.get("blamed", "")
    blamed_ms = max(0, now_ms - int(blamed)) if blamed.isdecimal() else None
    return Known(words(name), silent_ms, runs, left="left" in kept, blamed_ms=blamed_ms)


def run_in(id: str, value: str, kept: dict[str, str], now_ms: int) -> Run:
    """A run as it is kept: `<ms> <until ms> <JSON>`. Broken bytes are a run that is gone."""
    seen, _, rest = value.partition(" ")
    until, _, said = rest.partition(" ")
    told = f"drain:{id}" in kept
    if not (seen.isdecimal() and until.isdecimal()):
        return Run(id, now_ms, 0, told)
    silent_ms = max(0, now_ms - int(seen))
    return Run(id, silent_ms, int(until) - int(seen), told, Registration.parse(said))


async def unserved_lanes(shard: Shard) -> dict[Lane, int]:
    """The READY tasks that no live worker can do, by lane; grows with lanes and workers alone."""
    ready = ready_by_lane(await tally(shard))
    if not any(ready.values()):
        return {}
    return unserved(ready, offers_of(await read_fleet(shard)))


def ready_by_lane(counted: Tally) -> dict[Lane, int]:
    """The READY tasks of each lane."""
    return {one.lane: sum(one.ready.values()) for one in counted.lanes}
