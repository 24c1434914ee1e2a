"""`rqueue archive` and `rqueue archiver`: what has ended, in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.archive_export import export
from rqueue.cli.archive_seeking import search
from rqueue.cli.archive_sums import events, spend
from rqueue.cli.archive_upkeep import leave, metrics, prune, restore, verify
from rqueue.cli.keeping import keep_all
from rqueue.cli.observing import observable, ports_of, set_up_logs
from rqueue.cli.session import on_queue, serving_queue
from rqueue.errors import ConfigError
from rqueue.services.naming import worker_name
from rqueue.services.roster import archiving

if TYPE_CHECKING:
    from rqueue.archive.connection import Archive
    from rqueue.cli.output import Printer
    from rqueue.queue import Queue


@click.group()
def archive() -> None:
    """Keep what has ended in PostgreSQL, and ask for it."""


for command in (search, export, spend, events, metrics, prune, restore, verify, leave):
    archive.add_command(command)


@archive.command()
@on_queue
async def migrate(queue: Queue, out: Printer) -> None:
    """Bring the archive's tables up to date.

    Safe to run twice, and from two processes at once.
    """
    # The archive's own package is an extra.
    from rqueue.archive.migrating import migrate_all  # noqa: PLC0415

    done = await migrate_all(archive_of(queue), queue.clock.now())
    steps = [f"{step.version:04}_{step.name}" for step in done]
    out.one({"migrated": steps}, *([f"did {step}" for step in steps] or ["up to date"]))


@click.command()
@observable
@serving_queue
async def archiver(queue: Queue, out: Printer, **options: Any) -> None:
    """Bring what ends into the archive, and keep that in order.

    Any number may run, beside the one that each scheduler has.
    """
    set_up_logs(options)
    name = worker_name()
    services = archiving(queue.place, archive_of(queue), name)
    await keep_all(queue, services, ports_of(options), name=name)


def archive_of(queue: Queue) -> Archive:
    """The archive of a queue, or a ConfigError where it has none."""
    if queue.runtime.archive is None:
        rule = "is none: set RQUEUE_POSTGRES_URL, or postgres_url in rqueue.yaml"
        raise ConfigError("archive", rule)
    return queue.runtime.archive
