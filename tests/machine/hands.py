"""The rest of the verbs: what operators and time do, on both sides."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal

from rqueue.model.state import FINAL
from rqueue.store.scripts import Argument
from rqueue.testing import (
    breaking,
    cancelling,
    claiming,
    dags,
    noting,
    operating,
    passing,
    telling,
)
from rqueue.testing.records import Lease
from rqueue.testing.verbs import budgets, working
from rqueue.testing.verbs.words import Asked
from tests.machine.invariants import unchanged
from tests.machine.projection import first_line
from tests.machine.twin import AGAIN_MS, EVENTS, MANY, TTL_MS, Twin
from tests.machine.wire import KEYS

Dependents = Literal["cascade", "unblock"]


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
            "tries": MANY,
            "request": request,
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
        args: dict[str, Argument] = {"limit": MANY, "tries": MANY, "events": EVENTS}
        found: int = self.step(
            "promote",
            lambda: self.wire.run("task/promote", args)[2],
            lambda: passing.promote(self.model),
        )
        return found

    def open_breaker(self, type: str, for_ms: int) -> None:
        request = secrets.token_hex(4)
        args: dict[str, Argument] = {
            "type": type, "for_ms": for_ms, "events": EVENTS, "request": request,
        }  # fmt: skip
        self.step(
            "open",
            lambda: self.wire.run("breaker/open", args) and None,
            lambda: breaking.open_for(self.model, type, for_ms),
        )

    def close_breaker(self, type: str) -> None:
        args: dict[str, Argument] = {"type": type, "tries": MANY, "events": EVENTS}

        def close() -> None:
            touched = breaking.close(self.model, type)
            if touched:
                claiming.answer(self.model, touched)

        self.step("close", lambda: self.wire.run("breaker/close", args) and None, close)

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
        self.step(
            "drain",
            lambda: self.wire.run("worker/drain", said),
            lambda: working.drain(self.model, Asked(said, [])),
        )

    def set_budget(self, name: str, ceiling: int | None, *, afresh: bool, again: bool) -> None:
        """Sets what an account may cost; where it is sent `again`, nothing changes."""
        args: dict[str, Argument] = {
            "account": name, "micro_usd": "" if ceiling is None else ceiling,
            "afresh": int(afresh), "tries": MANY, "request": secrets.token_hex(4),
        }  # fmt: skip
        asked = Asked(args, [])
        for _ in range(1 + again):
            self.step(
                "set_budget",
                lambda: self.wire.run("budget/set", args)[0],
                lambda: budgets.given(self.model, asked)[0],
            )

    def dag_budget(self, dag: str, ceiling: int | None) -> None:
        args: dict[str, Argument] = {
            "dag": dag, "micro_usd": "" if ceiling is None else ceiling, "limit": MANY,
            "tries": MANY,
        }  # fmt: skip
        micro_usd = str(args["micro_usd"])
        self.step(
            "dag_budget",
            lambda: self.wire.run("dag/budget", args)[0],
            lambda: dags.set_budget(self.model, dag, micro_usd, limit=MANY),
        )

    def note(self, lease: Lease, seq: int, micro_usd: int) -> str:
        said = noting.Noted(*lease, seq, micro_usd=micro_usd)
        row = (*lease, seq, "", "", "", micro_usd, 0, 0, 0, 1)
        word: str = self.step(
            "note",
            lambda: self.wire.run("task/note", {"keep": 5}, [row])[1],
            lambda: noting.note(self.model, said, keep=5),
        )
        return word

    def unblock(self) -> None:
        args: dict[str, Argument] = {"limit": MANY, "tries": MANY, "events": EVENTS}
        self.step(
            "unblock",
            lambda: self.wire.run("task/unblock", args) and None,
            lambda: telling.unblock(self.model),
        )

    def run_now(self, task: str, *, request: str) -> str | int:
        args: dict[str, Argument] = {
            "task": task,
            "request": request,
            "tries": MANY,
            "events": EVENTS,
        }

        def run() -> str | int:
            word, *rest = self.wire.run("task/run_now", args)
            return int(rest[1]) if word == "OK" else str((rest or [word])[0])

        found: str | int = self.step(
            "run_now", run, lambda: passing.run_now(self.model, task, request=request)
        )
        return found

    def expire(self) -> int:
        args: dict[str, Argument] = {"limit": MANY, "how": self.how, "again_ms": AGAIN_MS}
        found: int = self.step(
            "expire",
            lambda: self.wire.run("task/expire", args)[2],
            lambda: passing.expire(self.model, again_ms=AGAIN_MS),
        )
        return found

    def revive(self, task: str, *, life: int, definition: bytes = b"", delay_ms: int = 0) -> str:
        args: dict[str, Argument] = {
            "task": task,
            "life": life,
            "def": definition,
            "delay": delay_ms,
            "tries": MANY,
            "events": EVENTS,
            "steps": MANY,
            "page": MANY,
        }

        def run() -> str:
            word, *rest = self.wire.run("task/revive", args)
            return " ".join([word, *(rest[1:] if word == "OK" else rest)])

        found: str = self.step(
            "revive",
            run,
            lambda: operating.revive(
                self.model, task, life=life, definition=definition, delay_ms=delay_ms
            ),
        )
        return found

    def discard(self, tasks: Sequence[str]) -> list[str]:
        args: dict[str, Argument] = {"reason": "given up", "how": self.how}
        words: list[str] = self.step(
            "discard",
            lambda: self.wire.run("task/discard", args, [(task,) for task in tasks])[1:],
            lambda: operating.discard(self.model, tasks),
        )
        return words

    def set_priority(self, task: str, *, base: int, was: int) -> str:
        args: dict[str, Argument] = {"task": task, "priority": base, "was": was}
        return self.plain(
            "set_priority",
            args,
            operating.set_priority,
            base=base,
            was=was,
        )

    def reschedule(self, task: str, *, delay_ms: int) -> str:
        args: dict[str, Argument] = {"task": task, "delay": delay_ms, "at": ""}
        found: str = self.step(
            "reschedule",
            lambda: " ".join(map(str, self.wire.run("task/reschedule", args))).split(" 1")[0],
            lambda: operating.reschedule(self.model, task, delay_ms=delay_ms),
        )
        return found

    def edit(self, task: str, *, was: bytes, definition: bytes) -> str:
        args: dict[str, Argument] = {"task": task, "was": was, "def": definition}
        return self.plain("edit", args, operating.edit, was=was, definition=definition)

    def plain(
        self, verb: str, args: dict[str, Argument], expect: Callable[..., str], **facts: object
    ) -> str:
        """A verb about one task that answers with a word, and perhaps what was found."""
        found: str = self.step(
            verb,
            lambda: " ".join(self.wire.run(f"task/{verb}", args)),
            lambda: expect(self.model, args["task"], **facts),
        )
        return found

    def watch(self, box: str, tasks: Sequence[str]) -> list[str]:
        args: dict[str, Argument] = {"box": box, "keep_ms": TTL_MS}
        words: list[str] = self.step(
            "watch",
            lambda: self.wire.run("task/watch", args, [(task,) for task in tasks])[1:],
            lambda: operating.watch(self.model, box, tasks),
        )
        return words

    def pause(self, what: str) -> None:
        self.step(
            "pause",
            lambda: self.wire.run("queue/pause", {"what": what}) and None,
            lambda: operating.pause(self.model, what),
        )

    def resume(self, what: str) -> None:
        lanes = json.dumps(sorted(self.model.lanes.values()))
        args: dict[str, Argument] = {"what": what, "lanes": lanes, "tries": MANY}
        self.step(
            "resume",
            lambda: self.wire.run("queue/resume", args) and None,
            lambda: operating.resume(self.model, what),
        )

    def archived(self, entries: int) -> int:
        there = [entry for entry, _ in self.wire.dump().content.get("outbox", [])][:entries]
        if not there:
            return 0
        found: int = self.step(
            "archived",
            lambda: self.wire.run("queue/archived", {"ttl": TTL_MS}, [(e,) for e in there])[1],
            lambda: operating.archived(self.model, entries),
        )
        return found

    def read_mail(self, box: str) -> str | None:
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
