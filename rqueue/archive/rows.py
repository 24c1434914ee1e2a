"""Rows of task_lives: an ended task as the columns of its row, and its record back as a task.

The record is one JSON text with everything that Redis stores of a task besides its definition and
result. Bytes that are not UTF-8 are lone surrogates in it and are restored unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.archive.copying import (
    INT_DIGITS,
    MAX_ERROR,
    MAX_NAME,
    NULL,
    PART_DIGITS,
    escaped,
    has_nul,
    hexed,
    json_of,
    number_in,
    quoted,
)
from rqueue.core.reader import Stored
from rqueue.store.replies import (
    UNREADABLE,
    dag_in,
    entry_ms,
    failure_in,
    holder_in,
    life,
    natural,
    words,
)
from rqueue.task.ids import TaskId, number_of, ulid_of
from rqueue.task.lane import POINT
from rqueue.task.priority import DEFAULT_PRIORITY
from rqueue.task.state import FINAL, State

if TYPE_CHECKING:
    from rqueue.core.ended import EndedTask
    from rqueue.core.outbox import OutboxItem
    from rqueue.task.attempt.outcome import AttemptRecord


PIECES = tuple(f"def{digit}" for digit in range(8))
BESIDE = ("failures", "notes", "logs", "parents", "steps")


def quarantine_data(kept: EndedTask, task: bytes) -> bytes:
    """Returns all stored data of a task as JSON, for a quarantined item."""
    names = ("flat", "definition", "result", *BESIDE)
    found = {name: as_text(getattr(kept, name)) for name in names}
    return json.dumps({"id": as_text(task), **found}).encode()


def as_text(part: bytes | Sequence[bytes]) -> str | list[str]:
    """Returns bytes as text from which `bytes_of` restores them."""
    if isinstance(part, bytes):
        return part.decode(errors="surrogateescape")
    return [word.decode(errors="surrogateescape") for word in part]


def record_of(kept: EndedTask, fields: Mapping[str, str]) -> bytes:
    """Returns the record of a task: its hash (`fields`) and its lists, as JSON."""
    record: dict[str, Any] = {
        "task": {name: value for name, value in fields.items() if name not in PIECES}
    }
    for name in BESIDE:
        found = getattr(kept, name)
        if found:
            record[name] = as_text(found)
    return json.dumps(record, separators=(",", ":")).encode()


def stored_in(record: bytes, definition: bytes, result: bytes) -> Stored:
    """Returns the data of an archived task in the form in which Redis stores it. Raises one of
    UNREADABLE if the record is invalid.
    """
    found: Any = json.loads(record)
    beside = {name: [bytes_of(word) for word in found.get(name, ())] for name in BESIDE}
    return Stored(
        {words(bytes_of(name)): words(bytes_of(value)) for name, value in found["task"].items()},
        definition,
        result,
        records=beside["failures"],
        note_fields=beside["notes"],
        log_lines=beside["logs"],
        dependency_list=beside["parents"],
        step_names=beside["steps"],
    )


def bytes_of(text: str) -> bytes:
    """Returns the bytes that a text of a record encodes."""
    return text.encode(errors="surrogateescape")


class Attempts(NamedTuple):
    """A COPY line for each failed attempt, and the error and the model of the latest."""

    lines: list[str]
    error: str
    model: str


def failure_lines(id: str, type: str, records: Sequence[bytes]) -> Attempts:
    """Returns the failed attempts of a task. Unreadable records are skipped; the record of the
    task still contains them.
    """
    lines: list[str] = []
    error = model = NULL
    for data in records:
        try:
            record = failure_in(data)
        except UNREADABLE:
            continue
        error = escaped(record.error[:MAX_ERROR])
        model = NULL if record.model is None else escaped(record.model[:MAX_NAME])
        lines.append(failure_line(id, type, record, error=error, model=model))
    return Attempts(lines, error, model)


def failure_line(id: str, type: str, record: AttemptRecord, *, error: str, model: str) -> str:
    """Returns the COPY line of one attempt. `type`, `error` and `model` are already escaped."""
    columns = (
        id,
        str(record.epoch),
        str(record.attempt),
        type,
        NULL if record.agent is None else escaped(record.agent[:MAX_NAME]),
        record.reason.value,
        error,
        NULL if record.duration_sec is None else repr(record.duration_sec),
        str(round(record.cost_usd * POINT)),
        str(record.tokens),
        model,
        NULL if record.at is None else record.at.isoformat(),
    )
    return "\t".join(columns) + "\n"


def cost_columns(kept: EndedTask) -> dict[str, str]:
    """Returns the cost columns of this life, without late costs, and the model."""
    totals = {word.decode(errors="replace"): kept.notes[2 * at + 1].decode(errors="replace")
            for at, word in enumerate(kept.notes[::2])}  # fmt: skip
    found = {
        "cost_micro_usd": own_total(totals, "micro_usd", ""),
        "tokens_input": own_total(totals, "tokens_in", "_in"),
        "tokens_output": own_total(totals, "tokens_out", "_out"),
    }
    if "model" in totals:
        found["model"] = escaped(totals["model"][:MAX_NAME])
    return found


def own_total(totals: Mapping[str, str], name: str, part: str) -> str:
    """Returns the total of all lives without earlier lives and late costs."""
    total, *others = (
        int(number_in(totals, one, PART_DIGITS)) for one in (name, f"before{part}", f"late{part}")
    )
    return str(max(0, total - sum(others)))


# Fields of a definition without options: the type and, unless it is empty, the payload.
PLAIN = frozenset({"t", "p"})
COLUMNS = (
    "id", "life", "state", "type", "dag_id", "parent_id", "agent_name", "worker", "model",
    "priority", "attempts", "reclaims", "parks", "epoch", "created_ms", "started_ms",
    "finished_ms", "discarded_ms", "reason", "error", "cancel_reason", "poison_pill",
    "cost_micro_usd", "tokens_input", "tokens_output", "idempotency_sha", "external_sha", "tags",
    "definition", "is_spec", "result", "is_output", "record", "digest",
)  # fmt: skip
# The type of a task whose definition cannot be read.
UNKNOWN = "unknown"


# A task and the number of one of its lives.
Life = tuple[TaskId, int]


class Unfit(Exception):
    """An item of the outbox cannot be stored as a row; the text is the reason."""


@dataclass(slots=True)
class Row:
    """The row of an ended life, as columns escaped for COPY."""

    ulid: str
    life: int
    columns: dict[str, str]
    failures: list[str] = field(default_factory=list)

    @property
    def dag(self) -> str | None:
        """The ULID of the task's DAG; None for a single task."""
        found = self.columns.get("dag_id")
        return None if found is None else ulid_of(int(found, 16))

    @property
    def digest(self) -> str:
        """Equal for equal ends of a life."""
        return self.columns["digest"]

    @property
    def is_typed(self) -> bool:
        """Whether the task's type is known."""
        return self.columns["type"] != UNKNOWN

    @property
    def is_discarded(self) -> bool:
        """Whether a reviewer has discarded the task since it died."""
        return "discarded_ms" in self.columns

    def line(self) -> bytes:
        """Returns the row in COPY format. Lone surrogates are replaced; the columns with raw bytes
        keep them.
        """
        get = self.columns.get
        text = "\t".join([get(name, NULL) for name in COLUMNS]) + "\n"
        return text.encode(errors="replace")

    @property
    def has_json(self) -> bool:
        """Whether the row has a column that PostgreSQL parses as JSON."""
        return "t" in (self.columns["is_spec"], self.columns["is_output"])

    def without_json(self) -> Row:
        """Returns the row with raw bytes only, for JSON that PostgreSQL cannot store."""
        columns = {**self.columns, "is_spec": "f", "is_output": "f"}
        return Row(self.ulid, self.life, columns, self.failures)


