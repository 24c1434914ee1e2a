"""The ground of our pydantic models, and the kinds of field they share.

A broken rule leaves as InvalidTask with the path of the field, never as pydantic's own error.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from rqueue.errors import InvalidTask

YEAR_SEC = 365 * 24 * 3600
MAX_PROSE = 200_000

Item = TypeVar("Item")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,255}")
PRINCIPAL = re.compile(
    r"(?:agent|human|cron|service|event|dag|system):[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}"
)
# C0, DEL, C1, the line separators and lone surrogates: what breaks a log line or a terminal.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

NAME_RULE = "is a name of letters, digits, '.', '_' and '-', at most 128, first a letter or digit"
LABEL_RULE = "is a label of letters, digits and . _ - : /, at most 256, first a letter or digit"
PRINCIPAL_RULE = "is kind:name, the kind one of agent, human, cron, service, event, dag, system"


class Checked(BaseModel):
    """A value that cannot change, knows all its fields, and says what is wrong with a wrong one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, **fields: object) -> Self:
        """The value with these fields, or InvalidTask."""
        return cls.parse(fields)

    @classmethod
    def parse(cls, fields: Mapping[str, object], *, within: str = "") -> Self:
        """The value a mapping describes, or InvalidTask; `within` is the path that leads here."""
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            raise broken(error.errors(include_url=False)[0], within) from None


def broken(found: ErrorDetails, within: str = "") -> InvalidTask:
    """What pydantic found, in our words."""
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
    """The error that a field's check raises; pydantic adds the path."""
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
    """The text, if it names a creator."""
    if PRINCIPAL.fullmatch(text) is None:
        raise refusal(PRINCIPAL_RULE)
    return text


def printable(text: str) -> str:
    """The text, if no log line or terminal is upset by it."""
    if CONTROL.search(text):
        raise refusal("contains a control character")
    return text


def storable(text: str) -> str:
    """The text, if every archive can keep it; lines and tabs are welcome."""
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
        raise refusal("has no time zone; say which, such as a Z for UTC")
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
