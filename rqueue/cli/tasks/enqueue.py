"""`rqueue enqueue`: one task from the command line, or many from documents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from rqueue.cli.options import documents, from_argument
from rqueue.cli.output.tables import Printer, note
from rqueue.cli.session import on_queue
from rqueue.errors import InvalidTask
from rqueue.task.codec import decode
from rqueue.task.forms import FORMS, Form, read

if TYPE_CHECKING:
    from rqueue.producer.handle import Handle
    from rqueue.queue import Queue

PAGE = 500


@click.command()
@click.argument("type", required=False)
@click.argument("payload", metavar="[JSON]", required=False)
@click.option("--priority", type=float, help="Priority, on the queue's scale.")
@click.option("--scale", help="Scale of the priority: native, 1-10 or 0-3.")
@click.option("--delay", type=float, metavar="SEC", help="Start after this many seconds.")
@click.option("--at", metavar="TIME", help="Start at this time, such as 2030-01-31T12:00:00Z.")
@click.option("--deadline", metavar="TIME", help="More urgent as this time approaches.")
@click.option(
    "--expires", metavar="SEC|TIME", help="Cancel the task if it has not started by then."
)
@click.option(
    "--timeout", "timeout_sec", type=float, metavar="SEC", help="Maximum duration of an attempt."
)
@click.option("--max-attempts", type=int, help="Maximum number of attempts.")
@click.option("--idempotency-key", metavar="KEY", help="One task for each key.")
@click.option("--external-id", metavar="ID", help="Your own id of the task.")
@click.option("--agent", "agent_name", metavar="NAME", help="Only for this agent.")
@click.option("--title", help="A readable title.")
@click.option("--tag", "tags", multiple=True, help="A tag for searching. [repeatable]")
@click.option(
    "--capability",
    "required_capabilities",
    multiple=True,
    help="A required capability. [repeatable]",
)
@click.option("--limit-key", metavar="KEY", help="The tenant, for turns and limits.")
@click.option("--depends-on", multiple=True, metavar="ID", help="Run after this task. [repeatable]")
@click.option(
    "--set", "others", multiple=True, metavar="FIELD=JSON", help="Set any other field. [repeatable]"
)
@click.option(
    "--file", type=click.File("rb"), help="YAML or JSON documents; `-` reads standard input."
)
@click.option(
    "--form", type=click.Choice(FORMS, case_sensitive=False), help="The form of the documents."
)
@on_queue
async def enqueue(
    queue: Queue, out: Printer, type: str | None, payload: str | None, **given: Any
) -> None:
    """Enqueue a task and print its id.

    The payload is JSON; `-` reads it from standard input. With --file, each document becomes a
    task; all are checked before the first is sent.
    """
    file, form, others = given.pop("file"), given.pop("form"), given.pop("others")
    fields = {name: value for name, value in given.items() if value not in (None, ())}
    if file is not None:
        if type is not None or fields or others:
            raise click.UsageError(
                "--file takes no other arguments: the documents contain all fields"
            )
        print_ids(out, await send(queue, out, checked(file, form), form))
        return
    if type is None:
        raise click.UsageError("give the task's type, or --file")
    if form is not None:
        raise click.UsageError("--form needs --file")
    if "expires" in fields:
        fields["expires"] = expiry_of(fields["expires"])
    value = None if payload is None else from_argument(payload, "payload")
    fields |= dict(field_of(word) for word in others)
    print_ids(out, await queue.enqueue_many([queue.call(type, value, **fields)]))


def expiry_of(word: str) -> float | str:
    """A number of seconds, or the text of an instant unchanged."""
    try:
        return float(word)
    except ValueError:
        return word


def field_of(word: str) -> tuple[str, object]:
    """The name and the value in FIELD=JSON; a value that is not JSON is a string."""
    name, equals, text = word.partition("=")
    if not equals:
        raise click.UsageError(f"--set {word}: use FIELD=JSON")
    try:
        return name, decode(text.encode(errors="surrogateescape"), field=name)
    except InvalidTask:
        return name, text


def checked(file: BinaryIO, form: Form | None) -> list[Mapping[str, Any]]:
    """The documents of a file. Raises InvalidTask with the number of the first invalid one."""
    found = documents(file.read())
    for at, document in enumerate(found, 1):
        try:
            read(document, form)
        except InvalidTask as error:
            raise InvalidTask(f"document {at}: {error.field}", error.rule) from error
    return found


async def send(
    queue: Queue, out: Printer, found: Sequence[Mapping[str, Any]], form: Form | None
) -> list[Handle]:
    """Enqueues the documents, PAGE at a time."""
    pages = [found[start : start + PAGE] for start in range(0, len(found), PAGE)]
    handles: list[Handle] = []
    for page in out.tracked(pages, "enqueue"):
        calls = (queue.enqueue_document(document, form=form) for document in page)
        handles += await asyncio.gather(*calls)
    return handles


def print_ids(out: Printer, handles: Sequence[Handle]) -> None:
    """Prints the ids, and notes which tasks existed before."""
    for handle in handles:
        out.one({"id": handle.id, "created": handle.created}, str(handle.id))
        if not handle.created and not out.as_json:
            note(f"{handle.id} existed already")