@dataclass(frozen=True, slots=True)
class EndLine:
    """A parsed line of the outbox: a life, its final state and, if present, a snapshot."""

    life: int
    state: str
    copy: bytes = b""


def end_in(line: OutboxItem) -> EndLine:
    """Parses a line of the outbox. Raises Unfit if it is invalid."""
    life, _, rest = line.value.partition(b" ")
    state, _, copy = rest.partition(b" ")
    try:
        end = EndLine(natural(life), state.decode(), copy)
    except ValueError:
        raise Unfit("the line of the outbox is invalid") from None
    if end.state not in FINAL:
        raise Unfit("the line of the outbox has no final state")
    return end


def life_in(line: OutboxItem) -> Life | None:
    """Returns the life whose end a line of the outbox contains; None if it contains none."""
    try:
        return TaskId.parse(line.task.decode()), end_in(line).life
    except (Unfit, *UNREADABLE):
        return None


def row_of(line: OutboxItem, kept: EndedTask, lane_type: str | None = None) -> Row:
    """Returns the row of an ended task. Raises Unfit if its data is missing or invalid. `lane_type`
    is the type of its lane, used if the definition cannot be decoded.
    """
    try:
        return checked_row(line, kept, lane_type)
    except UNREADABLE as error:
        # Only the type of an unforeseen error: its text may contain data of the task.
        raise Unfit(f"{type(error).__name__} while reading the task") from error


