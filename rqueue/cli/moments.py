"""An instant as an option's value: as people write it, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

from rqueue.client.door import instant_of
from rqueue.clock import SYSTEM
from rqueue.errors import InvalidTask

AGO = re.compile(r"([0-9]{1,6})([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
RULE = "is no instant: 2026-01-31, 2026-01-31T12:00:00Z, or how long ago, such as 24h or 7d"


def when(ctx: click.Context, param: click.Parameter, given: str | None) -> datetime | None:
    """The instant of an option, or wrong usage: ISO 8601 with its zone, a day of UTC, or a span
    before now.
    """
    if given is None:
        return None
    ago = AGO.fullmatch(given)
    try:
        if ago is not None:
            return SYSTEM.now() - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        if DAY.fullmatch(given):
            return datetime.fromisoformat(given).replace(tzinfo=UTC)
        return instant_of("when", given)
    except (InvalidTask, ValueError, OverflowError):
        raise click.BadParameter(f"{given!r} {RULE}") from None
