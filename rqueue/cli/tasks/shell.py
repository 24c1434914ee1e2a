"""Commands for workers written in a shell: claim, start, renew and settle a task."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.main import nothing
from rqueue.cli.options import SECONDS, from_argument
from rqueue.cli.session import all_of, on_queue
from rqueue.task.artifact import Artifact
from rqueue.task.attempt.outcome import Reason
from rqueue.task.forms import view
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.cli.output.tables import Printer
    from rqueue.queue import Queue
    from rqueue.worker.manual import Lease

# A loop around `rqueue claim` does not spin while there are no tasks.
WAIT_SEC = 10.0


def shell_name() -> str:
    """The worker name of this shell, the same for all commands that it starts."""
    host = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in hostname())
    return f"{host}-{os.getppid()}"


def hostname() -> str:
    """The host name without leading punctuation."""
    return socket.gethostname().lstrip(".-_") or "shell"


lease_options = all_of(
    click.argument("task", metavar="ID"),
    click.option(
        "--token",
        required=True,
        envvar="RQUEUE_TOKEN",
        metavar="TOKEN",
        help="The token printed by `claim`. [default: RQUEUE_TOKEN]",
    ),
)


def print_state(out: Printer, lease: Lease, state: State) -> None:
    """Prints the new state of a task."""
    out.one({"id": lease.id, "state": state}, f"{lease.id} {state}")


def reference_document(value: object) -> object:
    """The value of a reference as JSON; for an artifact its metadata."""
    return value.model_dump(mode="json") if isinstance(value, Artifact) else value


@click.command()
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Only tasks of this type. [repeatable]"
)
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    metavar="C",
    help="A capability of this worker. [repeatable]",
)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME",
    help="Also tasks for this agent. [repeatable]",
)
@click.option(
    "--worker",
    envvar="RQUEUE_WORKER",
    metavar="NAME",
    help="The worker's name. [default: host and shell]",
)
@click.option("--wait", type=float, default=WAIT_SEC, show_default=True, help="Seconds to wait.")
@click.option("--no-start", is_flag=True, help="Leave the task CLAIMED until `start`.")
@on_queue
async def claim(
    queue: Queue,
    out: Printer,
    *,
    worker: str | None,
    no_start: bool,
    types: tuple[str, ...],
    **offer: Any,
) -> None:
    """Claim a task and print its id and token.

    Takes the most urgent task that this worker may run and starts it. The lease lasts as long as
    `heartbeat` renews it in time. With --json the whole task is printed, with payload and token.
    Exit 1 if no task came in time.
    """
    leases = await queue.claim(worker=worker or shell_name(), types=types or None, **offer)
    if not leases:
        raise nothing()
    (lease,) = leases
    if not no_start:
        await lease.start()
    if out.as_json:
        task = {**view(await queue.get(lease.id)), "payload": lease.payload}
        found = {ref: reference_document(value) for ref, value in lease.task.references.items()}
        seen = {"references": found} if found else {}
        out.json({**task, **seen, "token": lease.token, "worker": lease.worker})
    else:
        click.echo(f"{lease.id} {lease.token}")


@click.command()
@lease_options
@on_queue
async def start(queue: Queue, out: Printer, task: str, token: str) -> None:
    """Mark a claimed task as running."""
    lease = await queue.lease(task, token)
    await lease.start()
    print_state(out, lease, State.RUNNING)


@click.command()
@lease_options
@on_queue
async def heartbeat(queue: Queue, out: Printer, task: str, token: str) -> None:
    """Renew the lease of a task.

    Exit 3 if the lease is lost: stop the work.
    """
    lease = await queue.lease(task, token)
    await lease.renew()
    if out.as_json:
        out.json({"id": lease.id, "held": True})


@click.command()
@click.option("--usd", type=float, default=0.0, metavar="N", help="Dollars.")
@click.option("--tokens-in", type=int, default=0, metavar="N", help="Input tokens.")
@click.option("--tokens-out", type=int, default=0, metavar="N", help="Output tokens.")
@click.option("--model", metavar="NAME", help="The model.")
@lease_options
@on_queue
async def spend(queue: Queue, out: Printer, task: str, token: str, **cost: Any) -> None:
    """Add to the recorded cost of a task.

    Exit 3 if the task exceeds its budget: end it with `fail --reason budget_exceeded`.
    """
    lease = await queue.lease(task, token)
    await lease.spend(**cost)
    if out.as_json:
        out.json({"id": lease.id, **cost})


@click.command()
@click.option("--result", metavar="JSON", help="The result; `-` reads standard input.")
@click.option("--text", metavar="TEXT", help="A plain text result.")
@lease_options
@on_queue
async def complete(
    queue: Queue, out: Printer, task: str, token: str, *, result: str | None, text: str | None
) -> None:
    """Complete a task, with an optional result."""
    if result is not None and text is not None:
        raise click.UsageError("give either --result or --text")
    value = text if result is None else from_argument(result, "--result")
    lease = await queue.lease(task, token)
    await lease.complete(value)
    print_state(out, lease, State.COMPLETED)


@click.command()
@click.option(
    "--reason",
    type=click.Choice([str(reason) for reason in Reason]),
    default=str(Reason.ERROR),
    show_default=True,
    help="The reason.",
)
@click.option(
    "--message", default="", metavar="TEXT", help="The error message, stored with the task."
)
@click.option("--permanent", is_flag=True, help="Do not retry.")
@click.option("--retry-after", type=SECONDS, metavar="SEC", help="Retry after this many seconds.")
@lease_options
@on_queue
async def fail(queue: Queue, out: Printer, task: str, token: str, **how: Any) -> None:
    """Report that an attempt has failed.

    The retry policy decides the new state: RETRYING or DEAD_LETTERED is printed.
    """
    lease = await queue.lease(task, token)
    print_state(out, lease, await lease.fail(**how))


@click.command()
@lease_options
@on_queue
async def release(queue: Queue, out: Printer, task: str, token: str) -> None:
    """Release a task without spending an attempt."""
    lease = await queue.lease(task, token)
    await lease.release()
    print_state(out, lease, State.READY)
