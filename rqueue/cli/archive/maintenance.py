"""`rqueue archive metrics, prune, restore, verify, leave`: maintenance of the archive."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.main import nothing
from rqueue.cli.options import when
from rqueue.cli.output.tables import Columns, Printer, note
from rqueue.cli.session import on_queue

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.maintenance.metrics import Period, QueueMetrics
    from rqueue.archive.maintenance.verify import Verified
    from rqueue.dead.rebuild import Restored
    from rqueue.queue import Queue

# Lives listed as text; with --json all are listed.
MAX_NAMED = 20


def seconds(value: float | None) -> str:
    """A number of seconds as text."""
    return "" if value is None else f"{value:.2f}s"


def worst(row: QueueMetrics) -> str:
    """The agent with the highest failure rate, if one failed."""
    rates = sorted(row.error_rates_per_agent.items(), key=lambda one: (-one[1], one[0]))
    return f"{rates[0][0]} {rates[0][1]:.0%}" if rates and rates[0][1] else ""


COLUMNS: Columns[QueueMetrics] = {
    "START": lambda row: f"{row.start:%Y-%m-%d %H:%M}",
    "CREATED": lambda row: str(row.tasks_created),
    "COMPLETED": lambda row: str(row.tasks_completed),
    "FAILED": lambda row: str(row.tasks_failed),
    "LATENCY": lambda row: seconds(row.average_latency),
    "HEARTBEAT": lambda row: seconds(row.worker_heartbeat_delay),
    "WORST AGENT": worst,
}


@click.command()
@click.option(
    "--period",
    type=click.Choice(["minute", "hour", "day"]),
    default="day",
    show_default=True,
    help="The period of a row.",
)
@click.option(
    "--since", callback=when, metavar="TIME", help="From this time on. [default: recent rows]"
)
@click.option("--until", callback=when, metavar="TIME", help="Before this time.")
@on_queue
async def metrics(
    queue: Queue,
    out: Printer,
    *,
    period: Period,
    since: datetime | None,
    until: datetime | None,
) -> None:
    """Show the metrics of each minute, hour or day.

    Prints the rows of task_queue_metrics. The period of the last row is not over.
    """
    rows = await queue.archive.metrics(period, since=since, until=until)
    out.rows(rows, COLUMNS, lambda row: {**asdict(row), "start": row.start.isoformat()})


@click.command()
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted.")
@on_queue
async def prune(queue: Queue, out: Printer, *, dry_run: bool) -> None:
    """Delete what the setting `retention` does not keep.

    By default everything is kept.
    """
    found = await queue.archive.prune(dry_run=dry_run)
    counted = {each.name: getattr(found, each.name) for each in fields(found)}
    lines = [f"{name.replace('_', ' '):16} {number}" for name, number in counted.items()]
    out.one({**counted, "dry_run": dry_run}, *lines)
    if queue.settings.retention.is_for_ever:
        note("everything is kept forever: set `retention` to change this")


@click.command()
@click.option("--task", metavar="ID", help="The task, by its id or its external_id.")
@click.option("--dag", metavar="ID", help="The DAG.")
@click.option(
    "--all/--incomplete",
    "whole",
    default=True,
    show_default=True,
    help="All tasks of a DAG, or only those that did not complete.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@on_queue
async def restore(
    queue: Queue, out: Printer, *, task: str | None, dag: str | None, whole: bool, dry_run: bool
) -> None:
    """Enqueue an ended task or DAG again.

    The new tasks have new ids, the same definition, and the old id in the header restored-from.
    """
    if (task is None) == (dag is None):
        raise click.UsageError("give either --task or --dag")
    if task is not None:
        if not whole:
            raise click.UsageError("--incomplete needs --dag")
        done = await queue.archive.restore(task, dry_run=dry_run)
    else:
        named = str(dag)
        done = await queue.archive.restore_dag(named, incomplete=not whole, dry_run=dry_run)
    print_restored(out, done, dry_run=dry_run)


def print_restored(out: Printer, done: Restored, *, dry_run: bool) -> None:
    """Prints which tasks were restored."""
    word = "would be restored as"
    if not dry_run:
        word = "is restored as" if done.created else "was restored before as"
    document = {
        "tasks": done.tasks,
        "dag": done.dag,
        "notes": done.notes,
        "created": done.created,
        "dry_run": dry_run,
    }
    head = [] if done.dag is None else [f"{done.dag} {'would have' if dry_run else 'has'}:"]
    shown = "a new task" if dry_run else None
    out.one(document, *head, *(f"{old} {word} {shown or new}" for old, new in done.tasks.items()))
    for line in () if out.as_json else done.notes:
        note(line)


@click.command()
@click.option(
    "--repair", is_flag=True, help="Put lost tasks into the outbox again and correct its counter."
)
@on_queue
async def verify(queue: Queue, out: Printer, *, repair: bool) -> None:
    """Compare the archive with the ended tasks in Redis.

    The queue keeps running. Exit 1 if a task is lost or differs.
    """
    with out.working("compare"):
        found = await queue.archive.verify(repair=repair)
    out.one(document_of(found), *lines_of(found))
    if not found.is_whole:
        raise nothing()


@click.command()
@on_queue
async def leave(queue: Queue, out: Printer) -> None:
    """Detach the archive from the queue.

    Refused while tasks wait to be archived. Stop all archivers first and set `archive: none`: a
    process with `archive: postgres` attaches the archive again.
    """
    await queue.archive.leave()
    out.one({"left": queue.name}, f"queue {queue.name} has no archive")
    if queue.settings.archive != "none":
        note("the settings here still have archive: postgres")


def document_of(found: Verified) -> dict[str, Any]:
    """The findings as a JSON document."""
    lives = ("lost", "different")
    document = {each.name: getattr(found, each.name) for each in fields(found)}
    named = {name: [{"id": id, "life": life} for id, life in document[name]] for name in lives}
    ends = {state.value: asdict(one) for state, one in found.ends.items()}
    sums = {"ends": ends, "unaccounted": found.unaccounted, "whole": found.is_whole}
    return {**document, **named, **sums}


def lines_of(found: Verified) -> list[str]:
    """The findings as lines of text."""
    counted = "busy" if found.counter is None else f"{found.counted} (counter {found.counter})"
    lines = [
        f"{'ended in Redis':16} {found.looked_at}",
        f"{'pending':16} {found.pending}",
        f"{'outbox':16} {counted}",
        f"{'lost':16} {len(found.lost)}",
        f"{'different':16} {len(found.different)}",
        f"{'quarantine':16} {found.quarantined}",
        f"{'conflicts':16} {found.conflicts}",
    ]
    for state, one in found.ends.items():
        figures = f"{one.counted} counted, {one.archived} archived, {one.waiting} pending"
        lines.append(f"{state.value:16} {figures}")
    lines += [f"{'unaccounted':16} at least {found.unaccounted}"] if found.unaccounted else []
    lines += [f"{'missing month':16} {name}" for name in found.missing_months]
    for word, lives in (("lost", found.lost), ("different", found.different)):
        lines += [f"{id} life {life} is {word}" for id, life in lives[:MAX_NAMED]]
    lines += [f"{'resent':16} {found.resent}"] if found.resent else []
    mended = found.recounted is not None
    return lines + ([f"{'counter set to':16} {found.recounted}"] if mended else [])
