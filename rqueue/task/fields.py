"""The base of the pydantic models, field types that they share, and money in millionths.

A broken rule raises InvalidTask with the path of the field, never pydantic's error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from rqueue.errors import InvalidTask
from rqueue.task.ids import DagId, TaskId
from rqueue.task.priority import to_native
from rqueue.task.references import RULE, artifact_in, task_in

YEAR_SEC = 365 * 24 * 3600
MAX_PROSE = 200_000
Item = TypeVar("Item")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,255}")
PRINCIPAL = re.compile(
    r"(?:agent|human|cron|service|event|dag|system):[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}"
)
# C0, DEL, C1, the line separators and lone surrogates: they break a log line or a terminal.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
NAME_RULE = "is a name of letters, digits, '.', '_' and '-', at most 128, first a letter or digit"
LABEL_RULE = "is a label of letters, digits and . _ - : /, at most 256, first a letter or digit"
PRINCIPAL_RULE = "is kind:name, the kind one of agent, human, cron, service, event, dag, system"


class Checked(BaseModel):
    """An immutable value without unknown fields; a wrong field raises InvalidTask."""

    # Most processes read and write few of the models: each is built when it is first used.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def of(cls, **fields: object) -> Self:
        """The value with these fields, or InvalidTask."""
        return cls.parse(fields)

    @classmethod
    def parse(cls, fields: Mapping[str, object], *, within: str = "") -> Self:
        """The value in a mapping, or InvalidTask; `within` is the path to it."""
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            raise broken(error.errors(include_url=False)[0], within) from None


def broken(found: ErrorDetails, within: str = "") -> InvalidTask:
    """Pydantic's error as InvalidTask."""
    path = within
    for step in found["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    match found["type"]:
        case "missing":
            rule = "is required"
        case "extra_forbidden":
            rule = "is not a known field"
        case _:
            rule = found["msg"].removeprefix("Value error, ").removeprefix("Input ")
            rule = rule[:1].lower() + rule[1:]
    return InvalidTask(path or "task", rule)


def refusal(rule: str) -> PydanticCustomError:
    """The error that a field's validator raises; pydantic adds the path."""
    return PydanticCustomError("rule", "{rule}", {"rule": rule})


def name(text: str) -> str:
    """The text, if it is a name."""
    if NAME.fullmatch(text) is None:
        raise refusal(NAME_RULE)
    return text


def label(text: str) -> str:
    """The text, if it is a label."""
    if LABEL.fullmatch(text) is None:
        raise refusal(LABEL_RULE)
    return text


def principal(text: str) -> str:
    """The text, if it is a principal."""
    if PRINCIPAL.fullmatch(text) is None:
        raise refusal(PRINCIPAL_RULE)
    return text


def printable(text: str) -> str:
    """The text, if it has no control characters."""
    if CONTROL.search(text):
        raise refusal("contains a control character")
    return text


def storable(text: str) -> str:
    """The text, if every store can hold it; line breaks and tabs are allowed."""
    if "\0" in text:
        raise refusal("contains a NUL character")
    return text


def instant(value: object) -> datetime:
    """An aware datetime, or one in ISO 8601 text with its offset; in UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise refusal("is not an instant in ISO 8601, such as 2026-02-09T12:00:00Z") from None
    if not isinstance(value, datetime):
        raise refusal("is an instant: an aware datetime or its ISO 8601 text")
    if value.utcoffset() is None:
        raise refusal("has no time zone; add one, such as Z for UTC")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise refusal("is out of the calendar's range") from None


def within_a_year(field: str, seconds: float) -> int:
    """A delay in whole milliseconds, or InvalidTask."""
    if not 0 <= seconds <= YEAR_SEC:
        raise InvalidTask(field, "is from 0 seconds to a year")
    return round(seconds * 1000)


def unique(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The items without repetitions, in their order."""
    return tuple(dict.fromkeys(items))


Name = Annotated[str, Field(strict=True), AfterValidator(name)]
Label = Annotated[str, AfterValidator(label)]
Principal = Annotated[str, AfterValidator(principal)]
Line = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(printable)]
Prose = Annotated[str, Field(max_length=MAX_PROSE), AfterValidator(storable)]
Instant = Annotated[datetime, BeforeValidator(instant)]
Seconds = Annotated[float, Field(ge=0, le=YEAR_SEC, strict=True, allow_inf_nan=False)]
PositiveSeconds = Annotated[Seconds, Field(gt=0)]
Usd = Annotated[float, Field(ge=0, le=1_000_000, strict=True, allow_inf_nan=False)]


