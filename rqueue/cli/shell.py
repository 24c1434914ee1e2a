"""The protocol for shell workers: claim a task, keep it, settle it, each a command of its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.exits import nothing
from rqueue.cli.payloads import from_argument
from rqueue.cli.seconds import SECONDS
from rqueue.cli.session import Command, on_queue
from rqueue.model.artifact import Artifact
from rqueue.model.attempt import Reason
from rqueue.model.forms import view
from rqueue.model.state import State

if TYPE_CHECKING:
    from rqueue.cli.output import Printer
    from rqueue.client.lease import Lease
    from rqueue.queue import Queue

# As long as the reference's claim waits for its turn: a loop around it does not spin.
WAIT_SEC = 10.0


def shell_name() -> str:
    """This shell as a worker: one name for all the commands that it starts."""
    host = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in hostname())
    return f"{host}-{os.getppid()}"


def hostname() -> str:
    """The machine's name, from its first letter or digit on."""
    return socket.gethostname().lstrip(".-_") or "shell"


def holding(command: Command) -> Command:
    """Adds what names a lease: the task and the token."""
    token = click.option(
        "--token",
        required=True,
        envvar="RQUEUE_TOKEN",
        metavar="TOKEN",
        help="What `claim` printed beside the id. [default: RQUEUE_TOKEN]",
    )
    named: Callable[[Command], Command] = click.argument("task", metavar="ID")
    return named(token(command))


def told(out: Printer, lease: Lease, state: State) -> None:
    """Says where a task has come to."""
    out.one({"id": lease.id, "state": state}, f"{lease.id} {state}")


def shown(value: object) -> object:
    """What a reference means, as JSON; of an artifact its facts."""
    return value.model_dump(mode="json") if isinstance(value, Artifact) else value


@click.command()
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Of this type. [repeatable]")
@click.option(
    "--capability", "capabilities", multiple=True, metavar="C", help="What this worker can do."
)
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="The agent it works for.")
@click.option(
    "--worker", envvar="RQUEUE_WORKER", metavar="NAME", help="Its name. [default: host and shell]"
)
@click.option("--wait", type=float, default=WAIT_SEC, show_default=True, help="Seconds to wait.")
@click.option("--no-start", is_flag=True, help="Leave it CLAIMED; `start` it soon.")
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
    """Take a task and print its id and token.

    It is the most urgent that this worker may serve; exit 1 when there is none. The task is RUNNING
    then and stays this worker's as long as `heartbeat` comes in time. With --json the whole task
    is printed, its payload and token among its fields.
    """
    leases = await queue.claim(worker=worker or shell_name(), types=types or None, **offer)
    if not leases:
        raise nothing()
    (lease,) = leases
    if not no_start:
        await lease.start()
    if out.as_json:
        task = {**view(await queue.get(lease.id)), "payload": lease.payload}
        found = {ref: shown(value) for ref, value in lease.task.references.items()}
        seen = {"references": found} if found else {}
        out.json({**task, **seen, "token": lease.token, "worker": lease.worker})
    else:
        click.echo(f"{lease.id} {lease.token}")


@click.command()
@holding
@on_queue
async def start(queue: Queue, out: Printer, task: str, token: str) -> None:
    """Say that the work on a claimed task begins."""
    lease = await queue.lease(task, token)
    await lease.start()
    told(out, lease, State.RUNNING)


@click.command()
@holding
@on_queue
async def heartbeat(queue: Queue, out: Printer, task: str, token: str) -> None:
    """Keep a task in hand.

    Exit 3 when it is no longer this worker's: the work must stop then.
    """
    lease = await queue.lease(task, token)
    await lease.renew()
    if out.as_json:
        out.json({"id": lease.id, "held": True})


@click.command()
@click.option("--usd", type=float, default=0.0, metavar="N", help="Dollars.")
@click.option("--tokens-in", type=int, default=0, metavar="N", help="Tokens a model was given.")
@click.option("--tokens-out", type=int, default=0, metavar="N", help="Tokens it gave.")
@click.option("--model", metavar="NAME", help="The model that was paid.")
@holding
@on_queue
async def spend(queue: Queue, out: Printer, task: str, token: str, **cost: Any) -> None:
    """Add to what a task has cost.

    Exit 3 when it costs more than it may: `fail` it then, with --reason budget_exceeded.
    """
    lease = await queue.lease(task, token)
    await lease.spend(**cost)
    if out.as_json:
        out.json({"id": lease.id, **cost})


@click.command()
@click.option("--result", metavar="JSON", help="The result; `-` reads it from standard input.")
@click.option("--text", metavar="TEXT", help="A result that is plain text.")
@holding
@on_queue
async def complete(
    queue: Queue, out: Printer, task: str, token: str, *, result: str | None, text: str | None
) -> None:
    """End a task well, with its result if there is one."""
    if result is not None and text is not None:
        raise click.UsageError("give --result or --text, one of them")
    value = text if result is None else from_argument(result, "--result")
    lease = await queue.lease(task, token)
    await lease.complete(value)
    told(out, lease, State.COMPLETED)


@click.command()
@click.option(
    "--reason",
    type=click.Choice([str(reason) for reason in Reason]),
    default=str(Reason.ERROR),
    show_default=True,
    help="Why, in one word.",
)
@click.option("--message", default="", metavar="TEXT", help="The error; it is kept with the task.")
@click.option("--permanent", is_flag=True, help="Never try again.")
@click.option("--retry-after", type=SECONDS, metavar="SEC", help="Try again so much later.")
@holding
@on_queue
async def fail(queue: Queue, out: Printer, task: str, token: str, **how: Any) -> None:
    """End an attempt as failed.

    The retry policy decides what becomes of the task: RETRYING or DEAD_LETTERED is printed.
    """
    lease = await queue.lease(task, token)
    told(out, lease, await lease.fail(**how))


@click.command()
@holding
@on_queue
async def release(queue: Queue, out: Printer, task: str, token: str) -> None:
    """Give a task back unused; no attempt is spent."""
    lease = await queue.lease(task, token)
    await lease.release()
    told(out, lease, State.READY)
