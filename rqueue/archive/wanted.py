"""Which lives of tasks are asked for, as conditions of SQL. What a caller gives is data: it goes
beside the statement, never into it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.model.forms import automechanica, reference
from rqueue.model.state import FINAL, State

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

# Every word for a final state, of whichever document, in small letters.
WORDS: Mapping[str, State] = {
    word.lower(): state
    for words in ({state: state.value for state in State}, reference.STATUS, automechanica.STATUS)
    for state, word in words.items()
    if state in FINAL
}
NEWEST = "NOT EXISTS (SELECT FROM rqueue.task_lives n WHERE n.id = t.id AND n.life > t.life)"
# A payload that PostgreSQL cannot hold as JSON is searched as it is written.
PAYLOAD = "coalesce((t.spec -> 'p')::text, encode(t.definition, 'escape'))"
# What may come after the backslash of an escape in JSON, and all that comes before what is none.
ESCAPED = frozenset("bfnrtu\\")
ALIGNED = r"(^|[^\\])(\\\\)*"
# What a regular expression could take for its own.
ODD = re.compile(r"[^\w\s]")


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that fit everything given. `since` and `until` are about the end of the task, `until` is
    no longer within. `agent` is who it was for, or the worker that did it; `text` stands in the
    error or the payload, whatever its case. With `all_lives`, not only the newest.
    """

    states: frozenset[State] = frozenset()
    type: str | None = None
    tag: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    agent: str | None = None
    worker: str | None = None
    dag: UUID | None = None
    all_lives: bool = False

    def condition(self, queue: str) -> tuple[str, dict[str, object]]:
        """The condition for rows `t` of rqueue.task_lives, and its parameters."""
        given: dict[str, object] = {"queue": queue}
        parts = ["t.queue = %(queue)s"]
        for name, (value, part) in self.tests().items():
            if value is not None:
                given[name] = value
                parts.append(part)
        if self.text is not None:
            part, words = containing(self.text)
            given |= words
            parts.append(part)
        if not self.all_lives:
            parts.append(NEWEST)
        return " AND ".join(parts), given

    def tests(self) -> dict[str, tuple[object, str]]:
        """What is compared with a column: the value, None for any, and how."""
        states = [state.value for state in sorted(self.states)] or None
        return {
            "states": (states, "t.state = ANY(%(states)s)"),
            "type": (self.type, "t.type = %(type)s"),
            "tags": (None if self.tag is None else [self.tag], "t.tags @> %(tags)s::text[]"),
            "since": (self.since, "t.finished_at >= %(since)s"),
            "until": (self.until, "t.finished_at < %(until)s"),
            "agent": (self.agent, "(t.agent_name = %(agent)s OR t.worker = %(agent)s)"),
            "worker": (self.worker, "t.worker = %(worker)s"),
            # A task that is alone is a DAG of one, by its own id.
            "dag": (self.dag, "(t.dag_id = %(dag)s OR t.id = %(dag)s)"),
        }


def containing(text: str) -> tuple[str, dict[str, object]]:
    """The condition that a text stands in the error, in a text of the payload, or, where it has
    quotes and is itself no escape, across the payload as JSON is written.
    """
    quoted = in_json(text)
    given: dict[str, object] = {"text": like(text), "quoted": like(quoted)}
    within = f"{PAYLOAD} ILIKE %(quoted)s ESCAPE '\\'"
    if quoted[0].lower() in ESCAPED:
        # Asked only where the first is true: an "n" may be that of a \\n.
        given["aligned"] = ALIGNED + ODD.sub(r"\\\g<0>", quoted)
        within = f"({within} AND {PAYLOAD} ~* %(aligned)s)"
    found = ["t.error ILIKE %(text)s ESCAPE '\\'", within]
    if quoted != text and "\\" not in text:
        found.append(f"{PAYLOAD} ILIKE %(text)s ESCAPE '\\'")
    return f"({' OR '.join(found)})", given


def like(text: str) -> str:
    """A pattern that finds the text as it stands."""
    for odd in ("\\", "%", "_"):
        text = text.replace(odd, f"\\{odd}")
    return f"%{text}%"


def in_json(text: str) -> str:
    """The text as it stands within a text of JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