def task_reference(text: str) -> str:
    """A TaskId where it is one, else the external id unchanged."""
    return reference(TaskId, text)


def dag_reference(text: str) -> str:
    """A DagId where it is one, else the external id unchanged."""
    return reference(DagId, text)


def reference(kind: type[TaskId] | type[DagId], text: str) -> str:
    """The id in a text, or the text; it is not checked whether it exists."""
    try:
        return kind.parse(text)
    except InvalidTask:
        return text


def native_priority(value: object) -> float:
    """A native priority."""
    try:
        return to_native(value)
    except InvalidTask as error:
        raise refusal(error.rule) from None


def rounded(rate: float) -> float:
    """The ageing rate, rounded to hundredths as lanes have it."""
    return round(rate, 2)


def output_reference(text: str) -> str:
    """The text, if it refers to the output of a task or to an artifact."""
    if task_in(text) is None and artifact_in(text) is None:
        raise refusal(RULE)
    return text


Priority = Annotated[float, BeforeValidator(native_priority)]
Rate = Annotated[
    float, Field(ge=0, le=100, strict=True, allow_inf_nan=False), AfterValidator(rounded)
]
TaskReference = Annotated[Line, AfterValidator(task_reference)]
DagReference = Annotated[Line, AfterValidator(dag_reference)]
Capabilities = Annotated[tuple[Name, ...], Field(max_length=32), AfterValidator(unique)]
Models = Annotated[tuple[Label, ...], Field(max_length=32), AfterValidator(unique)]
Lines = Annotated[tuple[Line, ...], Field(max_length=256), AfterValidator(unique)]
Tags = Annotated[tuple[Label, ...], Field(max_length=64), AfterValidator(unique)]
# The longest header that tracing sends, which is W3C baggage.
Header = Annotated[str, Field(max_length=8192, strict=True), AfterValidator(storable)]
Headers = Annotated[dict[Label, Header], Field(max_length=32)]
Dependencies = Annotated[
    tuple[TaskReference, ...], Field(max_length=10_000), AfterValidator(unique)
]
Reference = Annotated[Line, AfterValidator(output_reference)]
# Values of arguments that are filled when the task is claimed: the output of a task, the metadata
# of an artifact, or a list of them.
Inputs = Annotated[
    dict[Label, Reference | Annotated[tuple[Reference, ...], Field(max_length=10_000)]],
    Field(max_length=256),
]
MICRO = 1_000_000


def micro_usd(usd: float) -> int:
    """Dollars in millionths, the unit of moves."""
    return round(usd * MICRO)


def reserve_for(usd: float) -> int:
    """The amount to reserve for an estimate, in millionths, rounded up."""
    return math.ceil(round(usd * MICRO, 6))


def cost_class(micro: int) -> int:
    """The class of a price: k for what costs at least 2^(k-1) and less than 2^k, 0 for nothing.

    Tasks of one class share a lane: a worker without the budget for expensive ones skips them
    together.
    """
    return micro.bit_length()


def price_of(estimate_usd: float, most_usd: float | None) -> str:
    """The expected and the maximum cost of a task, as moves read it; "" without either."""
    estimate, most = reserve_for(estimate_usd), micro_usd(most_usd or 0.0)
    return f"{estimate}:{most}" if estimate or most else ""


# Orchestrators and humans create any task; an agent only spawns tasks in the DAG of its own task.
Role = Literal["orchestrator", "human", "agent"]
ROLES: tuple[Role, ...] = ("orchestrator", "human", "agent")
# Roles that may create any task, with any creator.
CREATORS: tuple[Role, ...] = ("orchestrator", "human")
# The principal of tasks from the inbox.
INBOX = "service:inbox"
