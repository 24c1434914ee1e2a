"""`rqueue workers` and `rqueue role`: the workers of a queue, and who may create tasks."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rqueue.cli.output.tables import Columns, Printer, note, span
from rqueue.cli.session import on_queue, shared_options
from rqueue.task.fields import ROLES
from rqueue.task.ids import TaskId

if TYPE_CHECKING:
    from rqueue.fleet.admin import WorkerInfo
    from rqueue.queue import Queue
    from rqueue.task.fields import Role

COMMANDLINE = ParameterSource.COMMANDLINE
SHOWN_TASKS = 3
SHOWN_TYPES = 5


def tasks_of(worker: WorkerInfo) -> str:
    """The first few tasks of a worker."""
    ids = [TaskId.from_ulid(lease.task) for lease in worker.held[:SHOWN_TASKS] if lease.task]
    more = len(worker.held) - len(ids)
    return ", ".join(ids) + (f" and {more} more" if more else "")


def leased(worker: WorkerInfo) -> str:
    """The number of tasks that it holds, and the most that it may hold."""
    most = (
        f"/{worker.registration.max_concurrent_tasks * max(worker.runs, 1)}"
        if worker.registration
        else ""
    )
    return f"{len(worker.held)}{most}"


def status_of(worker: WorkerInfo) -> str:
    """The status; `blamed` is added if the scheduler drained the worker for its failures."""
    from rqueue.core.workers import WorkerStatus  # noqa: PLC0415 - imports pydantic

    blamed = worker.blamed_at is not None and worker.status is not WorkerStatus.ACTIVE
    return f"{worker.status}, blamed" if blamed else worker.status


def offer_of(worker: WorkerInfo) -> str:
    """What the worker serves; empty for one that claims by hand, which is not registered."""
    offer = worker.registration
    if offer is None:
        return ""
    types = ["any type"] if offer.types is None else list(offer.types)
    more = f" and {len(types) - SHOWN_TYPES} more" if len(types) > SHOWN_TYPES else ""
    parts = [", ".join(types[:SHOWN_TYPES]) + more]
    parts += [f"can {', '.join(offer.capabilities)}"] if offer.capabilities else []
    parts += [f"as {', '.join(offer.agents)}"] if offer.agents else []
    parts += [f"with {', '.join(offer.models_available)}"] if offer.models_available else []
    return "; ".join(parts)


WORKERS: Columns[WorkerInfo] = {
    "WORKER": lambda worker: worker.name,
    "STATUS": status_of,
    "LEASED": leased,
    "LAST SEEN": lambda worker: f"{span(worker.silent_ms / 1000)} ago",
    "SERVES": offer_of,
    "TASKS": tasks_of,
}


@on_queue
async def list_workers(queue: Queue, out: Printer) -> None:
    """Prints all workers."""
    out.rows(await queue.fleet.workers(), WORKERS, worker_document)


@click.group(invoke_without_command=True)
@shared_options
@click.pass_context
def workers(ctx: click.Context, /, **given: Any) -> None:
    """List the workers of a queue and the tasks they hold.

    Status: `active` claims tasks; `draining` claims none and ends when its tasks are done;
    `offline` has ended or was silent for longer than a lease. `blamed` is drained because it failed
    tasks that others complete.
    """
    if ctx.invoked_subcommand is None:
        list_workers(**given)
        return
    early = [name for name in given if ctx.get_parameter_source(name) is COMMANDLINE]
    if early:
        raise click.UsageError(f"put the options after {ctx.invoked_subcommand}")


@workers.command()
@click.argument("name")
@on_queue
async def drain(queue: Queue, out: Printer, name: str) -> None:
    """Drain a worker: it claims no more tasks and ends when its tasks are done.

    A `*` in NAME matches any characters. Exit 1 if no live worker matches.
    """
    for one in await queue.fleet.drain(name):
        out.one({"worker": one, "status": "draining"}, f"{one} is draining")


def worker_document(worker: WorkerInfo) -> dict[str, object]:
    """A worker as a JSON document."""
    held = [
        {"id": TaskId.from_ulid(lease.task), "state": lease.state, "idle_ms": lease.idle_ms}
        for lease in worker.held
        if lease.task
    ]
    offer = asdict(worker.registration) if worker.registration else {}
    agents = offer.get("agents") or [None]
    return {
        "worker": worker.name,
        "id": worker.name,
        "type": agents[0],
        **{name: value for name, value in offer.items() if name != "draining"},
        "budget_remaining_usd": worker.budget_remaining_usd,
        "current_tasks": len(worker.held),
        "status": worker.status,
        "blamed_at": worker.blamed_at.isoformat() if worker.blamed_at else None,
        "runs": worker.runs,
        "last_heartbeat": worker.last_heartbeat.isoformat(),
        "idle_ms": worker.silent_ms,
        "tasks": held,
    }


ROLES_SHOWN: Columns[tuple[str, str]] = {
    "PRINCIPAL": lambda row: row[0],
    "ROLE": lambda row: row[1],
}


def role_document(row: tuple[str, str]) -> dict[str, object]:
    """A principal and its role as a JSON document."""
    return {"principal": row[0], "role": row[1]}


@click.group()
def role() -> None:
    """Show and set roles: who may create tasks.

    An orchestrator or a human may create any task, an agent may only spawn tasks in its own DAG.
    """


@role.command("list")
@on_queue
async def list_roles(queue: Queue, out: Printer) -> None:
    """List the principals that have a role of their own."""
    found = list((await queue.roles.list()).items())
    out.rows(found, ROLES_SHOWN, role_document)
    if not out.as_json:
        others = "all others have" if found else "no principal has a role of its own; all have"
        note(f"{others} the default, {queue.settings.default_role}")


@role.command("set")
@click.argument("name")
@click.argument("role", type=click.Choice(ROLES))
@on_queue
async def set_role(queue: Queue, out: Printer, name: str, *, role: Role) -> None:
    """Give the principal NAME, such as agent:coder, a role."""
    await queue.roles.set(name, role)
    out.one(role_document((name, role)), f"{name} has the role {role}")


@role.command("drop")
@click.argument("name")
@on_queue
async def drop_role(queue: Queue, out: Printer, name: str) -> None:
    """Remove the role of the principal NAME, which then has the default role."""
    await queue.roles.drop(name)
    default = queue.settings.default_role
    out.one(role_document((name, default)), f"{name} has the default role, {default}")