def checked_row(line: OutboxItem, kept: EndedTask, lane_type: str | None) -> Row:
    """Returns the row. Raises Unfit or one of UNREADABLE if a required part is invalid."""
    end = end_in(line)
    words = [word.decode(errors="surrogateescape") for word in kept.flat]
    fields = dict(zip(words[::2], words[1::2], strict=True))
    try:
        ulid = line.task.decode()
        number = number_of(ulid)
        state, now = State(fields["state"]), life(fields.get("more", ""))
    except UNREADABLE:
        raise Unfit("the data of the task is missing or unreadable") from None
    if now != end.life or end.state != state:
        raise Unfit(f"the task is now {state} in life {now}")
    columns = {
        "id": f"{number:032x}",
        "life": str(end.life),
        "state": state.value,
        **time_columns(fields, number >> 80),
        **counter_columns(fields),
        **content_columns(kept, fields, lane_type),
    }
    if kept.notes:
        columns |= cost_columns(kept)
    if fields.get("flags"):
        columns |= reference_columns(fields)
    if state is not State.COMPLETED:
        columns |= reason_columns(fields, state)
    columns["digest"] = digest(end, fields, kept)
    row = Row(ulid, end.life, columns)
    if kept.failures:
        attempts = failure_lines(columns["id"], columns["type"], kept.failures)
        row.failures, columns["error"] = attempts.lines, attempts.error
        if state is State.DEAD_LETTERED or "discarded" in fields:
            # The model of a task that died is in the record of its last attempt.
            columns.setdefault("model", attempts.model)
    return row


def time_columns(fields: Mapping[str, str], made_ms: int) -> dict[str, str]:
    """Returns the times of the life in milliseconds of the server, and the worker."""
    try:
        claimed, started, owner = holder_in(fields.get("holder", "0 0 "))
        begun = entry_ms(fields["entry"]) if "entry" in fields else made_ms
        created = natural(fields["created"]) if "created" in fields else begun
        finished = natural(fields["finished"])
    except UNREADABLE:
        raise Unfit("the times of the task are unreadable") from None
    found = {"created_ms": str(created), "finished_ms": str(finished)}
    ms = started or claimed
    if ms:
        found |= {"started_ms": str(ms), "worker": escaped(owner[:MAX_NAME])}
    if "discarded" in fields:
        found["discarded_ms"] = number_in(fields, "discarded")
    return found


def counter_columns(fields: Mapping[str, str]) -> dict[str, str]:
    """Returns the counters of a task; costs are 0 until `cost_columns` replaces them."""
    epoch = fields.get("token", "0").partition(":")[0]
    return {
        "epoch": number_in({"epoch": epoch}, "epoch", INT_DIGITS),
        "attempts": number_in(fields, "attempts", INT_DIGITS),
        "reclaims": number_in(fields, "reclaims", INT_DIGITS),
        "parks": number_in(fields, "parks", INT_DIGITS),
        "poison_pill": "t" if fields.get("poison") == "1" else "f",
        "cost_micro_usd": "0",
        "tokens_input": "0",
        "tokens_output": "0",
    }


