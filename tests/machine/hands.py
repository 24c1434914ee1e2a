"""The rest of the verbs: what operators and time do, on both sides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from rqueue.core.outbox import GROUP
from rqueue.store.library import Argument
from rqueue.store.shard import ANSWER_LIMITS
from rqueue.task.state import FINAL
from tests.machine.invariants import unchanged
from tests.machine.projection import first_line
from tests.machine.twin import EVENTS, FOR_EVER_MS, MANY, RECHECK_MS, TTL_MS, Twin
from tests.machine.wire import KEYS
from tests.reference import cancelling, noting, operating, passing, telling
from tests.reference.records import Lease
from tests.reference.rounds import Exchanged
from tests.reference.verbs import working
from tests.reference.verbs.words import Asked

Dependents = Literal["cascade", "unblock"]
# A decision with all that may be said of it.
SAID = {"by": "human:ada", "cause": "agent_bug", "note": 'é "n"', "fingerprint": "f"}


class Hands(Twin):
    """A twin with all verbs."""

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
            found = (self.model.seen(task) for task in tasks)
            self.edges.waived |= {r.id for r in found if r is not None and r.state not in FINAL}
        words: list[str] = self.step(
            "cancel",
            lambda: self.wire.run("task/cancel", args, rows)[3:],
            lambda: cancelling.cancel(self.model, tasks, request=request, dependents=dependents),
        )
        return words

    def recall(self) -> int:
        found: int = self.step(
            "recall",
            lambda: self.wire.run("task/recall", {"limit": MANY, "tries": MANY})[2],
            lambda: passing.recall(self.model),
        )
        return found

    def promote(self) -> int:
        args: dict[str, Argument] = {
            "limit": MANY, "tries": MANY, "events": EVENTS, "woken": MANY, "back": MANY,
        }  # fmt: skip
        found: int = self.step(
            "promote",
            lambda: self.wire.run("task/promote", args)[2],
            lambda: passing.promote(self.model),
        )
        return found

    def tidy(self) -> None:
        """The janitor looks at what is remembered of turns: it goes where nothing is left of any
        lane of keys.
        """

        def tidied() -> None:
            if not any(map(self.model.lane, self.model.lines)):
                self.model.turned = Exchanged()

        args: dict[str, Argument] = {"silent_ms": TTL_MS}
        names = [("turned",)]
        self.step("tidy", lambda: self.wire.run("repair/tidy", args, names) and None, tidied)

    def open_breaker(self, type: str, for_ms: int) -> None:
        args: dict[str, Argument] = {"type": type, "for_ms": for_ms, "events": EVENTS}
        self.by_hand("open", "breaker/open", args)

    def close_breaker(self, type: str) -> None:
        args: dict[str, Argument] = {"type": type, "tries": MANY, "events": EVENTS}
        self.by_hand("close", "breaker/close", args)

    def lift_slowdown(self, what: str) -> None:
        args: dict[str, Argument] = {"what": what, "tries": MANY, "events": EVENTS}
        self.by_hand("lift", "slowdown/lift", args)

    def drain(self, worker: str) -> None:
        """A worker that is registered is sent home."""
        facts: dict[str, Argument] = {
            "worker": worker, "run": worker, "facts": "{}", "lease_ms": TTL_MS,
        }  # fmt: skip
        said: dict[str, Argument] = {"worker": worker, "cap": EVENTS, "why": ""}
        self.step(
            "register",
            lambda: self.wire.run("worker/register", facts),
            lambda: working.register(self.model, Asked(facts, [])),
        )
        self.by_hand("drain", "worker/drain", said)

    def set_budget(self, name: str, ceiling: int | None, *, afresh: bool) -> None:
        """Sets what an account may cost."""
        args: dict[str, Argument] = {
            "account": name, "micro_usd": "" if ceiling is None else ceiling,
            "afresh": int(afresh), "tries": MANY,
        }  # fmt: skip
        self.by_hand("set_budget", "budget/set", args)

    def dag_budget(self, dag: str, ceiling: int | None) -> None:
        args: dict[str, Argument] = {
            "dag": dag, "micro_usd": "" if ceiling is None else ceiling, "limit": MANY,
            "tries": MANY,
        }  # fmt: skip
        self.by_hand("dag_budget", "dag/budget", args)

    def note(self, lease: Lease, seq: int | str, micro_usd: int, tokens: int) -> str:
        """A note of a worker by its number, or one by hand by its name."""
        number = None if isinstance(seq, str) else seq
        said = noting.Noted(*lease, number, micro_usd=micro_usd, tokens_in=tokens)
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
            word = noting.note(self.model, said, keep=5)
            if number is None:
                answers[str(seq)] = (self.model.now_ms + FOR_EVER_MS, [word])
            return word

        word: str = self.step("note", lambda: self.wire.run("task/note", terms, [row])[1], expect)
        return word

    def unblock(self) -> None:
        args: dict[str, Argument] = {"limit": MANY, "tries": MANY, "events": EVENTS}
        self.step(
            "unblock",
            lambda: self.wire.run("task/unblock", args) and None,
            lambda: telling.unblock(self.model),
        )

    def run_now(self, task: str, *, request: str = "") -> None:
        args: dict[str, Argument] = {"task": task, "tries": MANY, "events": EVENTS}
        self.by_hand("run_now", "task/run_now", args, request=request)

    def expire(self) -> int:
        args: dict[str, Argument] = {"limit": MANY, "how": self.how, "again_ms": RECHECK_MS}
        found: int = self.step(
            "expire",
            lambda: self.wire.run("task/expire", args)[2],
            lambda: passing.expire(self.model, again_ms=RECHECK_MS),
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
            "review": json.dumps(SAID) if definition else "",
        }
        return self.by_hand("revive", "task/revive", args, request=request)

    def discard(
        self, tasks: Sequence[str], *, life: int | None = None, request: str = ""
    ) -> list[str]:
        """Gives tasks up, each in the life that it has, or all in one that was seen."""
        args: dict[str, Argument] = {"reason": "given up", "how": self.how}
        rows = [(task, life or self.life_of(task), "") for task in tasks]
        return self.by_hand("discard", "task/discard", args, rows, request=request)[1:]

    def life_of(self, task: str) -> int:
        """The life of a task that may be gone."""
        record = self.model.find(task)
        return record.life if record is not None else 1

    def escalate(self, task: str, *, life: int, request: str = "") -> list[str]:
        rows = [(task, life, json.dumps(SAID))]
        how: dict[str, Argument] = {"how": self.how}
        return self.by_hand("escalate", "task/escalate", how, rows, request=request)[1:]

    def set_priority(self, task: str, *, base: int, was: int) -> None:
        args: dict[str, Argument] = {"task": task, "priority": base, "was": was}
        self.by_hand("set_priority", "task/set_priority", args)

    def reschedule(self, task: str, *, delay_ms: int) -> None:
        args: dict[str, Argument] = {"task": task, "delay": delay_ms, "at": ""}
        self.by_hand("reschedule", "task/reschedule", args)

    def edit(self, task: str, *, was: bytes, definition: bytes) -> None:
        args: dict[str, Argument] = {"task": task, "was": was, "def": definition}
        self.by_hand("edit", "task/edit", args)

    def watch(self, box: str, tasks: Sequence[str]) -> list[str]:
        args: dict[str, Argument] = {"box": box, "keep_ms": TTL_MS}
        words: list[str] = self.step(
            "watch",
            lambda: self.wire.run("task/watch", args, [(task,) for task in tasks])[1:],
            lambda: operating.watch(self.model, box, tasks),
        )
        return words

    def pause(self, what: str) -> None:
        self.by_hand("pause", "queue/pause", {"what": what})

    def resume(self, what: str) -> None:
        lanes = json.dumps(sorted(self.model.lanes.values()))
        args: dict[str, Argument] = {"what": what, "lanes": lanes, "tries": MANY}
        self.by_hand("resume", "queue/resume", args)

    def archived(self, entries: int, *, late: bool = False) -> int:
        """The archive has seen entries, and the DAGs that are over; of these none where it was
        `late`, and read them when they were not.
        """
        there = [entry for entry, _ in self.wire.dump().content.get("outbox", [])][:entries]
        if not there:
            return 0
        ended = (dag for dag, graph in self.model.dags.items() if graph.finished_ms is not None)
        over = [] if late else sorted(ended)
        args: dict[str, Argument] = {"group": GROUP, "ttl": TTL_MS, "dags": " ".join(over)}
        found: int = self.step(
            "archived",
            lambda: self.wire.run("archive/acknowledge", args, [(e,) for e in there])[1],
            lambda: operating.archived(self.model, entries, over),
        )
        return found

    def read_mailbox(self, box: str) -> str | None:
        """The next line of a box, taken by its reader."""
        line: Any = self.wire.client.lpop(KEYS.mail(box))
        lines = self.model.boxes.get(box, [])
        wanted = lines.pop(0) if lines else None
        assert (first_line(line.decode()) if line else None) == wanted
        self.compare("read_mail")
        return wanted

    def lose_mail(self, box: str) -> None:
        """A blocking read was answered and nobody saw it."""
        self.wire.client.delete(KEYS.mail(box))
        self.model.boxes.pop(box, None)
        self.compare("lose_mail")

    def flush_scripts(self) -> None:
        """The server forgets the scripts, as after a failover."""
        before = self.view
        self.wire.client.script_flush()
        self.compare("flush_scripts")
        unchanged("G9", before, self.view)
