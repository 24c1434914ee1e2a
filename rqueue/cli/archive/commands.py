"""`rqueue archive`, its group and `migrate`, and `rqueue archiver`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.archive.export import export
from rqueue.cli.archive.maintenance import leave, metrics, prune, restore, verify
from rqueue.cli.archive.search import events, search, spend
from rqueue.cli.options import observable, ports_of, set_up_logs
from rqueue.cli.session import on_queue, serving_queue
from rqueue.errors import ConfigError

if TYPE_CHECKING:
    from rqueue.archive.connection import Archive
    from rqueue.cli.output.tables import Printer
    from rqueue.queue import Queue


@click.group()
def archive() -> None:
    """Search and maintain the archive of ended tasks in PostgreSQL."""


for command in (search, export, spend, events, metrics, prune, restore, verify, leave):
    archive.add_command(command)


@archive.command()
@on_queue
async def migrate(queue: Queue, out: Printer) -> None:
    """Create or update the archive's tables.

    Safe to run twice, also from two processes concurrently.
    """
    # The archive's own package is an extra.
    from rqueue.archive.schema import migrate_all  # noqa: PLC0415

    done = await migrate_all(archive_of(queue), queue._internals.clock.now())
    steps = [f"{step.version:04}_{step.name}" for step in done]
    out.one({"migrated": steps}, *([f"applied {step}" for step in steps] or ["up to date"]))


@click.command()
@observable
@serving_queue
async def archiver(queue: Queue, out: Printer, **options: Any) -> None:
    """Write ended tasks to the archive and maintain it.

    Any number may run, in addition to the one in each scheduler.
    """
    from rqueue.cli.processes.serving import run_services  # noqa: PLC0415 - imported when called
    from rqueue.services import archive_services  # noqa: PLC0415
    from rqueue.worker.stats import worker_name  # noqa: PLC0415

    set_up_logs(options)
    name = worker_name()
    services = archive_services(queue._internals.service_parts, archive_of(queue), name)
    await run_services(queue, services, ports_of(options), name=name)


def archive_of(queue: Queue) -> Archive:
    """The archive of a queue. Raises ConfigError if it has none."""
    if queue._internals.runtime.archive is None:
        rule = "is none: set RQUEUE_POSTGRES_URL, or postgres_url in rqueue.yaml"
        raise ConfigError("archive", rule)
    return queue._internals.runtime.archive
