"""`rqueue dag submit`: submits a DAG from a plan in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from rqueue.cli.dag.export import document
from rqueue.cli.dag.picture import tally
from rqueue.cli.dag.watch import ended
from rqueue.cli.options import documents
from rqueue.cli.output.tables import Printer, note
from rqueue.cli.session import on_queue
from rqueue.errors import DagFailed, InvalidTask
from rqueue.task.dag import DagStatus

if TYPE_CHECKING:
    from rqueue.queue import Queue


@click.command()
@click.argument("file", metavar="FILE", type=click.File("rb"))
@click.option("--wait", is_flag=True, help="Wait until the DAG has ended.")
@on_queue
async def submit(queue: Queue, out: Printer, file: BinaryIO, *, wait: bool) -> None:
    """Submit a DAG from a plan and print its id.

    The plan is YAML or JSON; `-` reads it from standard input. The submission is atomic.
    With --wait, exit 3 if the DAG does not complete.
    """
    submitted = await queue.dags.submit(plan_in(file.read()))
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
        what = f"see `rqueue dag show {id}`"
        raise DagFailed(id, status=found.status, reason=f"{found.reason or tally(found)}; {what}")


def plan_in(data: bytes) -> Mapping[str, Any]:
    """The plan in a file. Raises InvalidTask unless there is exactly one."""
    found = documents(data)
    if not found:
        raise InvalidTask("dag", "is missing: the file is empty")
    if len(found) > 1:
        rule = f"is one mapping with `tasks`; the file has {len(found)} documents"
        raise InvalidTask("dag", rule)
    return found[0]
