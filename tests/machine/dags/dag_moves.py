"""The moves of DAGs, on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqueue.core.submit import lanes_text
from rqueue.dags.submit import dependents, letters
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from tests.machine.comparison import MANY, MAX_LANES, MAX_NODES, TTL_MS
from tests.machine.encoding import options_of
from tests.machine.encoding import place as placed
from tests.machine.operator_moves import ComparedShard
from tests.machine.server_shard import compact
from tests.reference.dags import control, spawning, submission
from tests.reference.dags.spawning import Spawn
from tests.reference.records import Draft

SPAWNED = ("parent", "token", "wait", "rule", "steps", "gather", "part")
KEPT_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class DagPlan:
    """A DAG as its producer sends it: its facts, and its tasks in order of their dependencies."""

    dag: str
    facts: Mapping[str, str]
    drafts: Sequence[Draft]

    def graph(self) -> tuple[dict[str, tuple[str, ...]], set[str]]:
        """Its edges, and the tasks with another trigger than all_success."""
        triggered = {one.id for one in self.drafts if one.special.trigger != "all_success"}
        return {one.id: one.inside for one in self.drafts}, triggered

    def flags(self, draft: Draft) -> str:
        """The flags of a task's row: its dependents, and whether it has options."""
        return ("m" if options_of(draft)[0] else "") + letters(*self.graph())[draft.id]

    def row(self, draft: Draft, lanes: Sequence[object]) -> tuple[Argument, ...]:
        """The row of a task."""
        place = f"{placed(draft, lanes.index(draft.lane) + 1)} {draft.rank}"
        above, below = " ".join(draft.inside), dependents(*self.graph()).get(draft.id, "")
        flags = self.flags(draft)
        return draft.id, place, draft.definition, flags, above, special(draft), below


def special(draft: Draft) -> str:
    """The options of a task of a DAG: dependencies outside of it have a name of their own."""
    more, ask = options_of(draft)
    ask = ask.replace('"parents"', '"outside"')
    return f"{more}\n{ask}" if more or ask else ""


class ComparedDags(ComparedShard):
    """A compared shard with the moves of DAGs."""

    def both(self, verb: str, args: dict[str, Argument], expect: Any, rows: Any = ()) -> list[Any]:
        """Runs a move of DAGs on both sides and compares the whole reply."""
        found: list[Any] = self.step(
            verb, lambda: self.server_shard.run(f"dag/{verb}", args, rows), lambda: list(expect())
        )
        return found

    def submit_part(self, plan: DagPlan, drafts: Sequence[Draft]) -> list[Any]:
        """Sends a part of a DAG."""
        lanes = list(dict.fromkeys(draft.lane for draft in plan.drafts))
        args: dict[str, Argument] = {
            "dag": plan.dag,
            "facts": compact([word for pair in plan.facts.items() for word in pair]) or "[]",
            "lanes": lanes_text(tuple(lanes)),
            "max_lanes": MAX_LANES,
            "follow": "",
            "who": "",
            "most": "",
        }
        return self.both(
            "submit",
            args,
            lambda: submission.submit_part(
                self.model, plan.dag, drafts, facts=plan.facts, lanes=lanes
            ),
            [plan.row(draft, lanes) for draft in drafts],
        )

    def commit(self, dag: str, total: str, *, limit: int = MANY) -> list[Any]:
        args: dict[str, Argument] = {"dag": dag, "total": total, "limit": limit, "tries": MANY}
        return self.both(
            "commit", args, lambda: submission.commit(self.model, dag, total=total, limit=limit)
        )

    def drop(self, dag: str, *, limit: int = MANY) -> list[Any]:
        args: dict[str, Argument] = {"dag": dag, "limit": limit, "idle_ms": 0}
        return self.both(
            "drop", args, lambda: submission.drop(self.model, dag, limit=limit, idle_ms=0)
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
        return self.both("cancel", args, lambda: control.cancel(self.model, dag, **named))

    def pause_dag(self, dag: str, *, begin: bool = True, limit: int = MANY) -> list[Any]:
        args: dict[str, Argument] = {"dag": dag, "limit": limit, "begin": int(begin)}
        return self.operator_call("pause", "dag/pause", args)

    def resume_dag(self, dag: str) -> list[Any]:
        args: dict[str, Argument] = {"dag": dag, "limit": MANY, "tries": MANY, "begin": 1}
        return self.operator_call("resume", "dag/resume", args)

    def forget(self, dag: str, *, limit: int = MANY) -> list[Any]:
        args: dict[str, Argument] = {
            "dag": dag,
            "limit": limit,
            "archive": int(self.archive),
            "ttl": TTL_MS,
        }
        return self.both(
            "forget", args, lambda: ["OK", int(control.forget(self.model, dag, limit=limit))]
        )

    def rank(self, dag: str, ranks: Sequence[tuple[str, int]], *, seen: str) -> list[Any]:
        def expect() -> list[str]:
            control.rank(self.model, dag, ranks, seen=seen)
            return ["OK"]

        return self.both("rank", {"dag": dag, "seen": seen}, expect, ranks)

    def resume_step(self, step: str, *, limit: int = MANY) -> list[Any]:
        """Continues an unfinished operation with one call, as the resumer does."""
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
