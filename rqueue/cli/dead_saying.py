"""What a reviewer says of a decision on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from rqueue.client.deciding import decision_of
from rqueue.model.review import CAUSES

if TYPE_CHECKING:
    from rqueue.cli.session import Command
    from rqueue.client.deciding import Decision, Told
    from rqueue.model.review import Resolution
    from rqueue.queue import Queue


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


def decision_in(
    queue: Queue, resolution: Resolution, given: dict[str, Any], **more: Any
) -> Decision:
    """The decision that was said, or InvalidTask."""
    said = {name: given[name] for name in ("cause", "note", "by")} | more
    return decision_of(resolution, cast("Told", said), by=queue.desk.reviewer)
