"""What searches and totals of the archive can be filtered and grouped by.

Filters become SQL conditions; values given by callers are passed as parameters, never as part of
the statement. The command line imports this module without the rest of the archive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from rqueue.task.forms import automechanica, reference
from rqueue.task.state import FINAL, State

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

# Every name of a final state in any document form, in lower case.
WORDS: Mapping[str, State] = {
    word.lower(): state
    for words in ({state: state.value for state in State}, reference.STATUS, automechanica.STATUS)
    for state, word in words.items()
    if state in FINAL
}
# What totals can be grouped by.
By = Literal["type", "agent", "worker", "model", "day"]
BYS: tuple[By, ...] = get_args(By)

NEWEST = "NOT EXISTS (SELECT FROM rqueue.task_lives n WHERE n.id = t.id AND n.life > t.life)"
# A payload that PostgreSQL cannot store as JSON is searched in the raw definition.
PAYLOAD = "coalesce((t.spec -> 'p')::text, encode(t.definition, 'escape'))"
# Characters that may follow the backslash of a JSON escape, and a prefix that matches up to a
# position that is not inside an escape.
ESCAPED = frozenset("bfnrtu\\")
ALIGNED = r"(^|[^\\])(\\\\)*"
# Characters that may have a meaning in a regular expression.
ODD = re.compile(r"[^\w\s]")


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """A filter; all given conditions must match. `since` and `until` bound the end of the task,
    `until` is excluded. `agent` is the task's agent or the worker that ran it. `text` occurs in the
    error or the payload, ignoring case. With `all_lives`, all lives match, not only the newest.
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
        """Returns the condition for rows `t` of rqueue.task_lives, and its parameters."""
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
        """Returns the conditions on columns by name: the value, None for any, and its SQL."""
        states = [state.value for state in sorted(self.states)] or None
        return {
            "states": (states, "t.state = ANY(%(states)s)"),
            "type": (self.type, "t.type = %(type)s"),
            "tags": (None if self.tag is None else [self.tag], "t.tags @> %(tags)s::text[]"),
            "since": (self.since, "t.finished_at >= %(since)s"),
            "until": (self.until, "t.finished_at < %(until)s"),
            "agent": (self.agent, "(t.agent_name = %(agent)s OR t.worker = %(agent)s)"),
            "worker": (self.worker, "t.worker = %(worker)s"),
            # A single task is a DAG of one task, under its own id.
            "dag": (self.dag, "(t.dag_id = %(dag)s OR t.id = %(dag)s)"),
        }


def containing(text: str) -> tuple[str, dict[str, object]]:
    """Returns the condition that the error or a string in the payload contains a text, and its
    parameters. A text with quotes but no backslash may also match the JSON text of the payload
    across several strings.
    """
    quoted = in_json(text)
    given: dict[str, object] = {"text": like(text), "quoted": like(quoted)}
    within = f"{PAYLOAD} ILIKE %(quoted)s ESCAPE '\\'"
    if quoted[0].lower() in ESCAPED:
        # Evaluated only if the first condition is true: an "n" may belong to an escape such as \\n.
        given["aligned"] = ALIGNED + ODD.sub(r"\\\g<0>", quoted)
        within = f"({within} AND {PAYLOAD} ~* %(aligned)s)"
    found = ["t.error ILIKE %(text)s ESCAPE '\\'", within]
    if quoted != text and "\\" not in text:
        found.append(f"{PAYLOAD} ILIKE %(text)s ESCAPE '\\'")
    return f"({' OR '.join(found)})", given


def like(text: str) -> str:
    """Returns a LIKE pattern that matches any value that contains the text literally."""
    for odd in ("\\", "%", "_"):
        text = text.replace(odd, f"\\{odd}")
    return f"%{text}%"


def in_json(text: str) -> str:
    """Returns the text as it is written within a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
