"""A span of time as an option's value."""

from __future__ import annotations

from math import isnan
from typing import Any

import click

from rqueue.model.checked import YEAR_SEC


class Seconds(click.FloatRange):
    """Seconds from 0 to a year: what is longer cannot be waited for, nor what is no number."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(0, YEAR_SEC)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, or wrong usage."""
        found = float(super().convert(value, param, ctx))
        if isnan(found):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return found


SECONDS = Seconds()
