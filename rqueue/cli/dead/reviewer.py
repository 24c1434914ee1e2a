"""The author of a decision, and the options that every decision has.

Without --by and the setting `principal` it is the user of the operating system.
"""

from __future__ import annotations

import os
import pwd
import re
from typing import TYPE_CHECKING, Any, cast

import click

from rqueue.dead.reviews import CAUSES

if TYPE_CHECKING:
    from rqueue.cli.session import Command
    from rqueue.dead.decide import Decision, DecisionOptions
    from rqueue.dead.reviews import Resolution
    from rqueue.queue import Queue


# Characters that the name of a principal may not have, and its maximum length.
STRANGE = re.compile(r"[^A-Za-z0-9._-]+")
LONGEST = 128


def os_user() -> str:
    """The user of this process as a principal, such as `human:ada`; by uid if it has no name.

    Read from the password database, because anyone can set an environment variable.
    """
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    name = STRANGE.sub("-", name).strip("._-")[:LONGEST]
    return f"human:{name or f'uid-{uid}'}"


def saying(command: Command) -> Command:
    """Adds the options of every decision."""
    causes = ", ".join(CAUSES)
    options = (
        click.option("--dry-run", is_flag=True, help="Only print what would be done."),
        click.option("--by", metavar="WHO",
                     help="Author, kind:name. [default: setting `principal`, else human:<user>]"),
        click.option("--note", metavar="TEXT", default="", help="A note for other reviewers."),
        click.option("--cause", metavar="WORD", default="", help=f"Why it died: {causes}, ..."),
    )  # fmt: skip
    for option in options:
        command = option(command)
    return command


def decision_in(
    queue: Queue, resolution: Resolution, given: dict[str, Any], **more: Any
) -> Decision:
    """The decision from the options. Raises InvalidTask for an invalid one."""
    from rqueue.dead.decide import decision_of  # noqa: PLC0415 - commands import what they call

    said = {name: given[name] for name in ("cause", "note", "by")} | more
    return decision_of(
        resolution, cast("DecisionOptions", said), by=queue._internals.operations.reviewer
    )
