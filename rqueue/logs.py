"""Log lines: an event and its fields, for people in a terminal and as JSON everywhere else."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Literal, get_args

Style = Literal["auto", "human", "json"]
Level = Literal["debug", "info", "warning", "error"]
STYLES: tuple[Style, ...] = get_args(Style)
LEVELS: tuple[Level, ...] = get_args(Level)

# What every record has; all else in it was given as `extra`.
STANDARD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
MAX_TRACE = 8000
# The password in a URL, whoever wrote it into a line.
PASSWORD = re.compile(r"(\w://[^\s/@]*?:)[^\s/]*@")
COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[31m",
}
PLAIN, DIM = "\x1b[0m", "\x1b[2m"
# What every line of this process says beside its own fields, such as the worker's name.
FACTS: dict[str, object] = {}


def set_up(style: Style = "auto", level: Level | None = None) -> None:
    """Writes log lines to standard error, from `info` on; where the application has set up its
    own logging before, that is left as it is, and `level` alone holds, for our lines.
    """
    if level is not None:
        logging.getLogger("rqueue").setLevel(level.upper())
    root = logging.getLogger()
    if root.handlers:
        return
    terminal = sys.stderr.isatty()
    human = style == "human" or (style == "auto" and terminal)
    handler = logging.StreamHandler()
    handler.setFormatter(Human(coloured=terminal) if human else Json())
    root.addHandler(handler)
    # The debug lines of other libraries are not what is asked for.
    root.setLevel("INFO" if level in (None, "debug") else level.upper())
    # It warns of each transaction that a stop has cut off, which the server rolls back; what goes
    # wrong is raised, and told by who asked.
    logging.getLogger("psycopg").setLevel("ERROR")


def hush_drivers() -> None:
    """Keeps what drivers log from standard error where no log is set up, as in commands that end:
    Python would write it there, each try, above the one line of the error that they raise.
    """
    logging.getLogger("psycopg").addHandler(logging.NullHandler())


class Json(logging.Formatter):
    """One JSON object a line: time, level, event, logger, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record; nothing in it can break the line."""
        line: dict[str, object] = {
            "time": moment(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        for name, value in fields_of(record).items():
            line.setdefault(name, value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)[-MAX_TRACE:]
        return safe(json.dumps(line, default=str))


class Human(logging.Formatter):
    """Time, level and event, then the fields that are the line's own as name=value."""

    def __init__(self, *, coloured: bool) -> None:
        super().__init__()
        self.coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record; a traceback follows it."""
        at = moment(record).astimezone().strftime("%H:%M:%S.%f")[:-3]
        own = [(name, value) for name, value in fields_of(record).items() if name not in FACTS]
        fields = "".join(f"  {name}={shown(value)}" for name, value in own)
        level = f"{record.levelname.lower():<7}"
        event = record.getMessage()
        if self.coloured:
            level = f"{COLOURS.get(record.levelno, PLAIN)}{level}{PLAIN}"
            fields = f"{DIM}{fields}{PLAIN}" if fields else ""
        line = f"{at} {level} {record.name.removeprefix('rqueue.')}: {printable(event)}{fields}"
        if record.exc_info:
            trace = self.formatException(record.exc_info)[-MAX_TRACE:]
            line += "\n" + printable(trace)
        return safe(line)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The facts of the process, and what was given with the line."""
    own = {name: value for name, value in vars(record).items() if name not in STANDARD}
    return {**FACTS, **own}


def moment(record: logging.LogRecord) -> datetime:
    """When the line was written."""
    return datetime.fromtimestamp(record.created, UTC)


def shown(value: object) -> str:
    """A field's value on a line for people: in quotes where it would not be one word."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() and text and " " not in text else json.dumps(text)


def printable(text: str) -> str:
    """A text whose control characters are escaped, so that no task can command a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def safe(line: str) -> str:
    """The line without the passwords of URLs."""
    return PASSWORD.sub(r"\1***@", line) if "://" in line else line
