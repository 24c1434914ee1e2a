"""What a reviewer says of a decision on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rqueue.model.review import CAUSES

if TYPE_CHECKING:
    from rqueue.cli.session import Command


def saying(command: Command) -> Command:
    """Adds the options of every decision."""
    causes = ", ".join(CAUSES)
    options = (
        click.option("--dry-run", is_flag=True, help="Only say what would be done."),
        click.option("--by", metavar="WHO",
                     help="As kind:name. [default: setting `principal`, else human:<your user>]"),
        click.option("--note", metavar="TEXT", default="", help="What others should know."),
        click.option("--cause", metavar="WORD", default="", help=f"Why it died: {causes}, ..."),
    )  # fmt: skip
    for option in options:
        command = option(command)
    return command


def said_in(given: dict[str, Any]) -> dict[str, Any]:
    """What was said, in the queue's own words."""
    return {name: given[name] for name in ("cause", "note", "by")}
