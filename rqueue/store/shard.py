"""One shard: its keys, the calls of its moves, and the limits of a call."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from rqueue.store.lanes import Lanes
from rqueue.task.limits import Rules

if TYPE_CHECKING:
    from rqueue.errors import RQueueError
    from rqueue.store.keys import Keys
    from rqueue.store.library import Argument
    from rqueue.store.runner import Reply, Runner

CallArguments = tuple[Mapping[str, "Argument"], Iterable[Sequence["Argument"]]]

# How many items one call processes; the next call continues. A call of this size blocks the server
# for a few milliseconds.
CHUNK = 500
LIMIT = 1000
# Dependents that one call resolves: each becomes READY, which costs more than most other items.
UNBLOCK_LIMIT = 300
# Tasks that one call cancels: each is removed from the stream and its lists, which costs even more.
CANCEL_LIMIT = 100
TRIES = 100
# Gates and accounts whose time has come that one call checks: each may affect every lane.
WAKE_LIMIT = 100
# Tasks that one call returns to their lanes because their DAGs can pay for them again.
UNPAID_LIMIT = 300
# Limits for answering waiting claims within a call that frees something.
ANSWER_LIMITS = {"tries": TRIES, "woken": WAKE_LIMIT, "back": UNPAID_LIMIT}
# Dependencies of a revived task to which one call adds it as a dependent.
DEPENDENCY_LIMIT = 250
# Edges that are followed in search of a cycle.
EDGE_LIMIT = 2_500
# Bytes that one call reads of parts that may be large; a single larger part is read whole.
BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Terms:
    """A queue's settings in the units of its moves."""

    archive: bool = False
    max_outbox: int = 0
    result_ttl_ms: int = 86_400_000
    dedupe_window_ms: int = 7 * 86_400_000
    max_lanes: int = 512
    lease_ms: int = 30_000
    claim_ms: int = 60_000
    timeout_ms: int = 3_600_000
    grace_ms: int = 10_000
    claim_wait_ms: int = 5_000
    delivery_ms: int = 2_000
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
    """The settings that a move needs to end a task."""
    facts = {
        "archive": "1" if terms.archive else "0",
        "ttl": terms.result_ttl_ms,
        "events": terms.events,
        "max_nodes": terms.max_nodes,
        "reviews": terms.keep_reviews,
    }
    return json.dumps(facts, separators=(",", ":"))


class Shard:
    """Calls moves on one shard. All keys of a call come from its `keys`. `rules` returns the same
    object while the rules do not change.
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
        # The lanes that the last claim found; the next claiming client of this process begins with
        # them.
        self.lanes = Lanes()
        self.move_keys = {
            name: {key: getattr(keys, key)() for key in move.keys}
            for name, move in runner.moves.items()
        }

    def request_args(self) -> dict[str, Argument]:
        """A new name for a user's call: repeated under this name, the call returns the first reply
        and changes nothing.
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
        """Calls a move of this shard; the keys that its header names, and the root, are
        filled in.
        """
        given = {"root": self.root, **(args or {})}
        keys = self.move_keys[name]
        return await self.runner.run(name, keys=keys, args=given, rows=rows, replicas=replicas)

    async def run_all(
        self, name: str, calls: Sequence[Callable[[], CallArguments]]
    ) -> list[Reply | RQueueError]:
        """Calls a move of this shard several times, without waiting for replies in between."""
        move, keys = self.runner.moves[name], self.move_keys[name]

        def words(call: Callable[[], CallArguments]) -> list[Argument]:
            args, rows = call()
            return move.pack(keys, {"root": self.root, **args}, rows)

        return await self.runner.run_all(name, [partial(words, call) for call in calls])
