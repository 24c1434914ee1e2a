"""The verbs of DAGs, on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqueue.core.submit import lanes_text
from rqueue.dags.submit import dependents, letters
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.machine.hands import Hands
from tests.machine.twin import MANY, MAX_LANES, MAX_NODES, TTL_MS
from tests.machine.wire import compact
from tests.machine.words import asks
from tests.machine.words import place as placed
from tests.reference import dags, planting, spawning
from tests.reference.records import Draft
from tests.reference.spawning import Spawn

SPAWNED = ("parent", "token", "wait", "rule", "steps", "gather", "part")
KEPT_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class PlantedQueue:
    """A DAG as its producer sends it: what is said of it, and its tasks, each after its parents."""

    dag: str
    facts: Mapping[str, str]
    drafts: Sequence[Draft]

    def graph(self) -> tuple[dict[str, tuple[str, ...]], set[str]]:
        """Its edges, and who waits for something else than completions."""
        triggered = {one.id for one in self.drafts if one.special.trigger != "all_success"}
        return {one.id: one.inside for one in self.drafts}, triggered

    def flags(self, draft: Draft) -> str:
        """What a task's own row says of it: who waits for it, and whether there is more."""
        return ("m" if asks(draft)[0] else "") + letters(*self.graph())[draft.id]

    def row(self, draft: Draft, lanes: Sequence[object]) -> tuple[Argument, ...]:
        """A task as the script reads it."""
        place = f"{placed(draft, lanes.index(draft.lane) + 1)} {draft.rank}"
        above, below = " ".join(draft.inside), dependents(*self.graph()).get(draft.id, "")
        flags = self.flags(draft)
        return draft.id, place, draft.definition, flags, above, special(draft), below


def special(draft: Draft) -> str:
    """What is not plain about a task of a DAG: its parents elsewhere have a name of their own."""
    more, ask = asks(draft)
    ask = ask.replace('"parents"', '"outside"')
    return f"{more}\n{ask}" if more or ask else ""


class GraphHands(Hands):
    """A twin that knows DAGs."""

    def both(self, verb: str, args: dict[str, Argument], expect: Any, rows: Any = ()) -> list[Any]:
        """A script of DAGs whose whole reply is compared."""
        found: list[Any] = self.step(
            verb, lambda: self.wire.run(f"dag/{verb}", args, rows), lambda: list(expect())
        )
        return found

    def plant(self, planted_queue: PlantedQueue, drafts: Sequence[Draft]) -> list[Any]:
        """Sends a part of a DAG."""
        lanes = list(dict.fromkeys(draft.lane for draft in planted_queue.drafts))
        args: dict[str, Argument] = {
            "dag": planted_queue.dag,
            "facts": compact([word for pair in planted_queue.facts.items() for word in pair])
            or "[]",
            "lanes": lanes_text(tuple(lanes)),
            "max_lanes": MAX_LANES,
            "follow": "",
            "who": "",
            "most": "",
        }
        return self.both(
            "submit",
            args,
            lambda: planting.plant(
                self.model, planted_queue.dag, drafts, facts=planted_queue.facts, lanes=lanes
            ),
            [planted_queue.row(draft, lanes) for draft in drafts],
        )

    def commit(self, dag: str, total: str, *, limit: int = MANY) -> list[Any]:
        args: dict[str, Argument] = {"dag": dag, "total": total, "limit": limit, "tries": MANY}
        return self.both(
            "commit", args, lambda: planting.commit(self.model, dag, total=total, limit=limit)
        )

    def drop(self, dag: str, *, limit: int = MANY) -> list[Any]:
        args: dict[str, Argument] = {"dag": dag, "limit": limit, "idle_ms": 0}
        return self.both(
            "drop", args, lambda: planting.drop(self.model, dag, limit=limit, idle_ms=0)
        )

    def spawn(self, call: Spawn) -> list[Any]:
        lanes = list(dict.fromkeys(draft.lane for _, draft in call.rows))
        args: dict[str, Argument] = {
            **{name: getattr(call, name) for name in SPAWNED},
            "keep_ms": KEPT_MS,
            "who": "",
            "max_nodes": MAX_NODES,
            "lanes": lanes_text(tuple(lanes)),
            "max_lanes": MAX_LANES,
            **ANSWER_LIMITS,
        }
        rows = [
            (
                key,
                draft.id,
                f"{placed(draft, lanes.index(draft.lane) + 1)} 0",
                draft.definition,
                special(draft) or "\n",
            )
            for key, draft in call.rows
        ]
        return self.both("spawn", args, lambda: spawning.spawn(self.model, call), rows)

    def cancel_dag(
        self, dag: str, *, request: str, reason: str = "", limit: int = MANY
    ) -> list[Any]:
        args: dict[str, Argument] = {
            "dag": dag,
            "reason": reason,
            "limit": limit,
            "how": self.how,
            "request": request,
        }
        named: Any = {"reason": reason, "request": request, "limit": limit}
        return self.both("cancel", args, lambda: dags.cancel(self.model, dag, **named))

    def pause_dag(self, dag: str, *, begin: bool = True, limit: int = MANY) -> list[Any]:
        args: dict[str, Argument] = {"dag": dag, "limit": limit, "begin": int(begin)}
        return self.by_hand("pause", "dag/pause", args)

    def resume_dag(self, dag: str) -> list[Any]:
        args: dict[str, Argument] = {"dag": dag, "limit": MANY, "tries": MANY, "begin": 1}
        return self.by_hand("resume", "dag/resume", args)

    def forget(self, dag: str, *, limit: int = MANY) -> list[Any]:
        args: dict[str, Argument] = {
            "dag": dag,
            "limit": limit,
            "archive": int(self.archive),
            "ttl": TTL_MS,
        }
        return self.both(
            "forget", args, lambda: ["OK", int(dags.forget(self.model, dag, limit=limit))]
        )

    def rank(self, dag: str, ranks: Sequence[tuple[str, int]], *, seen: str) -> list[Any]:
        def expect() -> list[str]:
            dags.rank(self.model, dag, ranks, seen=seen)
            return ["OK"]

        return self.both("rank", {"dag": dag, "seen": seen}, expect, ranks)

    def go_on(self, step: str, *, limit: int = MANY) -> list[Any]:
        """What a keeper does with a step that is left, as far as one call does it."""
        verb, _, dag = step.partition(" ")
        match verb:
            case "commit":
                return self.commit(dag, "", limit=limit)
            case "cancel":
                return self.cancel_dag(dag, request="kept", limit=limit)
            case "hold":
                return self.pause_dag(dag, begin=False, limit=limit)
            case "forget":
                return self.forget(dag, limit=limit)
            case _:
                ranks = [(task, at) for at, task in enumerate(self.model.dags[dag].members)]
                return self.rank(dag, ranks, seen=str(self.model.unfinished[step]))
