"""`rqueue dag submit`: a whole DAG from a plan in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from rqueue.cli.dag_export import document
from rqueue.cli.dag_picture import tally
from rqueue.cli.dag_watch import ended
from rqueue.cli.output import Printer, note
from rqueue.cli.payloads import documents
from rqueue.cli.session import on_queue
from rqueue.errors import DagFailed, InvalidTask
from rqueue.model.dag import DagStatus

if TYPE_CHECKING:
    from rqueue.queue import Queue


@click.command()
@click.argument("file", metavar="FILE", type=click.File("rb"))
@click.option("--wait", is_flag=True, help="Until it has ended.")
@on_queue
async def submit(queue: Queue, out: Printer, file: BinaryIO, *, wait: bool) -> None:
    """Submit a DAG from a plan and print its id.

    The plan is YAML or JSON; `-` reads it from standard input. It is taken whole or not at all.
    With --wait, exit 3 when it does not complete.
    """
    submitted = await queue.submit_plan(plan_in(file.read()))
    id = submitted.id
    if not wait:
        out.one({"id": id}, str(id))
        return
    if not out.as_json:
        click.echo(str(id))
    with out.measured("dag") as heard:
        found = await ended(queue, id, heard)
    if out.as_json:
        out.json(document(found))
    elif found.status is DagStatus.COMPLETED:
        note(f"{found.status}: {tally(found)}")
    if found.status is not DagStatus.COMPLETED:
        what = f"`rqueue dag show {id}` says where"
        raise DagFailed(id, status=found.status, reason=f"{found.reason or tally(found)}; {what}")


def plan_in(data: bytes) -> Mapping[str, Any]:
    """The one plan of a file."""
    found = documents(data)
    if not found:
        raise InvalidTask("dag", "is not there: the file is empty")
    if len(found) > 1:
        rule = f"is one mapping with `tasks`; the file has {len(found)} documents"
        raise InvalidTask("dag", rule)
    return found[0]
