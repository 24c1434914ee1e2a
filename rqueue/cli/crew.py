"""`rqueue workers`: who works on a queue, and how one is sent home."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rqueue.cli.output import Columns, Printer, span
from rqueue.cli.session import on_queue, shared_options
from rqueue.model.ids import TaskId
from rqueue.model.worker import WorkerStatus

if TYPE_CHECKING:
    from rqueue.client.fleet import WorkerInfo
    from rqueue.queue import Queue

COMMANDLINE = ParameterSource.COMMANDLINE
SHOWN_TASKS = 3
SHOWN_TYPES = 5


def tasks_of(worker: WorkerInfo) -> str:
    """The first few tasks of a worker."""
    ids = [TaskId.from_ulid(lease.task) for lease in worker.held[:SHOWN_TASKS] if lease.task]
    more = len(worker.held) - len(ids)
    return ", ".join(ids) + (f" and {more} more" if more else "")


def in_hand(worker: WorkerInfo) -> str:
    """How many tasks it has, and may have, at once."""
    most = f"/{worker.said.max_concurrent_tasks * max(worker.runs, 1)}" if worker.said else ""
    return f"{len(worker.held)}{most}"


def status_of(worker: WorkerInfo) -> str:
    """How it is; and of one that takes no work whether it was blamed."""
    blamed = worker.blamed_at is not None and worker.status is not WorkerStatus.ACTIVE
    return f"{worker.status}, blamed" if blamed else worker.status


def offer_of(worker: WorkerInfo) -> str:
    """What it serves; nothing is known of one that claims by hand."""
    said = worker.said
    if said is None:
        return ""
    types = ["any type"] if said.types is None else list(said.types)
    more = f" and {len(types) - SHOWN_TYPES} more" if len(types) > SHOWN_TYPES else ""
    parts = [", ".join(types[:SHOWN_TYPES]) + more]
    parts += [f"can {', '.join(said.capabilities)}"] if said.capabilities else []
    parts += [f"as {', '.join(said.agents)}"] if said.agents else []
    parts += [f"with {', '.join(said.models_available)}"] if said.models_available else []
    return "; ".join(parts)


WORKERS: Columns[WorkerInfo] = {
    "WORKER": lambda worker: worker.name,
    "STATUS": status_of,
    "IN HAND": in_hand,
    "LAST HEARD": lambda worker: f"{span(worker.silent_ms / 1000)} ago",
    "SERVES": offer_of,
    "TASKS": tasks_of,
}


@on_queue
async def listing(queue: Queue, out: Printer) -> None:
    """Prints every worker."""
    out.rows(await queue.workers(), WORKERS, document)


@click.group(invoke_without_command=True)
@shared_options
@click.pass_context
def workers(ctx: click.Context, /, **given: Any) -> None:
    """Show who works on the queue and has what in hand.

    `active` takes work, `draining` takes none any more, `offline` has left or has been silent for
    longer than a lease; `blamed`: it was sent home because it failed what others completed.
    """
    if ctx.invoked_subcommand is None:
        listing(**given)
        return
    early = [name for name in given if ctx.get_parameter_source(name) is COMMANDLINE]
    if early:
        raise click.UsageError(f"options stand behind {ctx.invoked_subcommand}")


@workers.command()
@click.argument("name")
@on_queue
async def drain(queue: Queue, out: Printer, name: str) -> None:
    """Send a worker home: it takes no more work, and ends when what it has is done.

    A `*` in NAME stands for anything. Exit 1 where no such worker is at work.
    """
    for one in await queue.drain_worker(name):
        out.one({"worker": one, "status": "draining"}, f"{one} drains")


def document(worker: WorkerInfo) -> dict[str, object]:
    """A worker for programs."""
    held = [
        {"id": TaskId.from_ulid(lease.task), "state": lease.state, "idle_ms": lease.idle_ms}
        for lease in worker.held
        if lease.task
    ]
    said = asdict(worker.said) if worker.said else {}
    agents = said.get("agents") or [None]
    return {
        "worker": worker.name,
        "id": worker.name,
        "type": agents[0],
        **{name: value for name, value in said.items() if name != "draining"},
        "budget_remaining_usd": worker.budget_remaining_usd,
        "current_tasks": len(worker.held),
        "status": worker.status,
        "blamed_at": worker.blamed_at.isoformat() if worker.blamed_at else None,
        "runs": worker.runs,
        "last_heartbeat": worker.last_heartbeat.isoformat(),
        "idle_ms": worker.silent_ms,
        "tasks": held,
    }