def content_columns(
    kept: EndedTask, fields: Mapping[str, str], lane_type: str | None
) -> dict[str, str]:
    """Returns the definition, the result and the record as bytes, and the columns that SQL filters
    by.
    """
    spec = json_of(kept.definition)
    options: Mapping[str, Any] = spec if isinstance(spec, dict) else {}
    found = {
        "type": escaped(str(options.get("t") or lane_type or UNKNOWN)[:MAX_NAME]),
        "priority": priority(options, fields),
        "definition": hexed(kept.definition),
        "is_spec": "f" if spec is None or has_nul(kept.definition) else "t",
        "is_output": "f",
        "record": hexed(record_of(kept, fields)),
    }
    if kept.result:
        found["result"] = hexed(kept.result)
        is_json = kept.result == b"null" or json_of(kept.result) is not None
        found["is_output"] = "t" if is_json and not has_nul(kept.result) else "f"
    if not options.keys() <= PLAIN:
        found |= option_columns(options)
    return found


def option_columns(options: Mapping[str, Any]) -> dict[str, str]:
    """Returns the columns of options that plain tasks do not have."""
    found: dict[str, str] = {}
    if isinstance(options.get("agent_name"), str):
        found["agent_name"] = escaped(options["agent_name"][:MAX_NAME])
    parent = options.get("parent_id")
    if isinstance(parent, str):
        with suppress(*UNREADABLE):
            found["parent_id"] = f"{TaskId.parse(parent).uuid.int:032x}"
    tags = options.get("tags")
    if isinstance(tags, list) and tags:
        # Valid tags are shorter. The index would refuse a row with a longer one.
        found["tags"] = escaped("{" + ",".join(quoted(str(tag)[:MAX_NAME]) for tag in tags) + "}")
    return found


def reference_columns(fields: Mapping[str, str]) -> dict[str, str]:
    """Returns the DAG of a task, and the hashes of its idempotency key and its external id."""
    found: dict[str, str] = {}
    try:
        dag = dag_in(fields["flags"])
        more = dict(json.loads(fields.get("more") or "{}"))
    except UNREADABLE:
        return found
    if dag is not None:
        found["dag_id"] = f"{number_of(dag.ulid):032x}"
    if more.get("unique") == "until_start":
        # The key was free again when the task started: a later task with it is not a duplicate.
        more.pop("idem", None)
    for name, key in (("idem", "idempotency_sha"), ("ext", "external_sha")):
        if isinstance(more.get(name), str):
            found[key] = escaped(more[name][:MAX_NAME])
    return found


def reason_columns(fields: Mapping[str, str], state: State) -> dict[str, str]:
    """Returns why the task did not complete."""
    found: dict[str, str] = {}
    if "reason" in fields:
        found["reason"] = escaped(fields["reason"][:MAX_NAME])
    if state is State.CANCELLED and "why" in fields:
        found["cancel_reason"] = escaped(fields["why"][:MAX_ERROR])
    return found


def digest(end: EndLine, fields: Mapping[str, str], kept: EndedTask) -> str:
    """Returns a hash of life, state, time, definition and result: equal for equal ends of a life.
    A discarded task has the digest of its death.
    """
    state = fields["state"] if "discarded" not in fields else State.DEAD_LETTERED.value
    head = f"{end.life} {state} {fields['finished']} {len(kept.definition)} ".encode()
    return hexed(sha256(head + kept.definition + kept.result).digest()[:16])


def priority(options: Mapping[str, Any], fields: Mapping[str, str]) -> str:
    """Returns the priority of a task: the one that was set last, else that of its definition."""
    try:
        if "priority" in fields:
            return repr(int(fields["priority"]) / POINT)
        given = options.get("priority", DEFAULT_PRIORITY)
        return repr(float(given)) if isinstance(given, int | float) else NULL
    except UNREADABLE:
        return NULL
