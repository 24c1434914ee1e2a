"""Log lines: an event and its fields, as text on a terminal and as JSON elsewhere."""

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

# The standard attributes of a log record; all others come from `extra`.
STANDARD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
MAX_TRACE = 8000
# Matches the password in a URL.
PASSWORD = re.compile(r"(\w://[^\s/@]*?:)[^\s/]*@")
COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[31m",
}
PLAIN, DIM = "\x1b[0m", "\x1b[2m"
# Fields of every line of this process, such as the worker's name.
FACTS: dict[str, object] = {}


def set_up(style: Style = "auto", level: Level | None = None) -> None:
    """Writes log lines to standard error, from `info` on. If the application has configured
    logging, only sets the level of rqueue's loggers.
    """
    if level is not None:
        logging.getLogger("rqueue").setLevel(level.upper())
    root = logging.getLogger()
    if root.handlers:
        return
    terminal = sys.stderr.isatty()
    human = style == "human" or (style == "auto" and terminal)
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter(coloured=terminal) if human else JsonFormatter())
    root.addHandler(handler)
    # Debug lines are written for rqueue only, not for other libraries.
    root.setLevel("INFO" if level in (None, "debug") else level.upper())
    # psycopg warns about each transaction that was cancelled and rolled back; errors are raised
    # anyway.
    logging.getLogger("psycopg").setLevel("ERROR")


def silence_drivers() -> None:
    """Hides the log lines of drivers in commands without logging. Python would otherwise print each
    retry to standard error, above the error of the command.
    """
    logging.getLogger("psycopg").addHandler(logging.NullHandler())


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, event, logger, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record as one line."""
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


class TextFormatter(logging.Formatter):
    """Time, level and event, then the line's own fields as name=value."""

    def __init__(self, *, coloured: bool) -> None:
        super().__init__()
        self.coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record as one line, followed by its traceback."""
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
    """Returns the fields of the process and those of the line."""
    own = {name: value for name, value in vars(record).items() if name not in STANDARD}
    return {**FACTS, **own}


def moment(record: logging.LogRecord) -> datetime:
    """Returns when the line was written."""
    return datetime.fromtimestamp(record.created, UTC)


def shown(value: object) -> str:
    """Formats a field's value for a text line; quotes it if it is not a single word."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() and text and " " not in text else json.dumps(text)


def printable(text: str) -> str:
    """Escapes control characters, so that the text of a task cannot control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def safe(line: str) -> str:
    """Removes passwords in URLs from a line."""
    return PASSWORD.sub(r"\1***@", line) if "://" in line else line
