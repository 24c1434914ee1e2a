"""One shard as the store's modules see it: its keys, its scripts, and the queue's terms."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from rqueue.model.turns import Rules

if TYPE_CHECKING:
    from rqueue.errors import RQueueError
    from rqueue.store.keys import Keys
    from rqueue.store.runner import Reply, Runner
    from rqueue.store.scripts import Argument

Asked = tuple[Mapping[str, "Argument"], Iterable[Sequence["Argument"]]]

# How much one script call may do before it leaves the rest to the next: a call of this size
# stops the server for a few milliseconds.
CHUNK = 500
LIMIT = 1000
# Dependents that one call tells: each becomes READY, which is more than most else that is counted.
TOLD = 300
# Tasks that one call gives up: each leaves the stream and its lists, which is more still.
GIVEN_UP = 100
TRIES = 100
# Gates and accounts whose time has come that one call looks at: each may touch every lane.
WOKEN = 100
# Tasks that one call brings back which their DAGs can pay again, of however many DAGs.
PAID = 300
# What a call may do for those who wait for what it has freed.
FREED = {"tries": TRIES, "woken": WOKEN, "back": PAID}
# Parents of a revived task that one call tells that it waits for them.
PARENTS = 250
# Edges that are followed to find a circle.
EDGES = 2_500
# What one call reads of what may be large, in bytes; of one that is larger alone, all.
BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Terms:
    """What a queue's settings mean for its scripts, in their units."""

    archive: bool = False
    max_outbox: int = 0
    result_ttl_ms: int = 86_400_000
    dedupe_window_ms: int = 7 * 86_400_000
    max_lanes: int = 512
    lease_ms: int = 30_000
    claim_ms: int = 60_000
    timeout_ms: int = 3_600_000
    grace_ms: int = 10_000
    park_ms: int = 5_000
    handoff_ms: int = 2_000
    memo_ms: int = 120_000
    events: int = 10_000
    keep_failures: int = 100
    wait_replicas: int = 0
    max_nodes: int = 10_000
    spawn_rule: str = "own_dag"
    default_role: str = "orchestrator"
    inbox_role: str = "orchestrator"
    max_steps: int = 1_000
    max_artifacts: int = 100
    max_result_bytes: int = 262_144
    keep_reviews: int = 10_000


@cache
def ending(terms: Terms) -> str:
    """What a script needs to know to end a task that it was not called for."""
    facts = {
        "archive": "1" if terms.archive else "0",
        "ttl": terms.result_ttl_ms,
        "events": terms.events,
        "max_nodes": terms.max_nodes,
        "reviews": terms.keep_reviews,
    }
    return json.dumps(facts, separators=(",", ":"))


class Shard:
    """Where one shard's calls go. All keys of a call come from its `keys`. Its `rules` may change:
    the same object while they do not.
    """

    def __init__(
        self, runner: Runner, keys: Keys, terms: Terms, rules: Callable[[], Rules] | None = None
    ) -> None:
        self.runner = runner
        self.keys = keys
        self.terms = terms
        none = Rules()
        self.rules = rules or (lambda: none)
        self.root = keys.root
        self.named = {
            name: {key: getattr(keys, key)() for key in script.keys}
            for name, script in runner.scripts.items()
        }

    def by_hand(self) -> dict[str, Argument]:
        """The name of a call that somebody makes by hand: sent again under it, that call is
        answered as it was and changes nothing, whatever came between.
        """
        return {"request": secrets.token_hex(8), "memo_ms": self.terms.memo_ms}

    async def run(
        self,
        name: str,
        args: Mapping[str, Argument] | None = None,
        rows: Iterable[Sequence[Argument]] = (),
        *,
        replicas: int = 0,
    ) -> Reply:
        """A script of this shard; the keys its header names, and its root, are filled in."""
        given = {"root": self.root, **(args or {})}
        keys = self.named[name]
        return await self.runner.run(name, keys=keys, args=given, rows=rows, replicas=replicas)

    async def run_all(
        self, name: str, calls: Sequence[Callable[[], Asked]]
    ) -> list[Reply | RQueueError]:
        """A script of this shard several times, one call behind the other, each in its turn."""
        script, keys = self.runner.scripts[name], self.named[name]

        def words(call: Callable[[], Asked]) -> list[Argument]:
            args, rows = call()
            return script.pack(keys, {"root": self.root, **args}, rows)

        return await self.runner.run_all(name, [partial(words, call) for call in calls])
