"""`rqueue enqueue`: one task by words, or many by documents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from rqueue.cli.output import Printer, note
from rqueue.cli.payloads import documents, from_argument
from rqueue.cli.session import on_queue
from rqueue.errors import InvalidTask
from rqueue.model.codec import decode
from rqueue.model.forms import FORMS, Form, read

if TYPE_CHECKING:
    from rqueue.client.handle import Handle
    from rqueue.queue import Queue

PAGE = 500


@click.command()
@click.argument("type", required=False)
@click.argument("payload", metavar="[JSON]", required=False)
@click.option("--priority", type=float, help="Its urgency, on the queue's scale.")
@click.option("--scale", help="Another scale: native, 1-10 or 0-3.")
@click.option("--delay", type=float, metavar="SEC", help="Not before so many seconds.")
@click.option("--at", metavar="TIME", help="Not before, such as 2030-01-31T12:00:00Z.")
@click.option("--deadline", metavar="TIME", help="Urgent as it comes near.")
@click.option("--expires", metavar="SEC|TIME", help="Cancelled if it has not started by then.")
@click.option("--timeout", "timeout_sec", type=float, metavar="SEC", help="Longest attempt.")
@click.option("--max-attempts", type=int, help="How often it may fail.")
@click.option("--idempotency-key", metavar="KEY", help="The same key means the same task.")
@click.option("--external-id", metavar="ID", help="Your own id of it.")
@click.option("--agent", "agent_name", metavar="NAME", help="For this agent alone.")
@click.option("--title", help="For people.")
@click.option("--tag", "tags", multiple=True, help="A word to find it by. [repeatable]")
@click.option("--capability", "required_capabilities", multiple=True, help="What it needs.")
@click.option("--limit-key", metavar="KEY", help="Whose turn and whose limits, such as a tenant.")
@click.option("--depends-on", multiple=True, metavar="ID", help="After this task. [repeatable]")
@click.option("--set", "others", multiple=True, metavar="FIELD=JSON", help="Any other field.")
@click.option("--file", type=click.File("rb"), help="Documents in YAML or JSON; `-` is stdin.")
@click.option("--form", type=click.Choice(FORMS, case_sensitive=False), help="Their form.")
@on_queue
async def enqueue(
    queue: Queue, out: Printer, type: str | None, payload: str | None, **given: Any
) -> None:
    """Put a task into the queue and print its id.

    The payload is JSON; `-` reads it from standard input. With --file, every document becomes a
    task; all are checked before the first is sent.
    """
    file, form, others = given.pop("file"), given.pop("form"), given.pop("others")
    fields = {name: value for name, value in given.items() if value not in (None, ())}
    if file is not None:
        if type is not None or fields or others:
            raise click.UsageError("with --file, all is said by the documents")
        told(out, await send(queue, out, checked(file, form), form))
        return
    if type is None:
        raise click.UsageError("give the task's type, or --file")
    if form is not None:
        raise click.UsageError("--form is said of documents: give --file too")
    if "expires" in fields:
        fields["expires"] = expiry_of(fields["expires"])
    value = None if payload is None else from_argument(payload, "payload")
    fields |= dict(field_of(word) for word in others)
    told(out, await queue.enqueue_many([queue.call(type, value, **fields)]))


def expiry_of(word: str) -> float | str:
    """Seconds from now, or an instant as it stands."""
    try:
        return float(word)
    except ValueError:
        return word


def field_of(word: str) -> tuple[str, object]:
    """A field of the task and its value, which is text where it is not JSON."""
    name, equals, text = word.partition("=")
    if not equals:
        raise click.UsageError(f"--set {word}: write FIELD=JSON")
    try:
        return name, decode(text.encode(errors="surrogateescape"), field=name)
    except InvalidTask:
        return name, text


def checked(file: BinaryIO, form: Form | None) -> list[Mapping[str, Any]]:
    """The documents of a file; the first that breaks a rule is named by its place."""
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
    """Enqueues documents, page by page."""
    pages = [found[start : start + PAGE] for start in range(0, len(found), PAGE)]
    handles: list[Handle] = []
    for page in out.tracked(pages, "enqueue"):
        calls = (queue.enqueue_document(document, form=form) for document in page)
        handles += await asyncio.gather(*calls)
    return handles


def told(out: Printer, handles: Sequence[Handle]) -> None:
    """Prints the ids, and says which tasks were there before."""
    for handle in handles:
        out.one({"id": handle.id, "created": handle.created}, str(handle.id))
        if not handle.created and not out.as_json:
            note(f"{handle.id} was there already")
