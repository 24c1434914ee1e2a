"""The moves of operators and services, on both sides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from rqueue.core.outbox import GROUP
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from rqueue.task.state import FINAL
from tests.machine.comparison import EVENTS, FOR_EVER_MS, MANY, RECHECK_MS, TTL_MS, Comparison
from tests.machine.invariants.guarantees import unchanged
from tests.machine.server_shard import KEYS
from tests.machine.views.shard import first_line
from tests.reference import cancelling, dependents, notes, operations, timers
from tests.reference.moves import workers
from tests.reference.moves.call import Call
from tests.reference.records import Lease
from tests.reference.turns import TurnClock

Dependents = Literal["cascade", "unblock"]
# A decision with all optional fields.
REVIEW = {"by": "human:ada", "cause": "agent_bug", "note": 'é "n"', "fingerprint": "f"}


class ComparedShard(Comparison):
    """A compared shard with all moves except those of DAGs."""

    def cancel(
        self, tasks: Sequence[str], *, request: str, dependents: Dependents = "cascade"
    ) -> list[str]:
        args: dict[str, Argument] = {
            "reason": "no longer wanted",
            "dependents": dependents,
            "limit": MANY,
            "how": self.how,
            "request": request,
            **ANSWER_LIMITS,
        }
        rows = [(task,) for task in tasks]
        if dependents == "unblock":
            found = (self.model.visible(task) for task in tasks)
            self.dag_invariants.waived |= {
                r.id for r in found if r is not None and r.state not in FINAL
            }
        words: list[str] = self.step(
            "cancel",
            lambda: self.server_shard.run("task/cancel", args, rows)[3:],
            lambda: cancelling.cancel(self.model, tasks, request=request, dependents=dependents),
        )
        return words

    def recall(self) -> int:
        found: int = self.step(
            "recall",
            lambda: self.server_shard.run("task/recall", {"limit": MANY, "tries": MANY})[2],
            lambda: timers.recall(self.model),
        )
        return found

    def promote(self) -> int:
        args: dict[str, Argument] = {
            "limit": MANY, "tries": MANY, "events": EVENTS, "woken": MANY, "back": MANY,
        }  # fmt: skip
        found: int = self.step(
            "promote",
            lambda: self.server_shard.run("task/promote", args)[2],
            lambda: timers.promote(self.model),
        )
        return found

    def tidy(self) -> None:
        """The janitor deletes the progress of turns when no lane with tenants has tasks."""

        def tidied() -> None:
            if not any(map(self.model.lane, self.model.lane_turns)):
                self.model.turn_clock = TurnClock()

        args: dict[str, Argument] = {"silent_ms": TTL_MS}
        names = [("turned",)]
        self.step(
            "tidy", lambda: self.server_shard.run("repair/tidy", args, names) and None, tidied
        )

    def open_breaker(self, type: str, for_ms: int) -> None:
        args: dict[str, Argument] = {"type": type, "for_ms": for_ms, "events": EVENTS}
        self.operator_call("open", "breaker/open", args)

    def close_breaker(self, type: str) -> None:
        args: dict[str, Argument] = {"type": type, "tries": MANY, "events": EVENTS}
        self.operator_call("close", "breaker/close", args)

    def lift_slowdown(self, what: str) -> None:
        args: dict[str, Argument] = {"what": what, "tries": MANY, "events": EVENTS}
        self.operator_call("lift", "slowdown/lift", args)

    def drain(self, worker: str) -> None:
        """Registers a worker and drains it."""
        facts: dict[str, Argument] = {
            "worker": worker, "run": worker, "facts": "{}", "lease_ms": TTL_MS,
        }  # fmt: skip
        args: dict[str, Argument] = {"worker": worker, "cap": EVENTS, "why": ""}
        self.step(
            "register",
            lambda: self.server_shard.run("worker/register", facts),
            lambda: workers.register(self.model, Call(facts, [])),
        )
        self.operator_call("drain", "worker/drain", args)

    def set_budget(self, name: str, ceiling: int | None, *, afresh: bool) -> None:
        """Sets the ceiling of an account."""
        args: dict[str, Argument] = {
            "account": name, "micro_usd": "" if ceiling is None else ceiling,
            "afresh": int(afresh), "tries": MANY,
        }  # fmt: skip
        self.operator_call("set_budget", "budget/set", args)

    def dag_budget(self, dag: str, ceiling: int | None) -> None:
        args: dict[str, Argument] = {
            "dag": dag, "micro_usd": "" if ceiling is None else ceiling, "limit": MANY,
            "tries": MANY,
        }  # fmt: skip
        self.operator_call("dag_budget", "dag/budget", args)

    def note(self, lease: Lease, seq: int | str, micro_usd: int, tokens: int) -> str:
        """A report of a worker by number, or one by hand by name."""
        number = None if isinstance(seq, str) else seq
        report = notes.NoteCall(*lease, number, micro_usd=micro_usd, tokens_in=tokens)
        cost = (micro_usd, tokens, 0)
        row = (*lease, "" if number is None else number, "", "", "", *cost, 0, 1, "")
        terms: dict[str, Argument] = {
            "keep": 5, "archive": int(self.archive), "memo_ms": FOR_EVER_MS,
            "request": "" if number is not None else seq,
        }  # fmt: skip
        answers = self.model.answers

        def expect() -> str:
            if number is None and str(seq) in answers:
                return str(answers[str(seq)][1][0])
            word = notes.note(self.model, report, keep=5)
            if number is None:
                answers[str(seq)] = (self.model.now_ms + FOR_EVER_MS, [word])
            return word

        word: str = self.step(
            "note", lambda: self.server_shard.run("task/note", terms, [row])[1], expect
        )
        return word

    def unblock(self) -> None:
        args: dict[str, Argument] = {"limit": MANY, "tries": MANY, "events": EVENTS}
        self.step(
            "unblock",
            lambda: self.server_shard.run("task/unblock", args) and None,
            lambda: dependents.unblock(self.model),
        )

    def run_now(self, task: str, *, request: str = "") -> None:
        args: dict[str, Argument] = {"task": task, "tries": MANY, "events": EVENTS}
        self.operator_call("run_now", "task/run_now", args, request=request)

    def expire(self) -> int:
        args: dict[str, Argument] = {"limit": MANY, "how": self.how, "again_ms": RECHECK_MS}
        found: int = self.step(
            "expire",
            lambda: self.server_shard.run("task/expire", args)[2],
            lambda: timers.expire(self.model, again_ms=RECHECK_MS),
        )
        return found

    def revive(
        self, task: str, *, life: int, definition: bytes = b"", delay_ms: int = 0, request: str = ""
    ) -> list[Any]:
        args: dict[str, Argument] = {
            "task": task,
            "life": life,
            "def": definition,
            "delay": delay_ms,
            "tries": MANY,
            "terms": self.how,
            "steps": MANY,
            "page": MANY,
            "review": json.dumps(REVIEW) if definition else "",
        }
        return self.operator_call("revive", "task/revive", args, request=request)

    def discard(
        self, tasks: Sequence[str], *, life: int | None = None, request: str = ""
    ) -> list[str]:
        """Discards tasks, each in its present life, or all in a given one."""
        args: dict[str, Argument] = {"reason": "given up", "how": self.how}
        rows = [(task, life or self.life_of(task), "") for task in tasks]
        return self.operator_call("discard", "task/discard", args, rows, request=request)[1:]

    def life_of(self, task: str) -> int:
        """The life of a task; 1 if it is gone."""
        record = self.model.find(task)
        return record.life if record is not None else 1

    def escalate(self, task: str, *, life: int, request: str = "") -> list[str]:
        rows = [(task, life, json.dumps(REVIEW))]
        how: dict[str, Argument] = {"how": self.how}
        return self.operator_call("escalate", "task/escalate", how, rows, request=request)[1:]

    def set_priority(self, task: str, *, base: int, was: int) -> None:
        args: dict[str, Argument] = {"task": task, "priority": base, "was": was}
        self.operator_call("set_priority", "task/set_priority", args)

    def reschedule(self, task: str, *, delay_ms: int) -> None:
        args: dict[str, Argument] = {"task": task, "delay": delay_ms, "at": ""}
        self.operator_call("reschedule", "task/reschedule", args)

    def edit(self, task: str, *, was: bytes, definition: bytes) -> None:
        args: dict[str, Argument] = {"task": task, "was": was, "def": definition}
        self.operator_call("edit", "task/edit", args)

    def watch(self, box: str, tasks: Sequence[str]) -> list[str]:
        args: dict[str, Argument] = {"box": box, "keep_ms": TTL_MS}
        words: list[str] = self.step(
            "watch",
            lambda: self.server_shard.run("task/watch", args, [(task,) for task in tasks])[1:],
            lambda: operations.watch(self.model, box, tasks),
        )
        return words

    def pause(self, what: str) -> None:
        self.operator_call("pause", "queue/pause", {"what": what})

    def resume(self, what: str) -> None:
        lanes = json.dumps(sorted(self.model.lanes.values()))
        args: dict[str, Argument] = {"what": what, "lanes": lanes, "tries": MANY}
        self.operator_call("resume", "queue/resume", args)

    def archived(self, entries: int, *, late: bool = False) -> int:
        """Acknowledges outbox entries, with the DAGs that have ended; without those if they ended
        after the entries were read (`late`).
        """
        there = [entry for entry, _ in self.server_shard.dump().content.get("outbox", [])][:entries]
        if not there:
            return 0
        ended = (dag for dag, graph in self.model.dags.items() if graph.finished_ms is not None)
        over = [] if late else sorted(ended)
        args: dict[str, Argument] = {"group": GROUP, "ttl": TTL_MS, "dags": " ".join(over)}
        found: int = self.step(
            "archived",
            lambda: self.server_shard.run("archive/acknowledge", args, [(e,) for e in there])[1],
            lambda: operations.archived(self.model, entries, over),
        )
        return found

    def read_mailbox(self, box: str) -> str | None:
        """Takes the next line of a mailbox."""
        line: Any = self.server_shard.client.lpop(KEYS.mail(box))
        lane_turns = self.model.mailboxes.get(box, [])
        wanted = lane_turns.pop(0) if lane_turns else None
        assert (first_line(line.decode()) if line else None) == wanted
        self.compare("read_mail")
        return wanted

    def lose_mail(self, box: str) -> None:
        """A line of a mailbox was delivered, but its reader did not receive it."""
        self.server_shard.client.delete(KEYS.mail(box))
        self.model.mailboxes.pop(box, None)
        self.compare("lose_mail")

    def flush_functions(self) -> None:
        """The server loses its functions, as after a failover."""
        before = self.view
        self.server_shard.client.function_flush()
        self.compare("flush_functions")
        unchanged("G9", before, self.view)
