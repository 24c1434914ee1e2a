"""Options that several commands share, types of their values, and JSON and document input."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import TYPE_CHECKING, Any

import click

from rqueue import log
from rqueue.cli.session import all_of
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidTask
from rqueue.task.codec import MAX_DEPTH, decode
from rqueue.task.fields import YEAR_SEC
from rqueue.task.forms.document import MAX_DOCUMENT_DEPTH, NO_MAPPING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.process.http_listener import Address
    from rqueue.process.monitor import Ports


AGO = re.compile(r"([0-9]{1,6})([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
RULE = "is not a time: use 2026-01-31, 2026-01-31T12:00:00Z, or an age such as 24h or 7d"


def when(ctx: click.Context, param: click.Parameter, given: str | None) -> datetime | None:
    """Parses an instant: ISO 8601 with a zone, a day in UTC, or an age. Raises BadParameter."""
    if given is None:
        return None
    from rqueue.producer.arguments import instant_of  # noqa: PLC0415 - imports the store

    ago = AGO.fullmatch(given)
    try:
        if ago is not None:
            return SYSTEM.now() - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        if DAY.fullmatch(given):
            return datetime.fromisoformat(given).replace(tzinfo=UTC)
        return instant_of("when", given)
    except (InvalidTask, ValueError, OverflowError):
        raise click.BadParameter(f"{given!r} {RULE}") from None


class Seconds(click.FloatRange):
    """A number of seconds from 0 to a year; NaN is refused."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(0, YEAR_SEC)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number of seconds. Fails as wrong usage if it is not one."""
        found = float(super().convert(value, param, ctx))
        if isnan(found):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return found


SECONDS = Seconds()
# The form of a time in a filter, with its zone.
BEFORE = ["%Y-%m-%dT%H:%M:%S%z"]
row_limit = click.option(
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of rows.",
)


def instant(text: str, option: str = "--at") -> datetime:
    """The instant in a text. The queue refuses one without a time zone."""
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(
            f"{option} {text}: use ISO 8601, such as 2030-01-31T12:00:00Z"
        ) from error


STDIN = "-"
# At the start of a line these always separate two documents, also inside block texts.
MARKER = re.compile(rb"^---(?=\s|$)", re.MULTILINE)


def from_argument(text: str, name: str) -> JsonValue:
    """The JSON value of an argument, or of standard input for `-`."""
    # Bytes that are not UTF-8 come as surrogates: they are turned back, and decode refuses them.
    word = text.encode(errors="surrogateescape")
    data = sys.stdin.buffer.read() if text == STDIN else word
    try:
        return decode(data, field=name, max_depth=MAX_DEPTH)
    except InvalidTask as error:
        raise click.UsageError(f"{error}; write a string in double quotes: '\"text\"'") from error


def documents(data: bytes) -> list[Mapping[str, Any]]:
    """The documents in a file: YAML documents, a list, one JSON value, or one on each line."""
    found: list[Mapping[str, Any]] = []
    for value in values(data):
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, Mapping):
                raise InvalidTask(f"document {len(found) + 1}", NO_MAPPING)
            found.append(one)
    return found


def values(data: bytes) -> Iterator[object]:
    """Yields the values in a text, in order."""
    if data.lstrip()[:1] in (b"{", b"["):
        yield from json_values(data)
        return
    from rqueue.task.forms.yaml_text import parse_yaml  # noqa: PLC0415 - PyYAML loads slowly

    before = 0
    for part in MARKER.split(data):
        value = parse_yaml(part, before=before)
        before += part.count(b"\n")
        if value is not None:
            yield value


def json_values(data: bytes) -> Iterator[object]:
    """Yields one JSON value, or one for each line."""
    try:
        yield decode(data, field="document", max_depth=MAX_DOCUMENT_DEPTH)
    except InvalidTask as error:
        lines = [line for line in data.splitlines() if line.strip()]
        if len(lines) == 1 or not is_json(lines[0]):
            raise placed(error) from error
        for at, line in enumerate(lines, 1):
            yield decode(line, field=f"line {at}", max_depth=MAX_DOCUMENT_DEPTH)


def is_json(line: bytes) -> bool:
    """Whether a line is a complete JSON value, as in JSON Lines."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def placed(error: InvalidTask) -> InvalidTask:
    """The error with the line and column at which the text is invalid, if known."""
    cause = error.__cause__
    if not isinstance(cause, json.JSONDecodeError):
        return error
    return InvalidTask(error.field, f"{error.rule}: see line {cause.lineno}, column {cause.colno}")


MAX_PORT = 65_535


def address(text: str) -> Address:
    """Parses PORT or HOST:PORT; the default host is loopback. Raises BadParameter."""
    from rqueue.process.http_listener import LOCAL, Address  # noqa: PLC0415 - imports asyncio

    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > MAX_PORT:
        raise click.BadParameter(f"{text!r} is neither PORT nor HOST:PORT")
    return Address(host.strip("[]") or LOCAL, int(port))


# The options of serving commands; `ports_of` and `set_up_logs` take them out again.
observable = all_of(
    click.option(
        "--metrics-port",
        type=address,
        metavar="[HOST:]PORT",
        help="Serve Prometheus metrics at /metrics.",
    ),
    click.option(
        "--health-port",
        type=address,
        metavar="[HOST:]PORT",
        help="Serve probes at /healthz and /readyz.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(log.STYLES),
        default="auto",
        help="The format of log lines.",
    ),
    click.option("--log-level", type=click.Choice(log.LEVELS), help="The lowest level to log."),
)


def ports_of(options: dict[str, Any]) -> Ports:
    """Takes the ports to listen on out of the options."""
    from rqueue.process.monitor import Ports  # noqa: PLC0415 - imports the store

    return Ports(metrics=options.pop("metrics_port"), health=options.pop("health_port"))


def set_up_logs(options: dict[str, Any]) -> None:
    """Takes the log options out of the options and sets up logging."""
    log.set_up(options.pop("log_format"), options.pop("log_level"))
